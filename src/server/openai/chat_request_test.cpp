// Chat requests: what the template gets, and how tools, constraints and limits are read; those that come as responses
// too.
#include "server/openai/chat_request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/openai/response_request.hpp"
#include "server/openai/test_support.hpp"

namespace minfer::server::openai {
namespace {

using test::failure_of;
using test::TestModel;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

struct Reader {
  explicit Reader(std::string_view source = test::kTemplate) : words(source), model(words.model) {}

  ChatRequest read(const std::string& text, bool strict = true) {
    const chat::Value body = parse_body(text);
    Fields fields(body, "", strict);
    return read_chat_request(fields, model);
  }
  ResponseRequest read_response(const std::string& text) {
    const chat::Value body = parse_body(text);
    Fields fields(body, "", true);
    return read_response_request(fields, model);
  }
  std::string render(const std::string& text, bool strict = true) { return render_chat(model, read(text, strict)); }
  std::string failure(const std::string& text, bool strict = true) {
    return failure_of([&] { render(text, strict); });
  }

  TestModel words;
  PreparedModel model;
};

constexpr const char* kHi = R"("messages": [{"role": "user", "content": "hi"}])";
constexpr const char* kTool = R"({"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}})";

std::string with(const std::string& more) {
  return fmt::format("{{{}, {}}}", kHi, more);
}

TEST(ChatRequest, MessagesGoThroughTheTemplate) {
  Reader reader;
  EXPECT_EQ(reader.render(with(R"("model": "tiny")")), "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatRequest, ContentPartsAreJoined) {
  Reader reader;
  EXPECT_EQ(reader.render(R"({"messages": [
      {"role": "developer", "content": "Be brief."},
      {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})"),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatRequest, CallsGoToTheTemplateAsObjects) {
  Reader reader;
  EXPECT_TRUE(reader.model.prompt.form().argument_objects);
  EXPECT_FALSE(reader.model.prompt.form().content_parts);
  EXPECT_EQ(
      reader.render(R"({"messages": [{"role": "user", "content": "1+2?"},
      {"role": "assistant", "content": null, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"b\": 2, \"a\": 1}"}}]},
      {"role": "tool", "tool_call_id": "c1", "content": "3"}], "tools": [)" +
                    std::string(kTool) + "]}"),
      "<|im_start|>system\nTools: <tool_call>" + std::string(kTool) +
          "<|im_end|>\n<|im_start|>user\n1+2?<|im_end|>\n<|im_start|>assistant\n<tool_call>add: {\"b\": 2, \"a\": "
          "1}</tool_call><|im_end|>\n<|im_start|>tool\n3<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatRequest, TemplatesThatWantTextArgumentsOrPartsGetThem) {
  Reader text(
      "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ '```json\n' + c.function.arguments }}"
      "{% endfor %}{% endfor %}");
  EXPECT_FALSE(text.model.prompt.form().argument_objects);
  Reader parts("{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}");
  EXPECT_TRUE(parts.model.prompt.form().content_parts);
  EXPECT_EQ(parts.render(with(R"("n": 1)")), "hi");
}

TEST(ChatRequest, AFinalMessageMayBeContinued) {
  Reader reader;
  const std::string messages =
      R"("messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hel "}])";
  EXPECT_EQ(reader.render("{" + messages + R"(, "continue_final_message": true})"),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nHel");
  EXPECT_THAT(reader.render("{" + messages + "}"), HasSubstr("Hel <|im_end|>\n<|im_start|>assistant\n"));
  EXPECT_THAT(reader.failure(with(R"("continue_final_message": true)")), HasSubstr("400 continue_final_message -:"));
  EXPECT_THAT(reader.failure("{" + messages + R"(, "continue_final_message": true, "add_generation_prompt": true})"),
              HasSubstr("can't both hold"));
}

TEST(ChatRequest, ATemplateWithoutToolsGetsThemAsText) {
  Reader reader("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}");
  const std::string rendered = reader.render(R"({"messages": [{"role": "user", "content": "1+2?"},
      {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add",
       "arguments": "{\"a\": 1}"}}]}, {"role": "tool", "tool_call_id": "c", "content": "3"}], "tools": [)" +
                                             std::string(kTool) + "]}");
  EXPECT_THAT(rendered, HasSubstr("[system]You can call functions."));
  EXPECT_THAT(rendered, HasSubstr(R"({"name":"add","parameters":{"type":"object"}})"));
  EXPECT_THAT(rendered, HasSubstr("[user]1+2?[assistant]{\"name\":\"add\",\"arguments\":{\"a\":1}}[user]The function's "
                                  "result:\n3"));
}

TEST(ChatRequest, SwitchesReachTheTemplate) {
  Reader reader("{{ messages[0].content }}|{{ reasoning_effort }}|{{ enable_thinking }}|{{ extra }}");
  EXPECT_EQ(reader.render(with(R"("reasoning_effort": "none", "chat_template_kwargs": {"extra": [1]})")),
            "hi|none|False|[1]");
  EXPECT_EQ(reader.render(with(R"("reasoning_effort": "high")")), "hi|high||");
}

TEST(ChatRequest, ATemplatesRefusalIsTheClients) {
  Reader reader("{{ raise_exception('roles must alternate') }}");
  EXPECT_EQ(reader.failure(with(R"("n": 1)")),
            "400 messages -: the model's chat template refuses the messages: roles must alternate");
  Reader none("");
  EXPECT_THAT(none.failure(with(R"("n": 1)")), HasSubstr("400 messages -: tiny has no chat template"));
}

TEST(ChatRequest, ToolChoices) {
  Reader reader;
  const std::string tools =
      R"("tools": [{"type": "function", "function": {"name": "sub"}}, )" + std::string(kTool) + "]";
  const auto choose = [&](const std::string& choice) {
    return reader.read(with(tools + R"(, "tool_choice": )" + choice));
  };
  EXPECT_THAT(choose(R"("auto")").tools.tools, SizeIs(2));
  EXPECT_FALSE(choose(R"("auto")").tools.required);
  EXPECT_TRUE(choose(R"("required")").tools.required);
  const ChatRequest none = choose(R"("none")");
  EXPECT_TRUE(none.tools.tools.empty());
  EXPECT_TRUE(none.conversation.tools.is_none());
  const ChatRequest named = choose(R"({"type": "function", "function": {"name": "add"}})");
  ASSERT_THAT(named.tools.tools, SizeIs(1));
  EXPECT_EQ(named.tools.tools[0].name, "add");
  EXPECT_TRUE(named.tools.required);
  EXPECT_EQ(failure_of([&] { choose(R"({"type": "function", "function": {"name": "mul"}})"); }),
            "400 tool_choice -: tool_choice names the tool 'mul', which is not among the tools");
  EXPECT_EQ(reader.failure(with(R"("tool_choice": "required")")),
            "400 tool_choice -: tool_choice 'required' goes with tools");
  EXPECT_THAT(reader.failure(with(R"("tools": [{"type": "function", "function": {"name": "a b"}}])")),
              HasSubstr("400 tools[0].function.name -: tools[0].function.name is the text 'a b'; expected at most 64"));
  EXPECT_THAT(reader.failure(with("\"tools\": [" + std::string(kTool) + "," + kTool + "]")),
              HasSubstr("400 tools[1].function.name -:"));
  EXPECT_THAT(reader.failure(with(R"("tools": [{"type": "web_search"}])")), HasSubstr("400 tools[0].type -:"));
}

TEST(ChatRequest, Constraints) {
  Reader reader;
  const auto constraint = [&](const std::string& more) { return reader.read(with(more)).constraint; };
  EXPECT_EQ(constraint(R"("n": 1)").kind, Constraint::Kind::none);
  EXPECT_EQ(constraint(R"("response_format": {"type": "text"})").kind, Constraint::Kind::none);
  EXPECT_EQ(constraint(R"("response_format": {"type": "json_object"})").kind, Constraint::Kind::json_object);
  const Constraint schema = constraint(
      R"("response_format": {"type": "json_schema", "json_schema": {"name": "s", "strict": true, "schema": {"type": "object"}}})");
  EXPECT_EQ(schema.kind, Constraint::Kind::json_schema);
  EXPECT_EQ(schema.param, "response_format.json_schema.schema");
  EXPECT_EQ(schema.schema.as_dict().find("type")->as_string(), "object");
  EXPECT_EQ(constraint(R"("grammar": "root ::= \"a\"")").gbnf, "root ::= \"a\"");
  EXPECT_THAT(reader.failure(with(R"("grammar": "root ::= \"a\"", "response_format": {"type": "json_object"})")),
              HasSubstr("400 grammar -: grammar and response_format can't both hold"));
  EXPECT_THAT(reader.failure(with(R"("grammar": "root ::= \"a\"", "tools": [)" + std::string(kTool) + "]")),
              HasSubstr("400 grammar -: grammar and tools can't both hold"));
  EXPECT_THAT(reader.failure(with(R"("response_format": {"type": "json_schema", "json_schema": {"name": "s"}})")),
              HasSubstr("400 response_format.json_schema.schema -:"));
  EXPECT_THAT(reader.failure(with(R"("response_format": {"type": "xml"})")),
              HasSubstr("400 response_format.type -: response_format.type is the text 'xml'; expected one of text, "
                        "json_object, json_schema"));
}

TEST(ChatRequest, Limits) {
  Reader reader;
  EXPECT_EQ(reader.read(with(R"("n": 1)")).max_tokens, -1);
  EXPECT_EQ(reader.read(with(R"("max_tokens": 5)")).max_tokens, 5);
  EXPECT_EQ(reader.read(with(R"("max_completion_tokens": 6)")).max_tokens, 6);
  EXPECT_THAT(reader.failure(with(R"("max_tokens": 5, "max_completion_tokens": 6)")), HasSubstr("400 max_tokens -:"));
  EXPECT_THAT(reader.failure(with(R"("max_tokens": 0)")), HasSubstr("400 max_tokens -: max_tokens is the number 0"));
  EXPECT_EQ(reader.read(with(R"("logprobs": true)")).top_logprobs, 0);
  EXPECT_EQ(reader.read(with(R"("logprobs": true, "top_logprobs": 20)")).top_logprobs, 20);
  EXPECT_EQ(reader.read(with(R"("logprobs": false)")).top_logprobs, -1);
  EXPECT_THAT(reader.failure(with(R"("logprobs": true, "top_logprobs": 21)")), HasSubstr("400 top_logprobs -:"));
  EXPECT_THAT(reader.failure(with(R"("top_logprobs": 2)")), HasSubstr("goes with logprobs true"));
  const auto failure_of_text = [&](size_t bytes) {
    const std::string text(bytes, 'x');
    return failure_of([&] {
      prepare_chat(reader.model, reader.read(R"({"messages": [{"role": "user", "content": ")" + text + R"("}]})"));
    });
  };
  EXPECT_EQ(failure_of_text(2000),
            "400 messages context_length_exceeded: the prompt has 2041 tokens, the context 1000; shorten it, or start "
            "the server with a larger --ctx");
  // Tokens have 11 bytes at most.
  EXPECT_EQ(failure_of_text(20000),
            "400 messages context_length_exceeded: the prompt has 20050 bytes, at least 1823 tokens, the context 1000; "
            "shorten it, or start the server with a larger --ctx");
}

// gpt-oss: what is held to JSON begins with a channel, and so can't go on within a message; a grammar of one's own can.
TEST(ChatRequest, AMessageInAChannelIsNotContinuedAsJson) {
  Reader reader(
      "{% for m in messages %}<|start|>{{ m.role }}<|channel|>final<|message|>{{ m.content }}{% endfor %}"
      "{# <|channel|>commentary to=functions. #}{{ tools }}");
  ASSERT_TRUE(reader.model.prompt.format().tools->channels);
  const auto failure = [&reader](const std::string& more) {
    return failure_of([&] {
      const std::string messages =
          R"("messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "so"}])";
      prepare_chat(reader.model, reader.read("{" + messages + R"(, "continue_final_message": true)" + more + "}"));
    });
  };
  EXPECT_THAT(failure(R"(, "response_format": {"type": "json_object"})"),
              StartsWith("400 continue_final_message -: continue_final_message does not go with response_format"));
  EXPECT_EQ(failure(R"(, "grammar": "root ::= \"a\"")"), failure(""));
}

TEST(ChatRequest, WrongMessagesAreNamed) {
  Reader reader;
  EXPECT_EQ(reader.failure("{}"), "400 messages -: messages is missing; expected a list of messages");
  EXPECT_EQ(reader.failure(R"({"messages": []})"), "400 messages -: messages is empty; expected at least one message");
  EXPECT_EQ(reader.failure(R"({"messages": ["hi"]})"),
            "400 messages[0] -: messages[0] is the text 'hi'; expected an object");
  EXPECT_THAT(reader.failure(R"({"messages": [{"role": "robot", "content": "x"}]})"),
              HasSubstr("400 messages[0].role -: messages[0].role is the text 'robot'; expected one of system"));
  EXPECT_EQ(reader.failure(R"({"messages": [{"role": "user", "content": 5}]})"),
            "400 messages[0].content -: messages[0].content is the number 5; expected a text, or a list of text parts");
  EXPECT_THAT(reader.failure(R"({"messages": [{"role": "user"}]})"), HasSubstr("400 messages[0].content -:"));
  EXPECT_EQ(
      reader.failure(R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})"),
      "400 messages[0].content[0] unsupported_content: messages[0].content[0] is a part of type 'image_url'; this "
      "server reads text parts only");
  EXPECT_THAT(reader.failure(with(R"("chat_template_kwargs": {"messages": []})")),
              HasSubstr("400 chat_template_kwargs.messages -: chat_template_kwargs can't set messages"));
  EXPECT_THAT(reader.failure(with(R"("functions": [])")), HasSubstr("400 functions unsupported_parameter:"));
  EXPECT_THAT(reader.failure(with(R"("bogus": 1)")), HasSubstr("400 bogus unknown_parameter:"));
  EXPECT_EQ(reader.failure(with(R"("bogus": 1)"), false), "no error");
  EXPECT_THAT(reader.failure(with(R"("model": "other")")), HasSubstr("404 model model_not_found:"));
  EXPECT_EQ(reader.failure(with(R"("model": "other")"), false), "no error");
}

TEST(ChatRequest, WhatToolMessagesMustHave) {
  const auto call = [](const std::string& arguments) {
    return R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [{"id": "c",
        "type": "function", "function": {"name": "add", "arguments": )" +
           arguments + "}}]}]}";
  };
  Reader reader;
  EXPECT_THAT(reader.failure(R"({"messages": [{"role": "tool", "content": "3"}]})"),
              StartsWith("400 messages[0].tool_call_id -: messages[0].tool_call_id is missing"));
  EXPECT_THAT(reader.failure(R"({"messages": [{"role": "tool", "content": "3", "tool_call_id": ""}]})"),
              StartsWith("400 messages[0].tool_call_id -: messages[0].tool_call_id is the text ''"));
  for (const char* arguments : {R"("{\"a\": ")", R"("[1]")", R"("sum")"}) {
    EXPECT_THAT(reader.failure(call(arguments)), StartsWith("400 messages[1].tool_calls[0].function.arguments -: "
                                                            "messages[1].tool_calls[0].function.arguments is the text"))
        << arguments;
  }
  for (const char* arguments : {R"("")", R"("{}")", R"({"a": 1})"}) {
    EXPECT_EQ(reader.failure(call(arguments)), "no error") << arguments;
  }
  // A template that writes the text down takes any, as OpenAI does.
  Reader as_text(
      "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments }}"
      "{% endfor %}{% endfor %}");
  EXPECT_EQ(as_text.failure(call(R"("{\"a\": ")")), "no error");
  EXPECT_THAT(as_text.failure(call("5")), HasSubstr("function.arguments is the number 5; expected JSON text"));
}

TEST(ChatRequest, EachChoiceIsARequestOfItsOwn) {
  Reader reader;
  const PreparedChat prepared = prepare_chat(reader.model, reader.read(with(R"("n": 3, "seed": 7, "max_tokens": 4)")));
  ASSERT_THAT(prepared.parts, SizeIs(3));
  EXPECT_EQ(prepared.parts[2].request.sampler.seed, 9U);
  EXPECT_EQ(prepared.parts[1].request.max_tokens, 4);
  EXPECT_EQ(prepared.parts[0].request.prompt, prepared.parts[2].request.prompt);
  EXPECT_THAT(prepared.parsers, SizeIs(3));
}

TEST(ResponseRequest, ItemsBecomeMessages) {
  Reader reader;
  const ResponseRequest request = reader.read_response(R"({"instructions": "Be brief.", "input": [
      {"role": "user", "content": [{"type": "input_text", "text": "1+2?"}]},
      {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
      {"type": "message", "id": "m", "status": "completed", "role": "assistant",
       "content": [{"type": "output_text", "text": "I add.", "annotations": []}]},
      {"type": "function_call", "id": "fc", "call_id": "c1", "name": "add", "arguments": "{\"a\": 1}"},
      {"type": "function_call_output", "call_id": "c1", "output": "3"}],
      "tools": [{"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": true}],
      "max_output_tokens": 9, "store": true, "reasoning": {"effort": "low"},
      "text": {"format": {"type": "json_schema", "name": "s", "schema": {"type": "object"}}}})");
  const auto& messages = request.chat.conversation.messages;
  ASSERT_THAT(messages, SizeIs(4));
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[1].content.as_string(), "1+2?");
  EXPECT_EQ(messages[2].role, "assistant");
  EXPECT_EQ(messages[2].content.as_string(), "I add.");
  EXPECT_EQ(messages[2].more.find("reasoning_content")->as_string(), "hm");
  EXPECT_EQ(messages[2].more.find("tool_calls")->items().size(), 1U);
  EXPECT_EQ(messages[3].role, "tool");
  EXPECT_EQ(messages[3].more.find("name")->as_string(), "add");
  ASSERT_THAT(request.chat.tools.tools, SizeIs(1));
  EXPECT_EQ(request.chat.tools.tools[0].name, "add");
  EXPECT_EQ(request.chat.max_tokens, 9);
  EXPECT_EQ(request.chat.constraint.param, "text.format.schema");
  EXPECT_THAT(request.echo, HasSubstr(R"("max_output_tokens":9)"));
  EXPECT_THAT(request.echo, HasSubstr(R"("store":false)"));
  EXPECT_EQ(request.chat.top_logprobs, -1);
}

TEST(ResponseRequest, StateIsRefusedByName) {
  Reader reader;
  const auto failure = [&](const std::string& more) {
    return failure_of([&] { reader.read_response(R"({"input": "hi", )" + more + "}"); });
  };
  EXPECT_EQ(failure(R"("previous_response_id": "resp_1")"),
            "400 previous_response_id unsupported_parameter: previous_response_id is not supported by this server; it "
            "keeps no responses: send the items of the conversation as input");
  EXPECT_THAT(failure(R"("conversation": "c")"), HasSubstr("400 conversation unsupported_parameter:"));
  EXPECT_THAT(failure(R"("background": true)"), HasSubstr("400 background unsupported_parameter:"));
  EXPECT_THAT(failure(R"("truncation": "auto")"), HasSubstr("400 truncation unsupported_parameter:"));
  EXPECT_EQ(failure(R"("background": false, "truncation": "disabled", "store": true)"), "no error");
  EXPECT_THAT(failure(R"("tools": [{"type": "web_search"}])"), HasSubstr("400 tools[0].type unsupported_tool:"));
  EXPECT_THAT(failure_of([&] { reader.read_response(R"({"input": [{"type": "item_reference", "id": "x"}]})"); }),
              HasSubstr("400 input[0] unsupported_content: input[0] is an item of type 'item_reference'"));
  EXPECT_THAT(failure_of([&] { reader.read_response("{}"); }), HasSubstr("400 input -: input is missing"));
}

}  // namespace
}  // namespace minfer::server::openai
