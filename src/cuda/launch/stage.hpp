// The beginning of a step on the card: its data is fetched from pinned host memory, and what the step before has drawn
// and the host does not know yet is put in. Part of the sampler's family: it reads what launch_sample wrote.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/launch/sampling.hpp"

namespace minfer::cuda {

// A step's data lies alike on the host and on the card. Token ids are int32 from offset 0; then what is copied as it
// is; the rows of the sampler and their edits are at offsets of their own.
struct StageArgs {
  const std::byte* host = nullptr;  // pinned
  std::byte* device = nullptr;      // both at multiples of 16 bytes
  int64_t bytes = 0;                // to be fetched from the start on, in whole units of 16
  int64_t tokens = 0;               // ids below 0 become those that drawn[-1 - id] has
  int64_t draws_offset = 0;
  int64_t draws = 0;  // SamplingRows
  int64_t edits_offset = 0;
  // [the outputs of the step before], on the device. A row with `counted` >= 0 counts the token of that output once
  // more among its edits, behind which there is room for one.
  const Drawn* drawn = nullptr;
};

inline constexpr int64_t kMostRowEdits = graph::kEditsPerRow;

// Errors: internal for shapes beyond the sampler's.
void launch_stage(const Queue& queue, const StageArgs& args);

}  // namespace minfer::cuda
