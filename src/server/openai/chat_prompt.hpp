// From messages to the prompt of a chat model: its template, what the template wants in what form, and what its answers
// look like. Templates differ in what they take as a content and as a call's arguments; that is found out once a model
// by rendering small conversations and looking for their texts in the outcome. Immutable; any thread.
#pragma once

#include <string>
#include <vector>

#include "chat/messages.hpp"
#include "chat/output_format.hpp"
#include "server/openai/messages.hpp"
#include "server/served_model.hpp"

namespace minfer::server::openai {

class ChatPrompt {
 public:
  // `model` outlives it. Without a template it can be made, and renders nothing.
  explicit ChatPrompt(const ServedModel& model);

  const MessageForm& form() const { return form_; }
  const chat::OutputFormat& format() const { return format_; }
  // The prompt's text. Fills in the special tokens. `continue_final`: the last message is an assistant's, and the
  // prompt ends within it. Errors: ApiFailure where there is no template, where the template refuses the messages (with
  // its message), or where the last message isn't found in what it makes.
  std::string render(chat::Conversation conversation, bool continue_final = false) const;
  // Special tokens in `text` are taken as such, and none is added: the template writes them.
  std::vector<int32_t> encode(const std::string& text) const;

 private:
  std::string render_raw(const chat::Conversation& conversation) const;
  bool renders(const chat::Conversation& conversation, std::string_view text) const;
  void find_form();

  const ServedModel& model_;
  std::string bos_;
  std::string eos_;
  MessageForm form_;
  chat::OutputFormat format_;
};

// For a template that knows no tools: describes them in the system message, and writes earlier calls and their results
// as messages of the assistant and the user.
void write_tools_as_text(chat::Conversation& conversation, const MessageForm& form);

}  // namespace minfer::server::openai
