// Generation for one sequence: run the prompt, then draw and run tokens until something ends it, handing text out as it
// becomes whole. The engine's thread runs it; on_text is called on that thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/forward.hpp"
#include "engine/sampler/sampler.hpp"
#include "tokenizer/tokenizer.hpp"

namespace minfer::engine {

struct GenerateRequest {
  std::vector<int32_t> prompt;  // at least one token
  SamplerParams sampler;
  int64_t max_tokens = -1;  // -1: until the model ends or the context is full
  std::vector<std::string> stops;
};

enum class StopReason {
  end_of_generation,  // the model drew its end token
  max_tokens,
  stop_string,
  context_full,
  cancelled,
};

struct GenerateResult {
  StopReason reason = StopReason::end_of_generation;
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;  // drawn, the end token included
  double prompt_seconds = 0;     // to the first drawn token
  double generate_seconds = 0;   // from then to the end: generated_tokens - 1 steps
};

using TextFn = std::function<void(std::string_view text)>;

// Errors: those of the sampler's parameters, of Sequence::append and of StopMatcher. Cancelling is not an error: what
// was generated stands.
GenerateResult generate(Runner& runner, Sequence& sequence, const tokenizer::Tokenizer& tokenizer,
                        const GenerateRequest& request, int64_t context_tokens, const TextFn& on_text,
                        const CancelFn& cancelled);

}  // namespace minfer::engine
