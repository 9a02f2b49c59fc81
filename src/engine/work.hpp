// What a model's steps need at least, whatever runs them: bytes to read and operations to do. Set against a device's
// limits they give the fraction of the limit that a measured speed reaches. Pure.
#pragma once

#include <cstdint>

#include "engine/runner.hpp"
#include "graph/backend.hpp"
#include "model/model.hpp"

namespace minfer::engine {

// Seconds a step that the limits allow when `streams` streams of `depth` tokens in the cache decode one token each:
// every matrix (of experts those that streams which choose evenly would reach) is read once for all of them, the
// cache's keys and values of each.
double decode_limit_seconds(const model::Model& model, const graph::Backend& device, const graph::DeviceLimits& limits,
                            const RunnerOptions& options, int64_t depth, int64_t streams);

// Seconds that the limits allow for a prompt of `tokens` after `depth` others: every token takes part in every matrix
// but the output's and those after attention in the last layer, which the last token alone needs, and attends to those
// before it. Matrices whose activations are in 8 bits go at the rate of 8-bit dots, the rest at that of f32.
double prefill_limit_seconds(const model::Model& model, const graph::Backend& device, const graph::DeviceLimits& limits,
                             int64_t tokens, int64_t depth);

}  // namespace minfer::engine
