// What answers of all endpoints have in common as JSON: ids, usage, log-probabilities of tokens.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/request.hpp"
#include "server/json_writer.hpp"
#include "server/openai/answer_thread.hpp"
#include "tokenizer/tokenizer.hpp"

namespace minfer::server::openai {

// Names of answers and calls: a prefix and 24 characters that no other call gives, in this process and, as far as
// random numbers go, in none. Any thread.
class IdSource {
 public:
  IdSource();
  std::string make(std::string_view prefix);

 private:
  uint64_t start_;
  std::atomic<uint64_t> next_ = 0;
};

// Tokens of all parts of a job.
struct Usage {
  int64_t prompt = 0;
  int64_t cached = 0;  // of those, found in the prefix cache
  int64_t completion = 0;
  int64_t reasoning = 0;  // of those

  // `counts_prompt`: the part is the first of its prompt.
  void add(const engine::Result& result, bool counts_prompt);
};

// As chat and completions have it: prompt_tokens ...
void write_usage(JsonWriter& json, const Usage& usage);

// {"token", "logprob", "bytes", "top_logprobs": [...]}.
void write_token_logprob(JsonWriter& json, const tokenizer::Tokenizer& tokenizer, const PartToken& token);
// JSON has no infinities: what is that unlikely is -9999, as OpenAI writes it.
float finite_logprob(float logprob);
// Whether a token counts among those whose log-probabilities are told: all but ends of generation.
bool is_shown_token(const tokenizer::Tokenizer& tokenizer, int32_t id);

// "stop" or "length".
std::string_view finish_reason(engine::StopReason reason);
int64_t unix_seconds();

}  // namespace minfer::server::openai
