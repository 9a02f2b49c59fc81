// Messages of a conversation, and the variables that a chat template gets for them: the names that transformers'
// apply_chat_template passes. A message is a role, a content and whatever else its template understands (tool_calls,
// reasoning_content, name ...), kept as Values in their order.
#pragma once

#include <string>
#include <vector>

#include "chat/value.hpp"

namespace minfer::chat {

struct Message {
  std::string role;  // "system", "user", "assistant", "tool"
  Value content;     // text, a list of parts, or none
  Dict more;         // further fields: tool_calls, tool_call_id, name, reasoning_content
};

struct Conversation {
  std::vector<Message> messages;
  Value tools;      // a list of tool definitions; none: no tools
  Value documents;  // a list of documents; none: no documents
  bool add_generation_prompt = true;
  std::string bos_token;  // the model's special tokens as text; empty: the model has none
  std::string eos_token;
  Dict more;  // the template's own switches: enable_thinking ...
};

// The dict that Template::render takes. Like transformers, leaves out special tokens that the model lacks and fields of
// messages that are none (templates treat a missing content and an absent one alike). Error: invalid_input for text
// that is not valid UTF-8.
Value template_variables(const Conversation& conversation);

}  // namespace minfer::chat
