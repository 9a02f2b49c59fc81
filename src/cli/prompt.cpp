// Prompt building. See prompt.hpp.
// Nothing is printed here: run.cpp says what happened, once all is known to be right.
#include "cli/prompt.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "chat/messages.hpp"
#include "chat/template.hpp"
#include "cli/command.hpp"
#include "cli/io.hpp"

namespace minfer::cli {
namespace {

struct NamedTemplate {
  std::string source;
  std::string name;
};

std::optional<NamedTemplate> choose_template(const gguf::File& file, const PromptOptions& options) {
  if (options.raw && !options.template_file.empty()) throw UsageError("--chat-template has no meaning with --raw");
  if (options.raw) return std::nullopt;
  if (!options.template_file.empty()) return NamedTemplate{read_template(options.template_file), options.template_file};
  const auto source = file.metadata().find_string("tokenizer.chat_template");
  if (!source) return std::nullopt;
  return NamedTemplate{std::string(*source), "tokenizer.chat_template of " + file.metadata().source()};
}

std::string token_text(const tokenizer::Tokenizer& tokenizer, const std::optional<int32_t>& id) {
  return id ? tokenizer.token_bytes(*id) : std::string();
}

std::string render(const NamedTemplate& chosen, const tokenizer::Tokenizer& tokenizer,
                   std::vector<chat::Message> messages, bool add_generation_prompt) {
  chat::Conversation conversation;
  conversation.messages = std::move(messages);
  conversation.add_generation_prompt = add_generation_prompt;
  conversation.bos_token = token_text(tokenizer, tokenizer.vocab().bos());
  conversation.eos_token = token_text(tokenizer, tokenizer.vocab().eos());
  try {
    return chat::Template::parse(chosen.source, chosen.name).render(chat::template_variables(conversation));
  } catch (const Error& error) {
    fail(error.code(), "{}; take --raw for the bare text, or --chat-template FILE", error.what());
  }
}

chat::Message message(const char* role, const std::string& text) {
  return {role, chat::Value::string(text), {}};
}

std::string first_turn(const NamedTemplate& chosen, const tokenizer::Tokenizer& tokenizer,
                       const PromptOptions& options) {
  std::vector<chat::Message> messages;
  if (!options.system.empty()) messages.push_back(message("system", options.system));
  messages.push_back(message("user", options.prompt));
  return render(chosen, tokenizer, std::move(messages), true);
}

// What the template writes behind an earlier answer: the end of that turn, then the new one. Found by rendering a
// conversation with and without the new turn, and a stand-in for what was said before.
std::string next_turn(const NamedTemplate& chosen, const tokenizer::Tokenizer& tokenizer,
                      const PromptOptions& options) {
  const std::string stand_in = "earlier answer";
  std::vector<chat::Message> messages = {message("user", "earlier question"), message("assistant", stand_in)};
  const std::string before = render(chosen, tokenizer, messages, false);
  messages.push_back(message("user", options.prompt));
  const std::string all = render(chosen, tokenizer, std::move(messages), true);
  const size_t answer = before.rfind(stand_in);
  if (answer == std::string::npos || !all.starts_with(before)) {
    fail(ErrorCode::unsupported,
         "{}: changes earlier turns when one is added, and can't go on with a session; take --raw", chosen.name);
  }
  return all.substr(answer + stand_in.size());
}

// The end of the turn before apart, where it is one token.
Prompt continuation(const NamedTemplate& chosen, const tokenizer::Tokenizer& tokenizer, const PromptOptions& options) {
  if (!options.system.empty()) throw UsageError("--system goes before the first turn; the session has that already");
  Prompt prompt{tokenizer.encode(next_turn(chosen, tokenizer, options), {.parse_special = true, .add_special = false}),
                true};
  if (!prompt.tokens.empty() && tokenizer.vocab().is_end_of_generation(prompt.tokens.front())) {
    prompt.turn_end.assign(1, prompt.tokens.front());
    prompt.tokens.erase(prompt.tokens.begin());
  }
  return prompt;
}

// The text of the first control token that `text` has in it, or an empty one.
std::string find_control_token(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  for (const int32_t id : tokenizer.encode(text, {.parse_special = true, .add_special = false})) {
    if (tokenizer.vocab().type(id) == tokenizer::TokenType::control) return tokenizer.token_bytes(id);
  }
  return {};
}

}  // namespace

Prompt build_prompt(const gguf::File& file, const tokenizer::Tokenizer& tokenizer, const PromptOptions& options) {
  check_utf8(options.prompt, "the prompt");
  check_utf8(options.system, "--system");
  const auto chosen = choose_template(file, options);
  if (chosen) {
    // The template writes the special tokens itself.
    Prompt prompt = options.continues ? continuation(*chosen, tokenizer, options)
                                      : Prompt{tokenizer.encode(first_turn(*chosen, tokenizer, options),
                                                                {.parse_special = true, .add_special = false}),
                                               true};
    prompt.control_token = find_control_token(tokenizer, options.system + "\n" + options.prompt);
    return prompt;
  }
  if (!options.system.empty()) {
    throw UsageError(options.raw ? "--system has no meaning with --raw"
                                 : "the model has no chat template for --system; give --chat-template FILE");
  }
  return {tokenizer.encode(options.prompt, {.parse_special = true, .add_special = !options.continues}), false};
}

}  // namespace minfer::cli
