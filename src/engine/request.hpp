// What a caller asks of the engine, and what it gets back. Plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "engine/grammar/grammar.hpp"
#include "engine/sampler/params.hpp"
#include "graph/sampling.hpp"

namespace minfer::engine {

inline constexpr int32_t kMostTopLogprobs = graph::kMostTopLogprobs;

// What happens when a sequence has filled the context.
enum class Overflow : uint8_t {
  stop,   // it ends, with StopReason::context_full
  shift,  // the first Request::keep_tokens stay, the older half of the rest goes (less, where layers with a
          // window need more behind them), the rest moves down, keys rotated
};

// What becomes of the hidden states behind the last norm, one a token, of a text whose embedding is asked for.
enum class Pooling : uint8_t {
  of_model,  // what the file says (<architecture>.pooling_type); where it says nothing, last, of an encoder mean
  first,     // that of the first token; no prefix is shared
  last,      // that of the last token
  mean,      // the mean of all: no prefix is shared, as all tokens have to run
};

struct Request {
  std::vector<int32_t> prompt;  // at least one token
  SamplerParams sampler;
  int64_t max_tokens = -1;  // -1: until the model ends or the context is full
  std::vector<std::string> stops;
  Overflow overflow = Overflow::stop;
  int64_t keep_tokens = 0;  // first ones of the prompt, or of the session before it, with Overflow::shift
  // A session file (kv/session_file.hpp): where it is there, its tokens come before the prompt; the end writes it.
  std::string session_path;
  // What ends a turn in the model's template: goes before the prompt where the session's last token is no end of
  // generation (an answer that was cut).
  std::vector<int32_t> turn_end;
  // What the answer must match. Null: anything. A token that it forces is not drawn, but runs with the next step,
  // where that gives the same answer: without log-probabilities, logit bias, DRY and Mirostat.
  std::shared_ptr<const grammar::Grammar> grammar;
  // Log-probabilities of each drawn token and of the likeliest ones, so many (at most kMostTopLogprobs, and not more
  // than the vocabulary); -1: none.
  int32_t top_logprobs = -1;
  // Give the text of control tokens too (those that end a generation excepted).
  bool show_control = false;
  // Asks for the embedding of the prompt (Result::embedding) in place of an answer: nothing is drawn, and the reason of
  // the end is max_tokens. Goes with no session, grammar or log-probabilities.
  std::optional<Pooling> pooling = std::nullopt;
  // How much of each of the model's adapters it gets; empty: what each was loaded with. A session has no others.
  std::vector<float> adapter_scales = {};
};

enum class StopReason : uint8_t {
  end_of_generation,  // the model drew its end token, or the grammar has ended
  max_tokens,
  stop_string,
  context_full,
  cancelled,
  failed,  // Result::error says why
};

struct Result {
  StopReason reason = StopReason::end_of_generation;
  std::optional<Error> error;  // with StopReason::failed
  bool too_long = false;       // the error is that session and prompt exceed the context
  int64_t prompt_tokens = 0;
  int64_t session_tokens = 0;    // before the prompt, from the session file
  int64_t reused_tokens = 0;     // of the prompt, found in the prefix cache when it first ran
  int64_t generated_tokens = 0;  // drawn, the end token included
  int64_t preemptions = 0;       // how often its pages were taken and computed again
  int64_t shifts = 0;            // how often the context was shifted
  int64_t drafted_tokens = 0;    // guessed by speculation
  int64_t accepted_tokens = 0;   // of those, the ones that stood
  std::vector<float> embedding;  // [width] of the model, not normalized; where Request::pooling
  double queue_seconds = 0;      // from submission to the start, or to the end of one that never started
  double prompt_seconds = 0;     // from the first step to the first drawn token
  double generate_seconds = 0;   // from then to the end: generated_tokens - 1 steps
};

inline constexpr int32_t kNoToken = -1;

using graph::TokenLogprob;

// A token of the answer. Log-probabilities are those of the model's own distribution, before any stage of the sampler;
// -infinity where the model gave that.
struct DrawnToken {
  int32_t id = kNoToken;
  float logprob = 0;                       // where Request::top_logprobs >= 0
  std::span<const TokenLogprob> top = {};  // the likeliest first; valid during the call
};

// How a caller hears of its request. Both are called on the engine's thread, between steps, and must not block.
struct Listener {
  // A token was drawn; `text` is what may be shown now, perhaps nothing. The id kNoToken brings text that was held
  // back, at the end.
  std::function<void(const DrawnToken& token, std::string_view text)> on_token;
  // The last call of a request.
  std::function<void(const Result& result)> on_end;
};

using RequestId = uint64_t;

}  // namespace minfer::engine
