// The answer of /v1/completions: whole, or as a stream of chunks. On the answers' thread.
// Source: https://platform.openai.com/docs/api-reference/completions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/openai/answer_json.hpp"
#include "server/openai/answer_thread.hpp"

namespace minfer::server::openai {

struct CompletionAnswerOptions {
  std::string id = {};
  int64_t created = 0;
  std::string model = {};
  const tokenizer::Tokenizer* tokenizer = nullptr;
  size_t choices = 1;                    // of a prompt: answer i is to prompt i / choices
  std::vector<std::string> echoes = {};  // a prompt each: what its answers begin with; empty: nothing
  size_t prompts = 1;
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
};

std::unique_ptr<Answer> make_completion_answer(CompletionAnswerOptions options, std::shared_ptr<Responder> responder);

}  // namespace minfer::server::openai
