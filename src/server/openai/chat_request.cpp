// Chat requests. See chat_request.hpp.
// Sources: https://platform.openai.com/docs/api-reference/chat/create; vLLM's names for continue_final_message,
// add_generation_prompt and chat_template_kwargs.
#include "server/openai/chat_request.hpp"

#include <algorithm>

#include "server/api_error.hpp"

namespace minfer::server::openai {
namespace {

// Fields of OpenAI's that have no meaning here and change nothing that a client could notice.
void ignore_common(Fields& fields) {
  fields.ignore({"user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key",
                 "prompt_cache_retention", "prediction", "verbosity"});
}

void refuse_unsupported(Fields& fields) {
  fields.refuse("functions", "send tools");
  fields.refuse("function_call", "send tool_choice");
  fields.refuse("audio", "it answers with text");
  fields.refuse("web_search_options", "search yourself, by a tool");
  const std::vector<chat::Value>* modalities = fields.list("modalities");
  if (modalities == nullptr) return;
  for (const chat::Value& modality : *modalities) {
    if (!modality.is_string() || modality.as_string() != "text") fail_type("modalities", modality, "'text' alone");
  }
}

int64_t read_max_tokens(Fields& fields) {
  const auto most = fields.integer("max_tokens", 1, kMostTokens);
  const auto completion = fields.integer("max_completion_tokens", 1, kMostTokens);
  if (most && completion && *most != *completion) {
    fail_field("max_tokens",
               fmt::format("max_tokens is {} and max_completion_tokens {}; send one of them", *most, *completion));
  }
  return completion ? *completion : most.value_or(-1);
}

int32_t read_logprobs(Fields& fields) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, engine::kMostTopLogprobs);
  if (top && !wanted) fail_field("top_logprobs", "top_logprobs goes with logprobs true");
  return wanted ? static_cast<int32_t>(top.value_or(0)) : -1;
}

// Grammars leave no room for what else is asked.
void check_conflicts(const ChatRequest& request) {
  if (request.constraint.kind == Constraint::Kind::gbnf && !request.tools.tools.empty()) {
    fail_field("grammar", "grammar and tools can't both hold; leave one of them out");
  }
}

bool has_tool_messages(const chat::Conversation& conversation) {
  return std::any_of(conversation.messages.begin(), conversation.messages.end(), [](const chat::Message& message) {
    return message.role == "tool" || message.more.find("tool_calls") != nullptr;
  });
}

// What the template gets from other fields of the request, or from the model.
void refuse_reserved_switch(const std::string& name) {
  for (const std::string_view reserved :
       {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"}) {
    if (name != reserved) continue;
    fail_field("chat_template_kwargs." + name,
               fmt::format("chat_template_kwargs can't set {}; it is no switch of the template's own", name));
  }
}

}  // namespace

void set_reasoning_effort(chat::Conversation& conversation, std::string_view effort) {
  conversation.more.set("reasoning_effort", chat::Value::string(std::string(effort)));
  if (effort == "none") conversation.more.set("enable_thinking", chat::Value::boolean(false));
}

void read_tool_choice(Fields& fields, ChatRequest& request, bool flat) {
  const chat::Value* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  std::vector<chat::ToolSignature>& tools = request.tools.tools;
  if (choice->is_string()) {
    enum Choice : size_t { none, automatic, required };
    const size_t which = *fields.choice("tool_choice", {"none", "auto", "required"});
    if (which == required && tools.empty()) fail_field("tool_choice", "tool_choice 'required' goes with tools");
    request.tools.required = which == required;
    if (which != none) return;
    tools.clear();
    request.conversation.tools = {};
    return;
  }
  Fields named = *fields.object("tool_choice");
  named.require("type", "'function'");
  named.choice("type", {"function"});
  std::string name;
  if (flat) {
    name = read_tool_name(named);
  } else {
    named.require("function", "an object with the name");
    Fields function = *named.object("function");
    name = read_tool_name(function);
    function.finish();
  }
  named.finish();
  const auto is_other = [&name](const chat::ToolSignature& tool) { return tool.name != name; };
  std::erase_if(tools, is_other);
  if (tools.empty()) {
    fail_field("tool_choice", fmt::format("tool_choice names the tool '{}', which is not among the tools", name));
  }
  request.tools.required = true;
}

void read_conversation(Fields& fields, const PreparedModel& model, ChatRequest& request) {
  chat::Conversation& conversation = request.conversation;
  fields.require("messages", "a list of messages");
  conversation.messages = read_messages(*fields.list("messages"), "messages", model.prompt.form(), fields.strict());
  if (const std::vector<chat::Value>* tools = fields.list("tools")) {
    Tools read = read_tools(*tools, "tools", fields.strict());
    conversation.tools = std::move(read.definitions);
    request.tools.tools = std::move(read.signatures);
  }
  read_tool_choice(fields, request, false);
  constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh"};
  if (const auto effort = fields.choice("reasoning_effort", kEfforts)) {
    set_reasoning_effort(conversation, kEfforts[*effort]);
  }
  if (auto switches = fields.object("chat_template_kwargs")) {
    for (const auto& [name, value] : switches->members().entries()) {
      refuse_reserved_switch(name.as_string());
      conversation.more.set(name, value);
    }
  }
  request.continue_final = fields.boolean("continue_final_message").value_or(false);
  const auto adds_prompt = fields.boolean("add_generation_prompt");
  if (request.continue_final && adds_prompt.value_or(false)) {
    fail_field("continue_final_message", "continue_final_message and add_generation_prompt can't both hold");
  }
  conversation.add_generation_prompt = adds_prompt.value_or(!request.continue_final);
}

ChatRequest read_chat_request(Fields& fields, const PreparedModel& model) {
  ChatRequest request;
  read_model_name(fields, *model.served);
  read_conversation(fields, model, request);
  request.tools.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  request.constraint = read_constraint(fields);
  request.generation = read_generation_fields(fields, *model.served);
  request.max_tokens = read_max_tokens(fields);
  request.top_logprobs = read_logprobs(fields);
  refuse_unsupported(fields);
  ignore_common(fields);
  fields.finish();
  check_conflicts(request);
  return request;
}

std::string render_chat(const PreparedModel& model, const ChatRequest& request) {
  chat::Conversation conversation = request.conversation;
  const bool needs_text = !conversation.tools.is_none() || has_tool_messages(conversation);
  if (needs_text && !model.prompt.format().template_knows_tools) {
    write_tools_as_text(conversation, model.prompt.form());
  }
  return model.prompt.render(std::move(conversation), request.continue_final);
}

PreparedChat prepare_chat(const PreparedModel& model, const ChatRequest& request) {
  const chat::OutputFormat format = answer_format(model.prompt.format(), request.constraint, request.tools);
  PreparedChat prepared;
  prepared.prompt = render_chat(model, request);
  check_prompt_text(prepared.prompt, *model.served, request.param);
  const std::vector<int32_t> tokens = model.prompt.encode(prepared.prompt);
  check_prompt(tokens, *model.served, request.param);
  // A grammar of the request's own begins where the text ends; what is made here begins with a channel.
  const bool is_own = request.constraint.kind == Constraint::Kind::gbnf;
  const bool is_held = request.tools.required || (request.constraint.kind != Constraint::Kind::none && !is_own);
  if (request.continue_final && format.tools->channels && is_held) {
    fail_field("continue_final_message",
               "continue_final_message does not go with response_format or required calls for this model: its answers "
               "begin with a channel; leave one of them out");
  }
  prepared.wish = {request.constraint, request.tools, format, chat::begins_in_reasoning(format, prepared.prompt)};
  // The engine computes the prompt once: the choices come together.
  for (int64_t choice = 0; choice < request.generation.choices; ++choice) {
    engine::Request made = make_request(request.generation, tokens, request.max_tokens, choice);
    made.top_logprobs = request.top_logprobs;
    made.show_control = format.show_control;
    prepared.parts.push_back({std::move(made)});
    prepared.parsers.emplace_back(format, request.tools.tools, prepared.prompt);
  }
  return prepared;
}

}  // namespace minfer::server::openai
