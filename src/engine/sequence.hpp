// One sequence: its tokens and the KV pages that hold them. Pages are taken from the pool as the sequence grows and
// given back when it ends. The engine's thread makes all calls; the Runner outlives the sequence.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/page_pool.hpp"
#include "engine/runner.hpp"

namespace minfer::engine {

// Asked between steps; true ends the work with Error{cancelled}.
using CancelFn = std::function<bool()>;

class Sequence {
 public:
  Sequence(Runner& runner, PagePool& pool) : runner_(runner), pool_(pool) {}
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  std::span<const int32_t> tokens() const { return tokens_; }
  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }

  // Appends tokens, in steps of the runner's batch; returns the logits of the last one, valid until the runner's next
  // step. Errors: invalid_input where `ids` is empty or names a token outside the vocabulary; out_of_memory, with the
  // numbers, where the pages don't suffice (then nothing was appended); cancelled between steps.
  std::span<const float> append(std::span<const int32_t> ids, const CancelFn& cancelled = {});

  // The same, for the logits of every token from index `first` of `ids` on: each(index, logits).
  void append_scored(std::span<const int32_t> ids, int64_t first,
                     const std::function<void(int64_t index, std::span<const float> logits)>& each);

 private:
  void reserve(int64_t tokens);
  std::span<const float> step(std::span<const int32_t> ids, std::span<const int32_t> output_rows);

  Runner& runner_;
  PagePool& pool_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> pages_;
};

}  // namespace minfer::engine
