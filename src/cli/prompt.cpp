// Prompt building. See prompt.hpp.
// Nothing is printed here: run.cpp says what happened, once all is known to be right.
#include "cli/prompt.hpp"

#include <optional>

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

std::string render(const NamedTemplate& chosen, const tokenizer::Tokenizer& tokenizer, const PromptOptions& options) {
  chat::Conversation conversation;
  if (!options.system.empty()) conversation.messages.push_back({"system", chat::Value::string(options.system), {}});
  conversation.messages.push_back({"user", chat::Value::string(options.prompt), {}});
  conversation.bos_token = token_text(tokenizer, tokenizer.vocab().bos());
  conversation.eos_token = token_text(tokenizer, tokenizer.vocab().eos());
  try {
    return chat::Template::parse(chosen.source, chosen.name).render(chat::template_variables(conversation));
  } catch (const Error& error) {
    fail(error.code(), "{}; take --raw for the bare text, or --chat-template FILE", error.what());
  }
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
    const std::string text = render(*chosen, tokenizer, options);
    const std::string control_token = find_control_token(tokenizer, options.system + "\n" + options.prompt);
    return {tokenizer.encode(text, {.parse_special = true, .add_special = false}), true, control_token};
  }
  if (!options.system.empty()) {
    throw UsageError(options.raw ? "--system has no meaning with --raw"
                                 : "the model has no chat template for --system; give --chat-template FILE");
  }
  return {tokenizer.encode(options.prompt, {.parse_special = true, .add_special = true}), false};
}

}  // namespace minfer::cli
