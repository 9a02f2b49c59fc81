// The sampler on the card: the next token of each output row, drawn from its logits where they are, so that only ids go
// back. The stages and their order are the engine's (engine/sampler): edits of single logits (bias, penalties, DRY),
// the grammar's mask, greedy at temperature 0, then top-k, typical, top-p, min-p, XTC, temperature (or temperature and
// Mirostat), and a draw by inversion over the candidates in descending order of logits (ties by id). What depends on a
// sequence's history comes as edits, made by the host; what is random comes as numbers in [0, 1) that the host drew
// from the request's own generator, so that a seed gives equal tokens whatever else is in the batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/launch/activation.hpp"
#include "cuda/runtime/launch.hpp"
#include "graph/sampling.hpp"

namespace minfer::cuda {

using graph::Drawn;
using graph::DrawStatus;
using graph::LogitEdit;
using graph::TokenLogprob;

// graph::RowDraw as the kernels read it.
struct SamplingRow {
  int32_t first_edit;  // of the launch's edits; ascending by token, each at most once
  int32_t edits;
  float repeat;  // 1: off; this and the next two for edits with a count
  float frequency;
  float presence;
  int32_t counted;        // below 0: none; what launch_stage has to add
  float temperature;      // 0: greedy, the rest is not looked at
  int32_t top_k;          // 0: off
  float typical_p;        // 1: off
  float top_p;            // 1: off
  float min_p;            // 0: off
  float xtc_probability;  // 0: off
  float xtc_threshold;
  float xtc_uniform;  // XTC acts where it is below xtc_probability
  double uniform;     // of the draw
  int32_t mirostat;   // 0: off
  float mirostat_mu;
  int32_t mask;  // which of the launch's masks; -1: all tokens may be drawn
  int32_t top_logprobs = 0;
};

inline constexpr int64_t kMaxSampledVocabulary = int64_t{1} << 19;
inline constexpr int64_t kMaxSampledRows = 65535;

// Words of a mask (graph::RowDraw).
constexpr int64_t mask_words(int64_t vocabulary) {
  return (vocabulary + 31) / 32;
}

struct SampleArgs {
  Rows logits;                        // f32 [rows][vocabulary]; not changed
  const SamplingRow* rows = nullptr;  // [logits.rows], on the device
  const LogitEdit* edits = nullptr;   // on the device
  const uint32_t* masks = nullptr;    // [masks][mask_words], on the device
  Drawn* out = nullptr;               // [logits.rows], on the device
  std::byte* scratch = nullptr;       // sample_scratch_bytes
  // On the device, where it is not null: the address in pinned memory to which the results go as well.
  Drawn* const* mirror = nullptr;
  // On the device, where the likeliest tokens are wanted of some rows: the address to which they go
  // (graph::StepResult::top).
  TokenLogprob* const* top = nullptr;
};
// Of any content; for launches that follow each other on one stream.
int64_t sample_scratch_bytes(int64_t rows, int64_t vocabulary);
// A row's result depends on nothing but its logits, its SamplingRow and its edits, and is the same every time. Two
// launches whatever the rows ask for, so that they can be recorded, and a third with args.top. Errors: internal for
// shapes beyond the limits.
void launch_sample(const Queue& queue, const SampleArgs& args);

}  // namespace minfer::cuda
