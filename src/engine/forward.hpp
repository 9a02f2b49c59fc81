// Running one sequence through a model, without a scheduler: for measuring, scoring and tests. The engine's thread
// makes all calls.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/kv/sequence.hpp"
#include "engine/runner.hpp"

namespace minfer::engine {

// Asked between steps; true ends the work with Error{cancelled}.
using CancelFn = std::function<bool()>;

// Appends tokens, in steps of the runner's batch; returns the logits of the last one, valid until the runner's next
// step. Errors: invalid_input where `ids` is empty or names a token outside the vocabulary; out_of_memory, with the
// numbers, where the pages don't suffice; cancelled between steps.
std::span<const float> append(Runner& runner, Sequence& sequence, std::span<const int32_t> ids,
                              const CancelFn& cancelled = {});

// The same, for the logits of every token from index `first` of `ids` on: each(index, logits).
void append_scored(Runner& runner, Sequence& sequence, std::span<const int32_t> ids, int64_t first,
                   const std::function<void(int64_t index, std::span<const float> logits)>& each);

}  // namespace minfer::engine
