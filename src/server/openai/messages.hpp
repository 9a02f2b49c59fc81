// The messages and tools of a chat request, read into what a template takes. Content is text, or a list of text parts;
// other parts (images, sound, files) are refused by name.
#pragma once

#include <string>
#include <vector>

#include "chat/messages.hpp"
#include "chat/output_parser.hpp"
#include "server/openai/fields.hpp"

namespace minfer::server::openai {

inline constexpr size_t kMostTools = 1024;

// How a template wants what may be written in two ways. Found out once a model (chat_prompt.hpp).
struct MessageForm {
  bool content_parts = false;    // content is a list of parts, never a text
  bool argument_objects = true;  // a call's arguments are an object, not JSON text
  bool knows_developer = false;  // has the role "developer"; else those messages are "system"
  bool knows_system = true;      // shows a system message
};

// `path` is of the list: "messages". Errors: ApiFailure.
std::vector<chat::Message> read_messages(const std::vector<chat::Value>& messages, const std::string& path,
                                         const MessageForm& form, bool strict);
// The text of a content: a text, or a list of parts whose types are among `text_types`, joined by newlines.
std::string read_content(const chat::Value& content, const std::string& path,
                         std::initializer_list<std::string_view> text_types);
// `text` as the template wants a content.
chat::Value make_content(std::string text, const MessageForm& form);
// The arguments of a call at `path`, as a client sent them: JSON text (empty: none), or the object itself. Errors:
// ApiFailure for text that is no JSON object, where the template takes nothing else.
void check_arguments(const chat::Value& arguments, const std::string& path, const MessageForm& form);
// One call of an assistant's message; `arguments` as above.
chat::Value make_tool_call(const std::string& id, const std::string& name, const chat::Value& arguments,
                           const MessageForm& form);

struct Tools {
  chat::Value definitions;  // as the template takes them; none where there are none
  std::vector<chat::ToolSignature> signatures;
};

// Of the form {"type": "function", "function": {"name", "description", "parameters", "strict"}}.
Tools read_tools(const std::vector<chat::Value>& tools, const std::string& path, bool strict);
// The name of a tool, checked. Errors: ApiFailure.
std::string read_tool_name(Fields& function);

}  // namespace minfer::server::openai
