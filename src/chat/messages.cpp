// Conversation to template variables. See messages.hpp.
#include "chat/messages.hpp"

namespace minfer::chat {

Value template_variables(const Conversation& conversation) {
  std::vector<Value> messages;
  messages.reserve(conversation.messages.size());
  for (const Message& message : conversation.messages) {
    Dict fields;
    fields.set("role", Value::string(message.role));
    if (!message.content.is_none()) fields.set("content", message.content);
    for (const auto& [name, value] : message.more.entries()) {
      if (!value.is_none()) fields.set(name, value);
    }
    messages.push_back(Value::dict(std::move(fields)));
  }
  Dict variables;
  variables.set("messages", Value::list(std::move(messages)));
  variables.set("tools", conversation.tools);
  variables.set("documents", conversation.documents);
  variables.set("add_generation_prompt", Value::boolean(conversation.add_generation_prompt));
  if (!conversation.bos_token.empty()) variables.set("bos_token", Value::string(conversation.bos_token));
  if (!conversation.eos_token.empty()) variables.set("eos_token", Value::string(conversation.eos_token));
  for (const auto& [name, value] : conversation.more.entries()) variables.set(name, value);
  return Value::dict(std::move(variables));
}

}  // namespace minfer::chat
