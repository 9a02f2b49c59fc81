// Answers as clients get them: tokens go in, the bodies and frames that come out are compared, whole where they are
// short. The oracle is the API reference of each endpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/openai/chat_answer.hpp"
#include "server/openai/completion_answer.hpp"
#include "server/openai/response_answer.hpp"
#include "server/openai/test_support.hpp"

namespace minfer::server::openai {
namespace {

using chat::Value;
using test::RecordingResponder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

const test::TestModel& model() {
  static const test::TestModel model;
  return model;
}

// Qwen's format: tool calls of the Hermes form, and <think>.
chat::OutputFormat format() {
  return chat::detect_output_format(
      "<think></think> {{ tools }} <tool_call>\n{\"name\": <function-name>, \"arguments\": "
      "<args-json-object>}\n</tool_call>",
      [](std::string_view) { return false; });
}

chat::OutputParser parser(std::vector<chat::ToolSignature> tools = {}) {
  return chat::OutputParser(format(), std::move(tools), "<|im_start|>assistant\n");
}

PartToken text_token(std::string text) {
  return {.id = 'x', .text = std::move(text)};
}

engine::Result result(engine::StopReason reason, int64_t generated = 2) {
  engine::Result made;
  made.reason = reason;
  made.prompt_tokens = 10;
  made.reused_tokens = 4;
  made.generated_tokens = generated;
  return made;
}

struct ChatRun {
  ChatRun(bool stream, std::vector<chat::ToolSignature> tools = {}, size_t choices = 1, bool logprobs = false,
          bool include_usage = false) {
    std::vector<chat::OutputParser> parsers;
    for (size_t i = 0; i < choices; ++i) parsers.push_back(parser(tools));
    answer = make_chat_answer({.id = "chatcmpl-1",
                               .created = 7,
                               .model = "tiny",
                               .tokenizer = &model().tokenizer,
                               .ids = &ids,
                               .stream = stream,
                               .include_usage = include_usage,
                               .logprobs = logprobs,
                               .parallel_calls = false},
                              std::move(parsers), responder);
    answer->begin();
  }

  IdSource ids;
  std::shared_ptr<RecordingResponder> responder = std::make_shared<RecordingResponder>();
  std::unique_ptr<Answer> answer;
};

std::string chunk(const std::string& delta, const std::string& reason = "null", int index = 0) {
  return R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"tiny","choices":[{"index":)" +
         std::to_string(index) + R"(,"delta":)" + delta + R"(,"logprobs":null,"finish_reason":)" + reason + "}]}";
}

constexpr const char* kRole = R"({"role":"assistant","content":"","refusal":null})";
constexpr const char* kUsage =
    R"("usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":0}})";

TEST(ChatAnswer, Whole) {
  ChatRun run(false);
  EXPECT_TRUE(run.answer->token(0, text_token("Hel")));
  EXPECT_TRUE(run.answer->token(0, text_token("lo \"you\"")));
  run.answer->end(0, result(engine::StopReason::end_of_generation));
  run.answer->finish();
  ASSERT_TRUE(run.responder->response);
  EXPECT_EQ(run.responder->response->status, 200);
  EXPECT_EQ(run.responder->response->body,
            std::string(R"({"id":"chatcmpl-1","object":"chat.completion","created":7,"model":"tiny","choices":[)"
                        R"({"index":0,"message":{"role":"assistant","content":"Hello \"you\"","refusal":null},)"
                        R"("logprobs":null,"finish_reason":"stop"}],)") +
                kUsage + "}");
}

TEST(ChatAnswer, StreamHasTheRoleDeltasTheReasonAndDone) {
  ChatRun run(true);
  run.answer->token(0, text_token("Hel"));
  run.answer->token(0, text_token(""));
  run.answer->token(0, text_token("lo"));
  run.answer->end(0, result(engine::StopReason::max_tokens));
  run.answer->finish();
  EXPECT_TRUE(run.responder->began);
  EXPECT_THAT(run.responder->frames, ElementsAre(chunk(kRole), chunk(R"({"content":"Hel"})"),
                                                 chunk(R"({"content":"lo"})"), chunk("{}", "\"length\""), "[DONE]"));
  EXPECT_TRUE(run.responder->ended);
}

TEST(ChatAnswer, StreamTellsTheUsageWhereAsked) {
  ChatRun run(true, {}, 1, false, true);
  run.answer->token(0, text_token("a"));
  run.answer->end(0, result(engine::StopReason::stop_string));
  run.answer->finish();
  ASSERT_THAT(run.responder->frames, SizeIs(5));
  EXPECT_THAT(run.responder->frames[1], HasSubstr(R"("finish_reason":null}],"usage":null})"));
  EXPECT_EQ(
      run.responder->frames[3],
      std::string(R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"tiny","choices":[],)") +
          kUsage + "}");
}

TEST(ChatAnswer, ReasoningIsApartAndCounted) {
  ChatRun run(false);
  for (const char* text : {"<think>", "hm", "m", "</think>", "Yes"}) run.answer->token(0, text_token(text));
  run.answer->end(0, result(engine::StopReason::end_of_generation, 6));
  run.answer->finish();
  EXPECT_THAT(run.responder->response->body,
              HasSubstr(R"("message":{"role":"assistant","content":"Yes","refusal":null,"reasoning_content":"hmm"})"));
  EXPECT_THAT(run.responder->response->body, HasSubstr(R"("reasoning_tokens":2)"));
}

const std::vector<chat::ToolSignature> kTools = {{"add", {}}};

TEST(ChatAnswer, CallsAreStreamedWithTheirArguments) {
  ChatRun run(true, kTools);
  bool more = true;
  for (const char* text :
       {"<tool_call>\n", "{\"name\": \"add\", \"arg", "uments\": {\"a\"", ": 1}}", "\n</tool_call>"}) {
    if (more) more = run.answer->token(0, text_token(text));
  }
  EXPECT_FALSE(more) << "one call is all that was asked for";
  run.answer->end(0, result(engine::StopReason::cancelled));
  run.answer->finish();
  std::string name;
  std::string arguments;
  for (const std::string& frame : run.responder->frames) {
    if (frame == "[DONE]") continue;
    const Value delta = *chat::value_from_json(frame).as_dict().find("choices")->items()[0].as_dict().find("delta");
    const Value* calls = delta.as_dict().find("tool_calls");
    if (calls == nullptr) continue;
    const chat::Dict& call = calls->items()[0].as_dict();
    EXPECT_EQ(call.find("index")->as_int(), 0);
    const chat::Dict& function = call.find("function")->as_dict();
    if (const Value* found = function.find("name")) {
      name += found->as_string();
      EXPECT_EQ(call.find("type")->as_string(), "function");
      EXPECT_THAT(call.find("id")->as_string(), testing::StartsWith("call_"));
    }
    arguments += function.find("arguments")->as_string();
  }
  EXPECT_EQ(name, "add");
  EXPECT_EQ(arguments, "{\"a\": 1}");
  EXPECT_EQ(run.responder->frames[run.responder->frames.size() - 2], chunk("{}", "\"tool_calls\""));
}

TEST(ChatAnswer, AWholeCallHasNoContent) {
  ChatRun run(false, kTools);
  run.answer->token(0, text_token("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>"));
  run.answer->end(0, result(engine::StopReason::end_of_generation));
  run.answer->finish();
  EXPECT_THAT(run.responder->response->body, HasSubstr(R"("content":null,"refusal":null,"tool_calls":[{"id":"call_)"));
  EXPECT_THAT(
      run.responder->response->body,
      HasSubstr(
          R"("function":{"name":"add","arguments":"{\"a\": 1}"}}]},"logprobs":null,"finish_reason":"tool_calls")"));
}

TEST(ChatAnswer, ACallOfAnUnknownToolStaysContent) {
  ChatRun run(false, kTools);
  run.answer->token(0, text_token("<tool_call>\n{\"name\": \"mul\", \"arguments\": {}}\n</tool_call>"));
  run.answer->end(0, result(engine::StopReason::end_of_generation));
  run.answer->finish();
  EXPECT_THAT(run.responder->response->body, HasSubstr("mul"));
  EXPECT_THAT(run.responder->response->body, Not(HasSubstr("tool_calls\":")));
  EXPECT_THAT(run.responder->response->body, HasSubstr(R"("finish_reason":"stop")"));
}

TEST(ChatAnswer, LogprobsAreToldOnceEachWithoutTheEnd) {
  for (const bool stream : {false, true}) {
    ChatRun run(stream, {}, 1, true);
    run.answer->token(0, {.id = 'h', .text = "", .logprob = -0.5F, .top = {{'h', -0.5F}, {0xE9, -1.5F}}});
    run.answer->token(0, {.id = 'i', .text = "hi", .logprob = -2.0F});
    run.answer->token(0, {.id = 262, .text = "", .logprob = -1.0F});
    run.answer->end(0, result(engine::StopReason::end_of_generation));
    run.answer->finish();
    const std::string content =
        R"("logprobs":{"content":[{"token":"h","logprob":-0.5,"bytes":[104],"top_logprobs":[{"token":"h","logprob":-0.5,"bytes":[104]},)"
        "{\"token\":\"\uFFFD\",\"logprob\":-1.5,\"bytes\":[233]}]},"
        R"({"token":"i","logprob":-2,"bytes":[105],"top_logprobs":[]}],"refusal":null})";
    EXPECT_THAT(stream ? run.responder->frames[1] : run.responder->response->body, HasSubstr(content));
    if (stream) {
      EXPECT_EQ(run.responder->frames[2], chunk("{}", "\"stop\""));
    }
  }
}

TEST(ChatAnswer, ChoicesAreNumbered) {
  ChatRun run(true, {}, 2);
  run.answer->token(1, text_token("b"));
  run.answer->end(1, result(engine::StopReason::end_of_generation));
  run.answer->token(0, text_token("a"));
  run.answer->end(0, result(engine::StopReason::end_of_generation));
  run.answer->finish();
  EXPECT_THAT(run.responder->frames,
              ElementsAre(chunk(kRole, "null", 0), chunk(kRole, "null", 1), chunk(R"({"content":"b"})", "null", 1),
                          chunk("{}", "\"stop\"", 1), chunk(R"({"content":"a"})"), chunk("{}", "\"stop\""), "[DONE]"));
}

TEST(ChatAnswer, AFailureEndsAStreamAsOne) {
  ChatRun run(true);
  run.answer->token(0, text_token("a"));
  run.answer->fail({.status = 500, .message = "lost", .type = "server_error", .code = "device"});
  EXPECT_THAT(
      run.responder->frames,
      ElementsAre(chunk(kRole), chunk(R"({"content":"a"})"),
                  R"({"error":{"message":"lost","type":"server_error","param":null,"code":"device"}})", "[DONE]"));
  EXPECT_TRUE(run.responder->ended);
  ChatRun whole(false);
  whole.answer->fail({.status = 429, .message = "full", .retry_after_s = 1});
  EXPECT_EQ(whole.responder->response->status, 429);
}

struct CompletionRun {
  explicit CompletionRun(CompletionAnswerOptions options) {
    options.id = "cmpl-1";
    options.created = 7;
    options.model = "tiny";
    options.tokenizer = &model().tokenizer;
    answer = make_completion_answer(std::move(options), responder);
    answer->begin();
  }

  std::shared_ptr<RecordingResponder> responder = std::make_shared<RecordingResponder>();
  std::unique_ptr<Answer> answer;
};

constexpr const char* kCompletionHead =
    R"({"id":"cmpl-1","object":"text_completion","created":7,"model":"tiny","choices":[)";

TEST(CompletionAnswer, WholeWithEchoAndSeveralPrompts) {
  CompletionRun run({.choices = 1, .echoes = {"P", "Q"}, .prompts = 2});
  run.answer->token(1, text_token("b"));
  run.answer->token(0, text_token("a"));
  run.answer->end(1, result(engine::StopReason::max_tokens, 1));
  run.answer->end(0, result(engine::StopReason::end_of_generation, 1));
  run.answer->finish();
  EXPECT_EQ(run.responder->response->body,
            std::string(kCompletionHead) +
                R"({"text":"Pa","index":0,"logprobs":null,"finish_reason":"stop"},)"
                R"({"text":"Qb","index":1,"logprobs":null,"finish_reason":"length"}],)"
                R"("usage":{"prompt_tokens":20,"completion_tokens":2,"total_tokens":22,)"
                R"("prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":0}}})");
}

TEST(CompletionAnswer, Stream) {
  CompletionRun run({.stream = true});
  run.answer->token(0, text_token("a"));
  run.answer->end(0, result(engine::StopReason::end_of_generation));
  run.answer->finish();
  const std::string head(kCompletionHead);
  EXPECT_THAT(run.responder->frames,
              ElementsAre(head + R"({"text":"a","index":0,"logprobs":null,"finish_reason":null}]})",
                          head + R"({"text":"","index":0,"logprobs":null,"finish_reason":"stop"}]})", "[DONE]"));
}

TEST(CompletionAnswer, LogprobsAreParallelLists) {
  CompletionRun run({.logprobs = true});
  run.answer->token(0, {.id = 259, .text = "hello", .logprob = -0.5F, .top = {{'h', -0.25F}}});
  run.answer->token(0, {.id = 'x', .text = "x", .logprob = -1.0F, .top = {{'x', -1.0F}}});
  run.answer->end(0, result(engine::StopReason::end_of_generation));
  run.answer->finish();
  EXPECT_THAT(run.responder->response->body,
              HasSubstr(R"("logprobs":{"tokens":["hello","x"],"token_logprobs":[-0.5,-1],"top_logprobs":[{"h":-0.25,)"
                        R"("hello":-0.5},{"x":-1}],"text_offset":[0,5]})"));
}

struct ResponseRun {
  explicit ResponseRun(bool stream, std::vector<chat::ToolSignature> tools = {}) {
    answer = make_response_answer({.id = "resp_1",
                                   .created = 7,
                                   .model = "tiny",
                                   .echo = R"("store":false)",
                                   .tokenizer = &model().tokenizer,
                                   .ids = &ids,
                                   .stream = stream,
                                   .parallel_calls = true},
                                  parser(std::move(tools)), responder);
    answer->begin();
  }

  IdSource ids;
  std::shared_ptr<RecordingResponder> responder = std::make_shared<RecordingResponder>();
  std::unique_ptr<Answer> answer;
};

TEST(ResponseAnswer, StreamTellsItemsAndEndsWithTheWhole) {
  ResponseRun run(true, kTools);
  for (const char* text : {"<think>", "hm", "</think>", "I add.",
                           "<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n", "</tool_call>"}) {
    run.answer->token(0, text_token(text));
  }
  run.answer->end(0, result(engine::StopReason::end_of_generation));
  run.answer->finish();
  std::vector<std::string> names = run.responder->names;
  names.erase(std::unique(names.begin(), names.end()), names.end());
  EXPECT_THAT(
      names, ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                         "response.content_part.added", "response.reasoning_text.delta", "response.reasoning_text.done",
                         "response.content_part.done", "response.output_item.done", "response.output_item.added",
                         "response.content_part.added", "response.output_text.delta", "response.output_text.done",
                         "response.content_part.done", "response.output_item.done", "response.output_item.added",
                         "response.function_call_arguments.delta", "response.function_call_arguments.done",
                         "response.output_item.done", "response.completed"));
  for (size_t i = 0; i < run.responder->frames.size(); ++i) {
    const Value event = chat::value_from_json(run.responder->frames[i]);
    EXPECT_EQ(event.as_dict().find("sequence_number")->as_int(), static_cast<int64_t>(i));
    EXPECT_EQ(event.as_dict().find("type")->as_string(), run.responder->names[i]);
  }
  const Value last = chat::value_from_json(run.responder->frames.back());
  const chat::Dict& response = last.as_dict().find("response")->as_dict();
  EXPECT_EQ(response.find("status")->as_string(), "completed");
  const auto& output = response.find("output")->items();
  ASSERT_EQ(output.size(), 3U);
  EXPECT_EQ(output[1].as_dict().find("content")->items()[0].as_dict().find("text")->as_string(), "I add.");
  EXPECT_EQ(output[2].as_dict().find("name")->as_string(), "add");
  EXPECT_EQ(output[2].as_dict().find("arguments")->as_string(), "{}");
  EXPECT_EQ(response.find("usage")->as_dict().find("input_tokens")->as_int(), 10);
  EXPECT_TRUE(run.responder->ended);
}

TEST(ResponseAnswer, ACutAnswerIsIncomplete) {
  ResponseRun run(false);
  run.answer->token(0, text_token("Hel"));
  run.answer->end(0, result(engine::StopReason::max_tokens));
  run.answer->finish();
  const std::string& body = run.responder->response->body;
  EXPECT_THAT(body,
              testing::StartsWith(
                  R"({"id":"resp_1","object":"response","created_at":7,"status":"incomplete","error":null,)"
                  R"("incomplete_details":{"reason":"max_output_tokens"},"model":"tiny","store":false,"output":[)"));
  EXPECT_THAT(body, HasSubstr(R"("content":[{"type":"output_text","text":"Hel","annotations":[],"logprobs":[]}],)"
                              R"("status":"incomplete"}])"));
}

TEST(ResponseAnswer, AFailureInAStreamIsAnEvent) {
  ResponseRun run(true);
  run.answer->fail({.status = 500, .message = "lost"});
  EXPECT_EQ(run.responder->names.back(), "response.failed");
  EXPECT_THAT(run.responder->frames.back(), HasSubstr(R"("error":{"code":"server_error","message":"lost"})"));
  EXPECT_TRUE(run.responder->ended);
}

TEST(IdSource, GivesEachNameOnce) {
  IdSource ids;
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back(ids.make("x-"));
  EXPECT_EQ(names[0].size(), 26U);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace minfer::server::openai
