// Growing one sequence step by step. See forward.hpp.
#include "engine/forward.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"

namespace minfer::engine {
namespace {

// Before anything runs.
void check_room(const Sequence& sequence, std::span<const int32_t> ids, const Runner& runner) {
  const int64_t length = sequence.length() + static_cast<int64_t>(ids.size());
  if (length > runner.options().context_tokens) {
    fail(ErrorCode::out_of_memory,
         "{} tokens after {} are more than the context of {} holds; take a larger context (-c) or a shorter prompt",
         ids.size(), sequence.length(), runner.options().context_tokens);
  }
}

std::span<const float> step(Runner& runner, Sequence& sequence, std::span<const int32_t> ids,
                            std::span<const int32_t> output_rows) {
  const int64_t rows = static_cast<int64_t>(ids.size());
  if (!sequence.reserve(rows)) {
    fail(ErrorCode::out_of_memory,
         "{} more tokens after {} find no free KV pages; take a larger context (-c) or a shorter prompt", rows,
         sequence.length());
  }
  const graph::SequenceStep mine[] = {sequence.step(0, rows)};
  const auto logits = runner.step({ids, output_rows, mine});
  sequence.commit(ids);
  return logits;
}

}  // namespace

std::span<const float> append(Runner& runner, Sequence& sequence, std::span<const int32_t> ids,
                              const CancelFn& cancelled) {
  if (ids.empty()) fail(ErrorCode::invalid_input, "no tokens to run; the prompt must have at least one");
  check_room(sequence, ids, runner);
  const size_t batch = static_cast<size_t>(runner.options().batch_tokens);
  for (size_t at = 0;; at += batch) {
    if (cancelled && cancelled()) fail(ErrorCode::cancelled, "cancelled after {} tokens", sequence.length());
    const auto chunk = ids.subspan(at, std::min(batch, ids.size() - at));
    const bool last = at + chunk.size() == ids.size();
    const int32_t last_row[] = {static_cast<int32_t>(chunk.size() - 1)};
    const auto outputs = last ? std::span<const int32_t>(last_row) : std::span<const int32_t>();
    const auto logits = step(runner, sequence, chunk, outputs);
    if (last) return logits;
  }
}

void append_scored(Runner& runner, Sequence& sequence, std::span<const int32_t> ids, int64_t first,
                   const std::function<void(int64_t, std::span<const float>)>& each) {
  check_room(sequence, ids, runner);
  const int64_t count = static_cast<int64_t>(ids.size());
  const int64_t batch = runner.options().batch_tokens;
  const int64_t vocabulary = runner.model().config().vocabulary;
  for (int64_t at = 0; at < count;) {
    // Steps without outputs up to `first`, then as many rows as may have outputs.
    const bool scored = at >= first;
    const int64_t most =
        scored ? std::min({batch, runner.options().outputs, count - at}) : std::min({batch, first - at, count - at});
    std::vector<int32_t> output_rows;
    for (int64_t row = 0; scored && row < most; ++row) output_rows.push_back(static_cast<int32_t>(row));
    const auto logits =
        step(runner, sequence, ids.subspan(static_cast<size_t>(at), static_cast<size_t>(most)), output_rows);
    for (int64_t row = 0; scored && row < most; ++row) {
      each(at + row, logits.subspan(static_cast<size_t>(row * vocabulary), static_cast<size_t>(vocabulary)));
    }
    at += most;
  }
}

}  // namespace minfer::engine
