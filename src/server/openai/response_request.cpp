// Reading /v1/responses. See response_request.hpp.
// An assistant's turn may come as several items (reasoning, a message, calls): they are brought together to one message
// again, as templates have it.
#include "server/openai/response_request.hpp"

#include <utility>

#include "server/api_error.hpp"
#include "server/json_writer.hpp"

namespace minfer::server::openai {
namespace {

class InputReader {
 public:
  InputReader(const MessageForm& form, bool strict) : form_(form), strict_(strict) {}

  void add(const chat::Value& item, const std::string& path) {
    Fields fields(item, path, strict_);
    const std::string type = fields.text("type").value_or("message");
    if (type == "message") {
      add_message(fields);
    } else if (type == "function_call") {
      add_call(fields);
    } else if (type == "function_call_output") {
      add_output(fields);
    } else if (type == "reasoning") {
      add_reasoning(fields);
    } else {
      throw ApiFailure({.status = 400,
                        .message = fmt::format("{} is an item of type '{}', which this server does not read; send "
                                               "message, function_call, function_call_output and reasoning items",
                                               path, type),
                        .param = path,
                        .code = "unsupported_content"});
    }
    fields.ignore({"id", "status"});
    fields.finish();
  }

  void add_text(const char* role, const std::string& text) {
    messages_.push_back({.role = role, .content = make_content(text, form_), .more = {}});
  }

  std::vector<chat::Message> take() {
    finish_turn();
    return std::move(messages_);
  }

 private:
  // An assistant's turn that is being put together.
  struct Turn {
    bool is_open = false;
    std::string reasoning;
    std::string content;
    bool has_content = false;
    std::vector<chat::Value> calls;
  };

  void finish_turn() {
    Turn turn = std::exchange(turn_, {});
    if (!turn.is_open) return;
    chat::Message message{.role = "assistant", .content = make_content(turn.content, form_), .more = {}};
    if (!turn.reasoning.empty()) message.more.set("reasoning_content", chat::Value::string(turn.reasoning));
    if (!turn.calls.empty()) message.more.set("tool_calls", chat::Value::list(std::move(turn.calls)));
    messages_.push_back(std::move(message));
  }

  void add_message(Fields& fields) {
    constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant"};
    fields.require("role", "a role");
    std::string_view role = kRoles[*fields.choice("role", kRoles)];
    const chat::Value& content = fields.require("content", "a text, or a list of text parts");
    const std::string text =
        read_content(content, fields.path("content"), {"input_text", "output_text", "text", "refusal"});
    fields.ignore({"phase"});
    if (role == "assistant") {
      if (turn_.has_content || !turn_.calls.empty()) finish_turn();
      turn_.is_open = true;
      turn_.has_content = true;
      turn_.content = text;
      return;
    }
    finish_turn();
    if (role == "developer" && !form_.knows_developer) role = "system";
    add_text(std::string(role).c_str(), text);
  }

  void add_call(Fields& fields) {
    const std::string id = require_text(fields, "call_id");
    const std::string name = require_text(fields, "name");
    const chat::Value& arguments = fields.require("arguments", "JSON text");
    if (!arguments.is_string()) fail_type(fields.path("arguments"), arguments, "JSON text");
    check_arguments(arguments, fields.path("arguments"), form_);
    turn_.is_open = true;
    turn_.calls.push_back(make_tool_call(id, name, arguments, form_));
    call_names_.set(id, chat::Value::string(name));
  }

  void add_output(Fields& fields) {
    finish_turn();
    const std::string id = require_text(fields, "call_id");
    const chat::Value& output = fields.require("output", "a text, or a list of text parts");
    add_text("tool", read_content(output, fields.path("output"), {"input_text", "output_text", "text"}));
    messages_.back().more.set("tool_call_id", chat::Value::string(id));
    if (const chat::Value* name = call_names_.find(id)) messages_.back().more.set("name", *name);
  }

  // Its content, or where there is none the summary.
  void add_reasoning(Fields& fields) {
    if (turn_.has_content || !turn_.calls.empty()) finish_turn();
    for (const char* member : {"content", "summary"}) {
      const chat::Value* content = fields.find(member);
      if (content == nullptr || !turn_.reasoning.empty()) continue;
      turn_.reasoning = read_content(*content, fields.path(member), {"reasoning_text", "summary_text", "text"});
    }
    fields.ignore({"encrypted_content"});
    turn_.is_open = !turn_.reasoning.empty();
  }

  static std::string require_text(Fields& fields, std::string_view name) {
    const chat::Value& value = fields.require(name, "a text");
    if (!value.is_string()) fail_type(fields.path(name), value, "a text");
    return value.as_string();
  }

  const MessageForm& form_;
  bool strict_;
  Turn turn_;
  chat::Dict call_names_;
  std::vector<chat::Message> messages_;
};

void read_input(Fields& fields, const MessageForm& form, ChatRequest& request) {
  InputReader reader(form, fields.strict());
  if (const auto instructions = fields.text("instructions")) reader.add_text("system", *instructions);
  const chat::Value& input = fields.require("input", "a text, or a list of items");
  if (input.is_string()) {
    reader.add_text("user", input.as_string());
  } else {
    if (!input.is(chat::Kind::list) || input.items().empty()) fail_type("input", input, "a text, or a list of items");
    for (size_t i = 0; i < input.items().size(); ++i) reader.add(input.items()[i], fmt::format("input[{}]", i));
  }
  request.conversation.messages = reader.take();
  request.param = "input";
}

// {"type": "function", "name", "description", "parameters", "strict"}, as chat has it.
chat::Value nest_tool(const chat::Value& tool, const std::string& path, bool strict) {
  Fields fields(tool, path, strict);
  const chat::Value& type = fields.require("type", "'function'");
  if (!type.is_string() || type.as_string() != "function") {
    throw ApiFailure({.status = 400,
                      .message = fmt::format("{}.type is {}; this server has no tools of its own and takes those of "
                                             "type 'function'",
                                             path, describe(type)),
                      .param = path + ".type",
                      .code = "unsupported_tool"});
  }
  chat::Dict function;
  for (const std::string_view name : {"name", "description", "parameters", "strict"}) {
    if (const chat::Value* value = fields.find(name)) function.set(name, *value);
  }
  fields.finish();
  chat::Dict nested;
  nested.set("type", type);
  nested.set("function", chat::Value::dict(std::move(function)));
  return chat::Value::dict(std::move(nested));
}

void read_response_tools(Fields& fields, ChatRequest& request) {
  if (const std::vector<chat::Value>* tools = fields.list("tools")) {
    std::vector<chat::Value> nested;
    for (size_t i = 0; i < tools->size(); ++i) {
      nested.push_back(nest_tool((*tools)[i], fmt::format("tools[{}]", i), fields.strict()));
    }
    Tools read = read_tools(nested, "tools", fields.strict());
    request.conversation.tools = std::move(read.definitions);
    request.tools.tools = std::move(read.signatures);
  }
  read_tool_choice(fields, request, true);
  request.tools.parallel = fields.boolean("parallel_tool_calls").value_or(true);
}

void read_reasoning(Fields& fields, ChatRequest& request) {
  auto reasoning = fields.object("reasoning");
  if (!reasoning) return;
  constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh"};
  if (const auto effort = reasoning->choice("effort", kEfforts)) {
    set_reasoning_effort(request.conversation, kEfforts[*effort]);
  }
  reasoning->ignore({"summary", "generate_summary"});
  reasoning->finish();
}

// Whether the log-probabilities of the text are asked for.
bool read_include(Fields& fields) {
  bool wants_logprobs = false;
  const std::vector<chat::Value>* include = fields.list("include");
  if (include == nullptr) return false;
  for (size_t i = 0; i < include->size(); ++i) {
    const chat::Value& name = (*include)[i];
    if (!name.is_string()) fail_type(fmt::format("include[{}]", i), name, "a text");
    // Others name parts of items that this server never makes.
    if (name.as_string() == "message.output_text.logprobs") wants_logprobs = true;
  }
  return wants_logprobs;
}

void refuse_state(Fields& fields) {
  fields.refuse("previous_response_id", "it keeps no responses: send the items of the conversation as input");
  fields.refuse("conversation", "it keeps no conversations: send their items as input");
  fields.refuse("prompt", "it keeps no prompts: send instructions and input");
  if (fields.boolean("background").value_or(false)) fields.refuse("background", "wait for the answer, or stream it");
  const auto truncation = fields.text("truncation");
  if (truncation && *truncation != "disabled") {
    fields.refuse("truncation", "it never drops a part of the input: leave it out, or send 'disabled'");
  }
  fields.ignore({"user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key",
                 "prompt_cache_retention", "max_tool_calls", "client_metadata"});
}

// A member of the request, or `otherwise`, which is JSON.
void repeat(JsonWriter& json, Fields& fields, std::string_view name, std::string_view otherwise) {
  json.key(name);
  const chat::Value* value = fields.find(name);
  if (value == nullptr) {
    json.raw(otherwise);
  } else {
    json.value(*value);
  }
}

std::string make_echo(Fields& fields, const ChatRequest& request) {
  JsonWriter json;
  for (const std::string_view name : {"instructions", "max_output_tokens", "max_tool_calls", "user"}) {
    repeat(json, fields, name, "null");
  }
  json.key("parallel_tool_calls").boolean(request.tools.parallel);
  json.key("previous_response_id").null().key("store").boolean(false).key("background").boolean(false);
  repeat(json, fields, "reasoning", R"({"effort":null,"summary":null})");
  json.key("temperature").number(request.generation.sampler.temperature);
  json.key("top_p").number(request.generation.sampler.top_p);
  repeat(json, fields, "text", R"({"format":{"type":"text"}})");
  repeat(json, fields, "tool_choice", R"("auto")");
  repeat(json, fields, "tools", "[]");
  repeat(json, fields, "metadata", "{}");
  json.key("top_logprobs").integer(std::max(request.top_logprobs, 0)).key("truncation").string("disabled");
  return json.take();
}

}  // namespace

ResponseRequest read_response_request(Fields& fields, const PreparedModel& model) {
  ResponseRequest request;
  ChatRequest& chat = request.chat;
  read_model_name(fields, *model.served);
  read_input(fields, model.prompt.form(), chat);
  read_response_tools(fields, chat);
  read_reasoning(fields, chat);
  if (auto text = fields.object("text")) {
    if (auto format = text->object("format")) chat.constraint = read_response_format(*format, true);
    text->ignore({"verbosity"});
    text->finish();
  }
  chat.generation.sampler = read_sampler_fields(fields, *model.served);
  chat.generation.adapter_scales = read_adapter_scales(fields, *model.served);
  chat.generation.stream = fields.boolean("stream").value_or(false);
  if (auto options = fields.object("stream_options")) {
    options->ignore({"include_obfuscation"});
    options->finish();
  }
  chat.max_tokens = fields.integer("max_output_tokens", 1, kMostTokens).value_or(-1);
  const auto top = fields.integer("top_logprobs", 0, engine::kMostTopLogprobs);
  if (read_include(fields)) chat.top_logprobs = static_cast<int32_t>(top.value_or(0));
  refuse_state(fields);
  request.echo = make_echo(fields, chat);
  fields.finish();
  return request;
}

}  // namespace minfer::server::openai
