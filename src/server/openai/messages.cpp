// Messages and tools. See messages.hpp.
// Members of a message that minfer doesn't know go to the template as they are, for it may know them, unless the server
// is strict.
#include "server/openai/messages.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "server/api_error.hpp"
#include "server/json_writer.hpp"

namespace minfer::server::openai {
namespace {

constexpr size_t kMostNameBytes = 64;

// A part that this server can't read.
[[noreturn]] void refuse_part(const std::string& path, const std::string& type) {
  throw ApiFailure({.status = 400,
                    .message = fmt::format("{} is a part of type '{}'; this server reads text parts only", path, type),
                    .param = path,
                    .code = "unsupported_content"});
}

std::string read_part(const chat::Value& part, const std::string& path,
                      std::initializer_list<std::string_view> text_types) {
  Fields fields(part, path, false);
  const auto type = fields.text("type");
  if (!type) fail_field(fields.path("type"), fmt::format("{} is missing; expected 'text'", fields.path("type")));
  if (std::find(text_types.begin(), text_types.end(), *type) == text_types.end()) refuse_part(path, *type);
  const std::string_view member = *type == "refusal" ? "refusal" : "text";
  const chat::Value& text = fields.require(member, "a text");
  if (!text.is_string()) fail_type(fields.path(member), text, "a text");
  return text.as_string();
}

std::string json_text(const chat::Value& value) {
  JsonWriter json;
  json.value(value);
  return json.take();
}

// The arguments as an object; none where the text is not one's JSON.
chat::Value parse_arguments(const std::string& text) {
  if (text.empty()) return chat::Value::dict({});
  try {
    chat::Value value = chat::value_from_json(text);
    if (value.is(chat::Kind::dict)) return value;
  } catch (const Error&) {  // the caller says so
  }
  return {};
}

std::string require_text(Fields& fields, std::string_view name) {
  const chat::Value& value = fields.require(name, "a text");
  if (!value.is_string() || value.as_string().empty()) fail_type(fields.path(name), value, "a text");
  return value.as_string();
}

chat::Value read_tool_call(const chat::Value& call, const std::string& path, const MessageForm& form, bool strict) {
  Fields fields(call, path, strict);
  fields.choice("type", {"function"});
  fields.ignore({"index"});
  const std::string id = fields.text("id").value_or("");
  fields.require("function", "an object");
  Fields function = *fields.object("function");
  const std::string name = require_text(function, "name");
  const chat::Value* arguments = function.find("arguments");
  if (arguments != nullptr) check_arguments(*arguments, function.path("arguments"), form);
  function.finish();
  fields.finish();
  return make_tool_call(id, name, arguments == nullptr ? chat::Value::string("") : *arguments, form);
}

chat::Value read_tool_calls(const std::vector<chat::Value>& calls, const std::string& path, const MessageForm& form,
                            bool strict) {
  std::vector<chat::Value> items;
  for (size_t i = 0; i < calls.size(); ++i) {
    items.push_back(read_tool_call(calls[i], fmt::format("{}[{}]", path, i), form, strict));
  }
  return chat::Value::list(std::move(items));
}

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};

std::string read_role(Fields& fields, const MessageForm& form) {
  const chat::Value& role = fields.require("role", "a role");
  if (role.is_string() && role.as_string() == "function") {
    fail_field(fields.path("role"), fmt::format("{} is 'function', which is no longer used; expected 'tool' with a "
                                                "tool_call_id",
                                                fields.path("role")));
  }
  const std::string_view name = kRoles[*fields.choice("role", kRoles)];
  return std::string(name == "developer" && !form.knows_developer ? "system" : name);
}

chat::Message read_message(const chat::Value& value, const std::string& path, const MessageForm& form, bool strict) {
  Fields fields(value, path, strict);
  chat::Message message;
  message.role = read_role(fields, form);
  const bool is_assistant = message.role == "assistant";
  if (const chat::Value* content = fields.find("content")) {
    message.content =
        make_content(read_content(*content, fields.path("content"), {"text", is_assistant ? "refusal" : "text"}), form);
  }
  if (is_assistant) {
    const std::vector<chat::Value>* calls = fields.list("tool_calls");
    if (calls != nullptr && !calls->empty()) {
      message.more.set("tool_calls", read_tool_calls(*calls, fields.path("tool_calls"), form, strict));
    }
    fields.refuse("function_call", "send tool_calls");
    fields.ignore({"refusal", "annotations", "audio"});
  }
  const bool may_be_empty =
      is_assistant && (message.more.find("tool_calls") != nullptr || fields.find("reasoning_content") != nullptr);
  if (message.content.is_none() && !may_be_empty) {
    fail_field(fields.path("content"),
               fmt::format("{} is missing; expected a text, or a list of text parts", fields.path("content")));
  }
  if (message.role == "tool") require_text(fields, "tool_call_id");
  for (const std::string_view name : {"reasoning_content", "name", "tool_call_id"}) {
    if (const auto text = fields.text(name)) message.more.set(name, chat::Value::string(*text));
  }
  fields.finish();
  for (const auto& [name, member] : fields.members().entries()) {
    if (!fields.is_known(name.as_string())) message.more.set(name.as_string(), member);
  }
  return message;
}

}  // namespace

std::string read_content(const chat::Value& content, const std::string& path,
                         std::initializer_list<std::string_view> text_types) {
  if (content.is_string()) return content.as_string();
  if (!content.is(chat::Kind::list)) fail_type(path, content, "a text, or a list of text parts");
  std::string text;
  for (size_t i = 0; i < content.items().size(); ++i) {
    if (i > 0) text += '\n';
    text += read_part(content.items()[i], fmt::format("{}[{}]", path, i), text_types);
  }
  return text;
}

chat::Value make_content(std::string text, const MessageForm& form) {
  if (!form.content_parts) return chat::Value::string(std::move(text));
  chat::Dict part;
  part.set("type", chat::Value::string("text"));
  part.set("text", chat::Value::string(std::move(text)));
  return chat::Value::list({chat::Value::dict(std::move(part))});
}

void check_arguments(const chat::Value& arguments, const std::string& path, const MessageForm& form) {
  if (arguments.is(chat::Kind::dict)) return;
  if (!arguments.is_string()) fail_type(path, arguments, "JSON text");
  if (!form.argument_objects || !parse_arguments(arguments.as_string()).is_none()) return;
  fail_type(path, arguments, "the JSON of an object, for this model's template takes nothing else");
}

chat::Value make_tool_call(const std::string& id, const std::string& name, const chat::Value& arguments,
                           const MessageForm& form) {
  chat::Dict function;
  function.set("name", chat::Value::string(name));
  if (form.argument_objects) {
    function.set("arguments", arguments.is_string() ? parse_arguments(arguments.as_string()) : arguments);
  } else {
    function.set("arguments", arguments.is_string() ? arguments : chat::Value::string(json_text(arguments)));
  }
  chat::Dict call;
  if (!id.empty()) call.set("id", chat::Value::string(id));
  call.set("type", chat::Value::string("function"));
  call.set("function", chat::Value::dict(std::move(function)));
  return chat::Value::dict(std::move(call));
}

std::vector<chat::Message> read_messages(const std::vector<chat::Value>& messages, const std::string& path,
                                         const MessageForm& form, bool strict) {
  if (messages.empty()) fail_field(path, fmt::format("{} is empty; expected at least one message", path));
  std::vector<chat::Message> read;
  read.reserve(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    read.push_back(read_message(messages[i], fmt::format("{}[{}]", path, i), form, strict));
  }
  return read;
}

std::string read_tool_name(Fields& function) {
  std::string name = require_text(function, "name");
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  if (name.size() > kMostNameBytes || !std::all_of(name.begin(), name.end(), is_allowed)) {
    fail_type(function.path("name"), chat::Value::string(name),
              fmt::format("at most {} letters, digits, '_', '-' and '.'", kMostNameBytes));
  }
  return name;
}

Tools read_tools(const std::vector<chat::Value>& tools, const std::string& path, bool strict) {
  if (tools.size() > kMostTools) {
    fail_field(path, fmt::format("{} has {} tools; the limit is {}", path, tools.size(), kMostTools));
  }
  Tools read;
  for (size_t i = 0; i < tools.size(); ++i) {
    Fields fields(tools[i], fmt::format("{}[{}]", path, i), strict);
    fields.require("type", "'function'");
    fields.choice("type", {"function"});
    fields.require("function", "an object");
    Fields function = *fields.object("function");
    chat::ToolSignature signature{read_tool_name(function), {}};
    if (auto parameters = function.object("parameters")) signature.parameters = *function.find("parameters");
    function.text("description");
    function.boolean("strict");
    function.finish();
    fields.finish();
    const auto same = [&](const chat::ToolSignature& other) { return other.name == signature.name; };
    if (std::any_of(read.signatures.begin(), read.signatures.end(), same)) {
      fail_field(function.path("name"), fmt::format("{} '{}' is the name of an earlier tool as well; give each its own",
                                                    function.path("name"), signature.name));
    }
    read.signatures.push_back(std::move(signature));
  }
  if (!tools.empty()) read.definitions = chat::Value::list(tools);
  return read;
}

}  // namespace minfer::server::openai
