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
  bool continues = false;     // what was said before is in a session
};

struct Prompt {
  std::vector<int32_t> tokens;
  bool has_template;  // false: the text as it is
  // A control token whose text stands in what the user typed, where a template should be the only one to write them.
  std::string control_token = {};
  // Where it continues: what ends the turn before, for an answer that was cut.
  std::vector<int32_t> turn_end = {};
};

// Errors: unsupported, naming the template and the ways out, where it can't be rendered, or not as a turn that follows
// others; UsageError where --system is given without a template, or continues.
Prompt build_prompt(const gguf::File& file, const tokenizer::Tokenizer& tokenizer, const PromptOptions& options);

}  // namespace minfer::cli
