// Chat prompts. See chat_prompt.hpp.
// The probes follow what transformers' users do by hand: a text content and parsed arguments where the template takes
// them, the other form where it shows only that.
#include "server/openai/chat_prompt.hpp"

#include <optional>

#include "server/api_error.hpp"
#include "server/json_writer.hpp"

namespace minfer::server::openai {
namespace {

constexpr std::string_view kProbeText = "qzprobeqz";

std::string token_text(const tokenizer::Tokenizer& tokenizer, const std::optional<int32_t>& id) {
  return id ? tokenizer.token_bytes(*id) : std::string();
}

chat::Message text_message(const char* role, std::string text, const MessageForm& form) {
  return {role, make_content(std::move(text), form), {}};
}

chat::Conversation call_probe(const MessageForm& form) {
  chat::Conversation conversation;
  conversation.messages.push_back(text_message("user", "question", form));
  chat::Message call{"assistant", make_content("", form), {}};
  const chat::Value arguments = chat::Value::string("{\"" + std::string(kProbeText) + "\": \"value\"}");
  call.more.set("tool_calls", chat::Value::list({make_tool_call("call_123", "name", arguments, form)}));
  conversation.messages.push_back(std::move(call));
  chat::Message result = text_message("tool", "result", form);
  result.more.set("tool_call_id", chat::Value::string("call_123"));
  result.more.set("name", chat::Value::string("name"));
  conversation.messages.push_back(std::move(result));
  return conversation;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

std::string content_text(const chat::Message& message) {
  if (message.content.is_string()) return message.content.as_string();
  if (message.content.is_none()) return {};
  return read_content(message.content, "messages", {"text"});
}

}  // namespace

ChatPrompt::ChatPrompt(const ServedModel& model)
    : model_(model),
      bos_(token_text(*model.tokenizer, model.tokenizer->vocab().bos())),
      eos_(token_text(*model.tokenizer, model.tokenizer->vocab().eos())) {
  if (!model.chat_template) return;
  const tokenizer::Vocab& vocab = model.tokenizer->vocab();
  format_ = chat::detect_output_format(model.template_source, [&vocab](std::string_view text) {
    const int32_t id = vocab.find(text);
    return id >= 0 && vocab.type(id) == tokenizer::TokenType::control;
  });
  find_form();
}

std::string ChatPrompt::render_raw(const chat::Conversation& conversation) const {
  if (!model_.chat_template) {
    fail_field("messages", fmt::format("{} has no chat template; send the bare text to /v1/completions, or start the "
                                       "server with --chat-template FILE",
                                       model_.name));
  }
  try {
    return model_.chat_template->render(chat::template_variables(conversation));
  } catch (const chat::RaisedError& error) {
    fail_field("messages", fmt::format("the model's chat template refuses the messages: {}", error.template_message()));
  } catch (const Error& error) {
    fail_field("messages", fmt::format("the model's chat template fails on the messages: {}", error.what()));
  }
}

bool ChatPrompt::renders(const chat::Conversation& conversation, std::string_view text) const {
  try {
    return render_raw(conversation).find(text) != std::string::npos;
  } catch (const Error&) {  // it does not render
    return false;
  }
}

void ChatPrompt::find_form() {
  form_.knows_developer = model_.template_source.find("developer") != std::string::npos;
  const auto takes_content = [this](bool parts) {
    MessageForm form = form_;
    form.content_parts = parts;
    chat::Conversation conversation;
    conversation.messages.push_back(text_message("user", std::string(kProbeText), form));
    return renders(conversation, kProbeText);
  };
  form_.content_parts = !takes_content(false) && takes_content(true);
  chat::Conversation with_system;
  with_system.messages = {text_message("system", std::string(kProbeText), form_), text_message("user", "hi", form_)};
  form_.knows_system = renders(with_system, kProbeText);
  // Shown as an object's JSON, rather than as Python writes a dict, or as JSON text inside JSON text.
  const auto takes_arguments = [this](bool objects, std::string_view shown) {
    MessageForm form = form_;
    form.argument_objects = objects;
    return renders(call_probe(form), shown);
  };
  const std::string as_python = "'" + std::string(kProbeText) + "'";
  const std::string as_json = "{\"" + std::string(kProbeText) + "\"";
  const bool shows_object = takes_arguments(true, kProbeText) && !takes_arguments(true, as_python);
  form_.argument_objects = shows_object || !takes_arguments(false, as_json);
}

std::string ChatPrompt::render(chat::Conversation conversation, bool continue_final) const {
  conversation.bos_token = bos_;
  conversation.eos_token = eos_;
  if (!continue_final) return render_raw(conversation);
  const chat::Message& last = conversation.messages.back();
  if (last.role != "assistant") {
    fail_field("continue_final_message", fmt::format("continue_final_message goes with a last message of the "
                                                     "assistant; it is of the role '{}'",
                                                     last.role));
  }
  const std::string text(trimmed(content_text(last)));
  conversation.add_generation_prompt = false;
  std::string rendered = render_raw(conversation);
  const size_t begin = text.empty() ? std::string::npos : rendered.rfind(text);
  if (begin == std::string::npos) {
    fail_field("continue_final_message",
               "the model's chat template does not show the last message as it is, so that it can't be continued");
  }
  rendered.resize(begin + text.size());
  return rendered;
}

std::vector<int32_t> ChatPrompt::encode(const std::string& text) const {
  return model_.tokenizer->encode(text, {.parse_special = true, .add_special = false});
}

namespace {

std::string describe_tools(const chat::Value& tools) {
  std::string text =
      "You can call functions. To call one, answer with nothing but a JSON object of this form:\n"
      "{\"name\": \"<the function's name>\", \"arguments\": {<its arguments>}}\n"
      "The functions, with the JSON Schema of their arguments:\n";
  for (const chat::Value& tool : tools.items()) {
    const chat::Value* function = tool.as_dict().find("function");
    JsonWriter json;
    json.value(function == nullptr ? tool : *function);
    text += json.take() + "\n";
  }
  return text;
}

// What the assistant would have written: the calls in the generic form.
std::string calls_as_text(const chat::Value& calls) {
  std::string text;
  for (const chat::Value& call : calls.items()) {
    const chat::Dict& function = call.as_dict().find("function")->as_dict();
    JsonWriter json;
    json.begin_object().key("name").value(*function.find("name"));
    json.key("arguments").value(*function.find("arguments")).end_object();
    if (!text.empty()) text += "\n";
    text += json.take();
  }
  return text;
}

}  // namespace

void write_tools_as_text(chat::Conversation& conversation, const MessageForm& form) {
  std::vector<chat::Message> messages;
  std::string system = conversation.tools.is_none() ? std::string() : describe_tools(conversation.tools);
  bool after_result = false;
  for (chat::Message& message : conversation.messages) {
    if (const chat::Value* calls = message.more.find("tool_calls")) {
      const std::string text = content_text(message);
      message =
          text_message("assistant", text.empty() ? calls_as_text(*calls) : text + "\n" + calls_as_text(*calls), form);
    }
    const bool is_result = message.role == "tool";
    if (is_result) {
      const std::string text = "The function's result:\n" + content_text(message);
      if (after_result) {
        messages.back() = text_message("user", content_text(messages.back()) + "\n" + text, form);
        continue;
      }
      message = text_message("user", text, form);
    }
    after_result = is_result;
    const bool is_first = messages.empty() && !is_result && !system.empty();
    if (is_first && message.role == (form.knows_system ? "system" : "user")) {
      const std::string text = content_text(message);
      const std::string joined =
          form.knows_system ? fmt::format("{}\n\n{}", text, system) : fmt::format("{}\n{}", system, text);
      message = text_message(message.role.c_str(), joined, form);
      system.clear();
    }
    messages.push_back(std::move(message));
  }
  if (!system.empty()) {
    messages.insert(messages.begin(), text_message(form.knows_system ? "system" : "user", system, form));
  }
  conversation.messages = std::move(messages);
  conversation.tools = {};
}

}  // namespace minfer::server::openai
