// Who gets how many rows of a step. Pure. A sequence has pending tokens: those that are known and not yet in the cache.
// One pending token is a decode; more are a prompt, or what a preempted sequence computes again.
#pragma once

#include <cstdint>
#include <span>

namespace minfer::engine {

// What every waiting prompt may run in a step however long the one before it is: a short prompt does not wait for a
// long one.
inline constexpr int64_t kFairRows = 64;

// `pending` [sequences in order of arrival], 0 for one that has nothing to run; writes the rows of each. Decodes come
// first, one row each; then every prompt in order gets up to kFairRows, and what is left goes to the prompts in order.
// The sum is at most `budget`, and is less only if nothing more is pending.
void share_rows(std::span<const int64_t> pending, int64_t budget, std::span<int64_t> rows);

// The rows of a step of an encoder: whole texts, in order, each that still fits.
void share_texts(std::span<const int64_t> pending, int64_t budget, std::span<int64_t> rows);

}  // namespace minfer::engine
