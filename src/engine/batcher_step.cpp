// One step of the batcher: who takes part, the device's run, the draws. See batcher.hpp.
//
// Pages are taken as rows are planned: decodes first, then prompts, both in order of arrival. A decode that finds none
// preempts the latest arrival, where it can be computed again. A prompt takes what pages there are, or waits.
#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "engine/batcher.hpp"
#include "engine/schedule.hpp"

namespace minfer::engine {

// Makes room in a full context, or ends the stream.
void Batcher::shift_or_end(Stream& stream) {
  if (stream.sequence().length() < runner_.options().context_tokens) return;
  try {
    if (!stream.shift()) end(stream, StopReason::context_full);
  } catch (const Error& error) {
    fail_stream(stream, error);
  }
}

void Batcher::plan_step() {
  entries_.clear();
  for (auto& stream : running_) shift_or_end(*stream);
  remove_ended();
  pending_.clear();
  for (const auto& stream : running_) pending_.push_back(static_cast<int64_t>(stream->pending().size()));
  shares_.resize(pending_.size());
  share_rows(pending_, runner_.options().batch_tokens, shares_);
  for (size_t i = 0; i < running_.size(); ++i) {
    if (pending_[i] == 1 && shares_[i] == 1) add_decode(*running_[i]);
  }
  for (size_t i = 0; i < running_.size(); ++i) {
    if (pending_[i] > 1) add_prompt(*running_[i], shares_[i]);
  }
  add_drafts();
  // Prompts that hold each other's pages: the latest gives way, and the next step goes on.
  if (entries_.empty() && !running_.empty()) give_way();
  requeue_preempted();
}

void Batcher::add_decode(Stream& stream) {
  while (!stream.preempted && !stream.sequence().reserve(1)) {
    Stream* victim = latest_preemptable();
    if (victim == nullptr || (victim == &stream && running_.size() == 1)) {
      return fail_stream(stream, no_pages(stream));
    }
    preempt(*victim);
  }
  if (!stream.preempted) entries_.push_back({&stream, 1, !stream.is_finishing()});
}

void Batcher::add_prompt(Stream& stream, int64_t rows) {
  while (rows > 0 && !stream.preempted && !stream.sequence().reserve(rows)) {
    rows = (rows - 1) / graph::kPageTokens * graph::kPageTokens;
  }
  if (rows > 0 && !stream.preempted) {
    entries_.push_back({&stream, rows, rows == static_cast<int64_t>(stream.pending().size())});
  }
}

// Rows and outputs that are left over go to drafts, in order of arrival.
void Batcher::add_drafts() {
  int64_t rows = 0, outputs = 0;
  for (const Entry& entry : entries_) {
    rows += entry.rows;
    outputs += entry.has_logits ? 1 : 0;
  }
  for (Entry& entry : entries_) {
    Stream& stream = *entry.stream;
    stream.drop_draft();
    if (entry.rows > 1 || !entry.has_logits) continue;
    const int64_t context = runner_.options().context_tokens - stream.sequence().length() - 1;
    const int64_t most =
        std::min({runner_.options().batch_tokens - rows, runner_.options().outputs - outputs, context});
    stream.propose(most, rows - 1, cost_);
    entry.drafted = static_cast<int64_t>(stream.draft().tokens.size());
    if (entry.drafted > 0 && !stream.sequence().reserve(1 + entry.drafted)) {
      stream.drop_draft();
      entry.drafted = 0;
    }
    rows += entry.drafted;
    outputs += entry.drafted;
  }
}

void Batcher::give_way() {
  Stream* victim = latest_preemptable();
  if (victim == nullptr || running_.size() == 1) return fail_stream(*running_.front(), no_pages(*running_.front()));
  preempt(*victim);
}

Error Batcher::no_pages(const Stream& stream) const {
  return {ErrorCode::out_of_memory,
          fmt::format("no KV pages are free for a sequence of {} tokens; take a larger context (-c) or fewer sequences",
                      stream.sequence().length() + static_cast<int64_t>(stream.pending().size()))};
}

Stream* Batcher::latest_preemptable() const {
  for (auto stream = running_.rbegin(); stream != running_.rend(); ++stream) {
    if (!(*stream)->preempted && !(*stream)->ended() && (*stream)->can_recompute()) return stream->get();
  }
  return nullptr;
}

void Batcher::preempt(Stream& stream) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.stream == &stream; });
  stream.preempt();
  ++stats_.preemptions;
}

// Preempted streams go to the front of the queue: they arrived before all that wait there.
void Batcher::requeue_preempted() {
  for (size_t i = running_.size(); i-- > 0;) {
    if (!running_[i]->preempted) continue;
    running_[i]->preempted = false;
    waiting_.push_front(std::move(running_[i]));
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Batcher::run_step() {
  token_ids_.clear();
  output_rows_.clear();
  sequences_.clear();
  for (const Entry& entry : entries_) {
    const Stream& stream = *entry.stream;
    const auto pending = stream.pending().first(static_cast<size_t>(entry.rows));
    const int64_t first_row = static_cast<int64_t>(token_ids_.size());
    sequences_.push_back(stream.sequence().step(first_row, entry.rows + entry.drafted));
    token_ids_.insert(token_ids_.end(), pending.begin(), pending.end());
    token_ids_.insert(token_ids_.end(), stream.draft().tokens.begin(), stream.draft().tokens.end());
    for (int64_t i = 0; entry.has_logits && i <= entry.drafted; ++i) {
      output_rows_.push_back(static_cast<int32_t>(first_row + entry.rows - 1 + i));
    }
  }
  ++stats_.steps;
  stats_.rows += static_cast<int64_t>(token_ids_.size());
  try {
    const bool draws = plan_draws();
    const auto logits = runner_.step({token_ids_, output_rows_, sequences_, draws_});
    if (draws) {
      take_drawn(runner_.drawn());
    } else {
      take_logits(logits);
    }
  } catch (const Error& error) {
    for (const Entry& entry : entries_) {
      if (!entry.stream->ended()) fail_stream(*entry.stream, error);
    }
  }
}

bool Batcher::plan_draws() {
  draws_.clear();
  if (!runner_.draws() || output_rows_.empty()) return false;
  for (const Entry& entry : entries_) {
    if (entry.drafted > 0 || (entry.has_logits && !entry.stream->prepare_draw())) return false;
  }
  for (const Entry& entry : entries_) {
    if (entry.has_logits) draws_.push_back(entry.stream->row_draw());
  }
  return true;
}

void Batcher::take_drawn(std::span<const graph::Drawn> drawn) {
  size_t next = 0;
  for (const Entry& entry : entries_) {
    Stream& stream = *entry.stream;
    try {
      const auto reason =
          entry.has_logits ? stream.advance_drawn(entry.rows, drawn[next++]) : stream.advance(entry.rows, {});
      if (reason) end(stream, *reason);
    } catch (const Error& error) {
      fail_stream(stream, error);
    }
  }
}

void Batcher::take_logits(std::span<const float> logits) {
  const size_t vocabulary = static_cast<size_t>(runner_.model().config().vocabulary);
  for (const Entry& entry : entries_) {
    Stream& stream = *entry.stream;
    const size_t mine = entry.has_logits ? static_cast<size_t>(1 + entry.drafted) * vocabulary : 0;
    try {
      const auto reason = stream.advance(entry.rows, logits.first(mine));
      if (reason) end(stream, *reason);
    } catch (const Error& error) {
      fail_stream(stream, error);
    }
    logits = logits.subspan(mine);
  }
}

// What speculation learns from a step: steps with a prompt's rows tell nothing.
void Batcher::record_cost(double seconds) {
  for (const Entry& entry : entries_) {
    if (entry.rows > 1 || !entry.has_logits) return;
  }
  const int64_t rows = static_cast<int64_t>(token_ids_.size());
  cost_.record(rows, seconds);
  for (const Entry& entry : entries_) entry.stream->record_draft(cost_, rows - 1 - entry.drafted);
}

}  // namespace minfer::engine
