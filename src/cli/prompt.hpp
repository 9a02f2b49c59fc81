// From what the user typed to the tokens that the model gets: the chat template of the file (or one given), or the text
// as it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gguf/reader.hpp"
#include "tokenizer/tokenizer.hpp"

namespace minfer::cli {

struct PromptOptions {
  std::string prompt;
  std::string system;
  bool raw = false;
  std::string template_file;  // empty: the model's own
};

struct Prompt {
  std::vector<int32_t> tokens;
  bool has_template;  // false: the text as it is
  // A control token whose text stands in what the user typed, where a template should be the only one to write them.
  std::string control_token = {};
};

// Errors: unsupported, naming the template and the ways out, where it can't be rendered; UsageError where --system is
// given without a template.
Prompt build_prompt(const gguf::File& file, const tokenizer::Tokenizer& tokenizer, const PromptOptions& options);

}  // namespace minfer::cli
