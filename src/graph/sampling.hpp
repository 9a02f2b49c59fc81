// Drawing the next token of an output row on the device that made its logits, so that only ids come back. Part of the
// device seam (backend.hpp), for devices that can (Backend::draws). What depends on a sequence's history comes as edits
// of single logits, what is random as numbers in [0, 1): both are made by the engine's sampler, whose stages and order
// these are. Plain data.
#pragma once

#include <cstdint>
#include <span>

namespace minfer::graph {

// logit[token] += bias; then, where count > 0, the row's penalties: where repeat != 1, / repeat if positive, else
// * repeat; then -= count * frequency + presence; then -= dry.
struct LogitEdit {
  int32_t token;
  float bias;
  int32_t count;  // how often the token is among those that the penalties look back on
  float dry;
};

// Most edits of all rows of a step, by rows of its shape's outputs.
inline constexpr int64_t kEditsPerRow = 256;

inline constexpr int32_t kNoOutput = -1;

// A token with its log-probability under the softmax of a row's unedited logits.
struct TokenLogprob {
  int32_t token;
  float logprob;
};

inline constexpr int32_t kMostTopLogprobs = 20;

struct RowDraw {
  std::span<const LogitEdit> edits;  // ascending by token, each at most once
  float repeat = 1;
  float frequency = 0;
  float presence = 0;
  // An output of the step before, whose token the host does not know yet: the edits count it once more, and are then
  // still at most kEditsPerRow. kNoOutput: none.
  int32_t counted = kNoOutput;
  float temperature = 0;      // 0: greedy, the rest is not looked at
  int32_t top_k = 0;          // 0: off
  float typical_p = 1;        // 1: off
  float top_p = 1;            // 1: off
  float min_p = 0;            // 0: off
  float xtc_probability = 0;  // 0: off
  float xtc_threshold = 0;
  float xtc_uniform = 0;
  int32_t mirostat = 0;  // 0: off; 1 or 2: in place of the filters above (arXiv 2007.14966), at the temperature
  float mirostat_mu = 0;
  double uniform = 0;
  // Bit t % 32 of word t / 32: whether token t may be drawn. Empty: all may.
  std::span<const uint32_t> mask = {};
  int32_t top_logprobs = 0;  // how many of the likeliest tokens are wanted as well, at most kMostTopLogprobs
};

enum class DrawStatus : int32_t {
  ok,
  not_finite,  // a logit is NaN or +infinity: broken weights
  no_finite,   // every logit is -infinity
  all_equal,   // broken weights
  forbidden,   // edits and mask left no finite logit, or an edit made one NaN or +infinity
};

struct Drawn {
  int32_t id;  // 0 where not ok: what is queued behind finds a token that exists
  DrawStatus status;
  int32_t culprit;  // the first token whose logit is not_finite, else -1
  float logprob;    // of the token under the softmax of the unedited logits; 0 where not ok
  float surprise;   // in bits, of the token among those that Mirostat left; 0 without it
};

}  // namespace minfer::graph
