// A chat request, whichever endpoint it came by: what /v1/chat/completions and /v1/responses are read into, and what
// becomes the engine's requests.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/messages.hpp"
#include "server/openai/constraint.hpp"
#include "server/openai/generation_fields.hpp"
#include "server/openai/service.hpp"

namespace minfer::server::openai {

struct ChatRequest {
  chat::Conversation conversation;
  bool continue_final = false;
  std::string param = "messages";  // the field that the prompt is made of, for messages
  ToolUse tools;                   // empty: the model is told of none
  Constraint constraint;
  GenerationFields generation;
  int64_t max_tokens = -1;
  int32_t top_logprobs = -1;
};

// The body of /v1/chat/completions. Errors: ApiFailure.
ChatRequest read_chat_request(Fields& fields, const PreparedModel& model);
// What makes the prompt alone: messages, tools, tool_choice and the template's switches.
void read_conversation(Fields& fields, const PreparedModel& model, ChatRequest& request);
// The field `tool_choice`, on the tools in `request`: none of them, those that may be called, or that must. `flat`: a
// named tool is {"type": "function", "name"}.
void read_tool_choice(Fields& fields, ChatRequest& request, bool flat);
// "none" to "high", for the template.
void set_reasoning_effort(chat::Conversation& conversation, std::string_view effort);

// What the engine and the answer's writer need.
struct PreparedChat {
  std::string prompt;
  GrammarWish wish;                         // of all parts, which don't have it yet
  std::vector<Part> parts;                  // a choice each
  std::vector<chat::OutputParser> parsers;  // likewise
};

// The prompt's text.
std::string render_chat(const PreparedModel& model, const ChatRequest& request);
// Renders and encodes. Errors: ApiFailure.
PreparedChat prepare_chat(const PreparedModel& model, const ChatRequest& request);

}  // namespace minfer::server::openai
