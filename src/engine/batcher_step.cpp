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

bool Batcher::may_run_ahead() const {
  if (steps_in_flight_ != 1 || options_.make_proposer || !runner_.runs_ahead()) return false;
  const Step& step = steps_[static_cast<size_t>(first_step_)];
  return !step.error && !step.gives_logits;
}

bool Batcher::is_context_full(const Stream& stream) const {
  return stream.length_in_flight() >= runner_.options().context_tokens;
}

// Makes room in a full context, or ends the stream.
void Batcher::shift_or_end(Stream& stream) {
  if (!is_context_full(stream)) return;
  try {
    if (!stream.shift()) end(stream, StopReason::context_full);
  } catch (const Error& error) {
    fail_stream(stream, error);
  }
}

// A prompt whose next pages one before it is computing has no rows meanwhile: it takes those once they are published.
// The first of several equal prompts computes what they share, for all.
bool Batcher::awaits_prefix(size_t index) {
  Stream& stream = *running_[index];
  const auto earlier = std::span(running_).first(index);
  const bool awaits =
      std::any_of(earlier.begin(), earlier.end(), [&](const auto& other) { return stream.awaits_prefix_of(*other); });
  if (!awaits && stream.awaits_prefix) stats_.reused_tokens += stream.find_prefix();
  stream.awaits_prefix = awaits;
  return awaits;
}

bool Batcher::plan_step() {
  const bool ahead = steps_in_flight_ > 0;
  next_step().entries.clear();
  next_step().reading_seconds = 0;
  for (auto& stream : running_) {
    if (!ahead) {
      shift_or_end(*stream);
    } else if (stream->unsubmitted() > 0 && is_context_full(*stream)) {
      return false;
    }
  }
  if (!ahead) remove_ended();
  pending_.clear();
  bool has[2] = {};  // rows of streams, of embeddings
  for (size_t i = 0; i < running_.size(); ++i) {
    pending_.push_back(awaits_prefix(i) ? 0 : running_[i]->unsubmitted());
    has[running_[i]->embeds() ? 1 : 0] |= pending_[i] > 0;
  }
  // Embeddings have every other step, where both are there; what finds no pages lets the other run.
  const bool hidden = has[1] && (!has[0] || !last_hidden_);
  if (!add_rows(hidden)) return false;
  if (next_step().entries.empty() && has[hidden ? 0 : 1] && !add_rows(!hidden)) return false;
  add_drafts();
  // Prompts that hold each other's pages: the latest gives way, and the next step goes on.
  if (!ahead && next_step().entries.empty() && !running_.empty()) give_way();
  requeue_preempted();
  Step& step = next_step();
  if (step.entries.empty()) return false;
  collect_rows();
  step.draws = plan_draws();
  step.gives_logits = !output_rows_.empty() && !step.draws;
  return !ahead || !step.gives_logits;
}

bool Batcher::add_rows(bool hidden) {
  next_step().hidden = hidden;
  const RunnerOptions& options = runner_.options();
  int64_t budget = options.batch_tokens;
  rows_of_kind_.clear();
  for (size_t i = 0; i < running_.size(); ++i) {
    const bool takes_part = running_[i]->embeds() == hidden;
    rows_of_kind_.push_back(takes_part ? pending_[i] : 0);
    // Each of its rows is an output.
    if (takes_part && running_[i]->pools_all()) budget = std::min(budget, options.outputs);
  }
  shares_.resize(rows_of_kind_.size());
  if (runner_.encodes()) {
    share_texts(rows_of_kind_, budget, shares_);
  } else {
    share_rows(rows_of_kind_, budget, shares_);
  }
  for (size_t i = 0; i < running_.size(); ++i) {
    if (rows_of_kind_[i] == 1 && shares_[i] == 1 && !add_decode(*running_[i])) return false;
  }
  for (size_t i = 0; i < running_.size(); ++i) {
    if (rows_of_kind_[i] > 1) add_prompt(*running_[i], shares_[i]);
  }
  return true;
}

bool Batcher::add_decode(Stream& stream) {
  while (!stream.preempted && !stream.reserve(1)) {
    if (steps_in_flight_ > 0) return false;
    Stream* victim = latest_preemptable();
    if (victim == nullptr || (victim == &stream && running_.size() == 1)) {
      fail_stream(stream, no_pages(stream));
      return true;
    }
    preempt(*victim);
  }
  if (!stream.preempted) next_step().entries.push_back({&stream, 1, true});
  return true;
}

void Batcher::add_prompt(Stream& stream, int64_t rows) {
  while (rows > 0 && !stream.preempted && !stream.reserve(rows)) {
    if (runner_.encodes()) return;  // all of a text, or nothing
    rows = (rows - 1) / graph::kPageTokens * graph::kPageTokens;
  }
  if (rows > 0 && !stream.preempted) {
    next_step().entries.push_back({&stream, rows, rows == stream.unsubmitted()});
  }
}

// Rows and outputs that are left over go to drafts, in order of arrival.
void Batcher::add_drafts() {
  if (next_step().hidden) return;
  int64_t rows = 0, outputs = 0;
  for (const Entry& entry : next_step().entries) {
    rows += entry.rows;
    outputs += entry.outputs();
  }
  for (Entry& entry : next_step().entries) {
    Stream& stream = *entry.stream;
    stream.drop_draft();
    if (entry.rows > 1 || !entry.has_logits) continue;
    const int64_t context = runner_.options().context_tokens - stream.sequence().length() - 1;
    const int64_t most =
        std::min({runner_.options().batch_tokens - rows, runner_.options().outputs - outputs, context});
    next_step().reading_seconds += stream.propose(most, rows - 1, cost_);
    entry.drafted = static_cast<int64_t>(stream.draft().tokens.size());
    if (entry.drafted > 0 && !stream.reserve(1 + entry.drafted)) {
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
  std::erase_if(next_step().entries, [&](const Entry& entry) { return entry.stream == &stream; });
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

void Batcher::collect_rows() {
  token_ids_.clear();
  output_rows_.clear();
  sequences_.clear();
  for (const Entry& entry : next_step().entries) {
    const Stream& stream = *entry.stream;
    const int64_t first_row = static_cast<int64_t>(token_ids_.size());
    sequences_.push_back(stream.step(first_row, entry.rows + entry.drafted));
    stream.append_ids(entry.rows, token_ids_);
    token_ids_.insert(token_ids_.end(), stream.draft().tokens.begin(), stream.draft().tokens.end());
    const int64_t end_row = first_row + entry.rows + entry.drafted;
    for (int64_t row = end_row - entry.outputs(); row < end_row; ++row) {
      output_rows_.push_back(static_cast<int32_t>(row));
    }
  }
}

bool Batcher::plan_draws() {
  draws_.clear();
  if (!runner_.draws() || output_rows_.empty() || next_step().hidden) return false;
  for (const Entry& entry : next_step().entries) {
    if (entry.drafted > 0 || (entry.has_logits && !entry.stream->prepare_draw())) return false;
  }
  for (const Entry& entry : next_step().entries) {
    if (entry.has_logits) draws_.push_back(entry.stream->row_draw());
  }
  return true;
}

void Batcher::submit_step() {
  Step& step = next_step();
  ++stats_.steps;
  stats_.rows += static_cast<int64_t>(token_ids_.size());
  step.error.reset();
  try {
    runner_.submit({token_ids_, output_rows_, sequences_, draws_, step.hidden});
  } catch (const Error& error) {
    step.error = error;
  }
  ++steps_in_flight_;
  last_hidden_ = step.hidden;
  int32_t output = 0;
  for (const Entry& entry : step.entries) {
    entry.stream->submitted(entry.rows, step.draws && entry.has_logits ? output++ : graph::kNoOutput);
  }
}

void Batcher::take_step() {
  const Step& step = first_step();
  first_step_ = (first_step_ + 1) % graph::kMostStepsInFlight;
  --steps_in_flight_;
  for (const Entry& entry : step.entries) entry.stream->arrived(entry.rows, step.draws && entry.has_logits);
  try {
    if (step.error) throw *step.error;
    const graph::StepResult result = runner_.wait();
    if (step.hidden) {
      take_hidden(step, result.logits);
    } else if (step.draws) {
      take_drawn(step, result);
    } else {
      take_logits(step, result.logits);
    }
  } catch (const Error& error) {
    for (const Entry& entry : step.entries) {
      if (!entry.stream->ended()) fail_stream(*entry.stream, error);
    }
  }
  std::erase_if(leaving_, [](const auto& stream) { return !stream->in_flight(); });
}

void Batcher::drop_steps() {
  while (runner_.in_flight() > 0) {
    try {
      runner_.wait();
    } catch (const std::exception&) {
      continue;  // its requests end, or have ended
    }
  }
  steps_in_flight_ = 0;
  leaving_.clear();
}

void Batcher::take_drawn(const Step& step, const graph::StepResult& result) {
  size_t row = 0;
  for (const Entry& entry : step.entries) {
    Stream& stream = *entry.stream;
    const size_t mine = entry.has_logits ? row++ : row;
    if (stream.ended()) continue;
    try {
      const auto top = result.top.subspan(std::min(mine * kMostTopLogprobs, result.top.size()));
      const auto reason =
          entry.has_logits ? stream.advance_drawn(entry.rows, result.drawn[mine], top) : stream.advance(entry.rows, {});
      if (reason) end(stream, *reason);
    } catch (const BrokenLogits& error) {
      fail_stream(stream, error);
    } catch (const Error& error) {
      fail_stream(stream, error);
    }
  }
}

void Batcher::take_hidden(const Step& step, std::span<const float> hidden) {
  const int64_t width = runner_.model().config().width;
  for (const Entry& entry : step.entries) {
    Stream& stream = *entry.stream;
    const auto mine = hidden.first(static_cast<size_t>(entry.outputs() * width));
    hidden = hidden.subspan(mine.size());
    if (stream.ended()) continue;
    try {
      const auto reason = stream.advance_hidden(entry.rows, mine, width);
      if (reason) end(stream, *reason);
    } catch (const BrokenLogits& error) {
      fail_stream(stream, error);
    } catch (const Error& error) {
      fail_stream(stream, error);
    }
  }
}

void Batcher::take_logits(const Step& step, std::span<const float> logits) {
  const size_t vocabulary = static_cast<size_t>(runner_.model().config().vocabulary);
  for (const Entry& entry : step.entries) {
    Stream& stream = *entry.stream;
    const auto mine = logits.first(static_cast<size_t>(entry.outputs()) * vocabulary);
    logits = logits.subspan(mine.size());
    if (stream.ended()) continue;
    try {
      const auto reason = stream.advance(entry.rows, mine);
      if (reason) end(stream, *reason);
    } catch (const BrokenLogits& error) {
      fail_stream(stream, error);
    } catch (const Error& error) {
      fail_stream(stream, error);
    }
  }
}

// What speculation learns from a step: steps with a prompt's rows tell nothing.
void Batcher::record_cost(const Step& step, double seconds) {
  if (!options_.make_proposer || step.hidden) return;
  int64_t rows = 0;
  for (const Entry& entry : step.entries) {
    if (entry.rows > 1 || !entry.has_logits) return;
    rows += entry.rows + entry.drafted;
  }
  cost_.record(rows, seconds - step.reading_seconds);
  for (const Entry& entry : step.entries) entry.stream->record_draft(cost_, rows - 1 - entry.drafted);
}

}  // namespace minfer::engine
