// Growing a sequence step by step. See sequence.hpp.
#include "engine/sequence.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace minfer::engine {

Sequence::~Sequence() {
  for (const int32_t page : pages_) pool_.give_back(page);
}

void Sequence::reserve(int64_t tokens) {
  const int64_t needed = (tokens + graph::kPageTokens - 1) / graph::kPageTokens;
  const int64_t have = static_cast<int64_t>(pages_.size());
  if (needed - have > pool_.free_pages()) {
    fail(ErrorCode::out_of_memory,
         "a sequence of {} tokens needs {} more KV pages of {} tokens; {} are free; take a larger "
         "context (-c) or a shorter prompt",
         tokens, needed - have, graph::kPageTokens, pool_.free_pages());
  }
  while (static_cast<int64_t>(pages_.size()) < needed) pages_.push_back(pool_.take());
}

std::span<const float> Sequence::step(std::span<const int32_t> ids, std::span<const int32_t> output_rows) {
  const graph::SequenceStep mine[] = {{0, static_cast<int64_t>(ids.size()), length(), pages_}};
  const auto logits = runner_.step({ids, output_rows, mine});
  tokens_.insert(tokens_.end(), ids.begin(), ids.end());
  return logits;
}

std::span<const float> Sequence::append(std::span<const int32_t> ids, const CancelFn& cancelled) {
  if (ids.empty()) fail(ErrorCode::invalid_input, "no tokens to run; the prompt must have at least one");
  reserve(length() + static_cast<int64_t>(ids.size()));
  const size_t batch = static_cast<size_t>(runner_.options().batch_tokens);
  for (size_t at = 0;; at += batch) {
    if (cancelled && cancelled()) fail(ErrorCode::cancelled, "cancelled after {} tokens", length());
    const auto chunk = ids.subspan(at, std::min(batch, ids.size() - at));
    const bool last = at + chunk.size() == ids.size();
    const int32_t last_row[] = {static_cast<int32_t>(chunk.size() - 1)};
    const auto logits = step(chunk, last ? std::span<const int32_t>(last_row) : std::span<const int32_t>());
    if (last) return logits;
  }
}

void Sequence::append_scored(std::span<const int32_t> ids, int64_t first,
                             const std::function<void(int64_t, std::span<const float>)>& each) {
  reserve(length() + static_cast<int64_t>(ids.size()));
  const int64_t count = static_cast<int64_t>(ids.size());
  const int64_t batch = runner_.options().batch_tokens;
  const int64_t vocabulary = runner_.model().config().vocabulary;
  for (int64_t at = 0; at < count;) {
    // Steps without outputs up to `first`, then as many rows as may have outputs.
    const bool scored = at >= first;
    const int64_t most =
        scored ? std::min({batch, graph::kMaxOutputs, count - at}) : std::min({batch, first - at, count - at});
    std::vector<int32_t> output_rows;
    for (int64_t row = 0; scored && row < most; ++row) output_rows.push_back(static_cast<int32_t>(row));
    const auto logits = step(ids.subspan(static_cast<size_t>(at), static_cast<size_t>(most)), output_rows);
    for (int64_t row = 0; scored && row < most; ++row) {
      each(at + row, logits.subspan(static_cast<size_t>(row * vocabulary), static_cast<size_t>(vocabulary)));
    }
    at += most;
  }
}

}  // namespace minfer::engine
