// One request while it waits or runs: its tokens, its place in the cache, its sampler and the text that comes of it.
// Internal to the batcher.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/kv/sequence.hpp"
#include "engine/kv/session_file.hpp"
#include "engine/logprobs.hpp"
#include "engine/request.hpp"
#include "engine/sampler/sampler.hpp"
#include "engine/speculation/depth.hpp"
#include "engine/speculation/proposer.hpp"
#include "engine/speculation/verify.hpp"
#include "engine/stop_matcher.hpp"
#include "tokenizer/stream_decoder.hpp"
#include "tokenizer/tokenizer.hpp"

namespace minfer::engine {

class Stream {
 public:
  using Clock = std::chrono::steady_clock;

  // `proposer` may be null: no speculation. Errors: those of the sampler's parameters and of the stop strings.
  Stream(RequestId id, Request request, Listener listener, const tokenizer::Tokenizer& tokenizer, KvCache& cache,
         bool share_prefixes, std::unique_ptr<Proposer> proposer, const DepthPolicy& depth);

  RequestId id() const { return id_; }
  // Known tokens that are not in the cache: at least one while it runs.
  std::span<const int32_t> pending() const;
  // The rows that it has for the next step: of its pending tokens those that no step in flight has, and the one that is
  // being drawn, where that is to run.
  int64_t unsubmitted() const;
  Sequence& sequence() { return sequence_; }
  const Sequence& sequence() const { return sequence_; }
  // A cache that was shifted, or is from a file, is not what its tokens would give anew.
  bool can_recompute() const { return result_.shifts == 0 && result_.session_tokens == 0; }
  // Its embedding is asked for, with hidden rows of all its tokens (of which it may take the first), or of the last
  // alone.
  bool embeds() const { return request_.pooling.has_value(); }
  bool pools_all() const { return request_.pooling == Pooling::mean || request_.pooling == Pooling::first; }
  bool has_session() const { return !request_.session_path.empty(); }
  bool has_started() const { return started_; }
  bool ended() const { return ended_; }

  // Steps in flight have rows of it.
  bool in_flight() const { return submitted_rows_ > 0; }
  // Of the sequence, those rows included.
  int64_t length_in_flight() const { return sequence_.length() + submitted_rows_; }

  // Set by the batcher.
  bool cancelled = false;
  bool awaits_prefix = false;  // since a step in which others computed the next pages of its prompt
  bool preempted = false;      // in this step: to go back to the queue

  // Looks how many tokens the session file will put before the prompt of a request that has not started; false where
  // there is none. session_tokens() has the number.
  bool peek_session();
  size_t session_tokens() const { return session_tokens_; }
  // Takes what a session file or the prefix cache has of its tokens. `target` is of its model; it may be null without a
  // session. Returns how many tokens the prefix cache had. Errors: those of load_session; invalid_input where the
  // session and the prompt exceed the context.
  int64_t start(const SessionTarget* target);
  // Takes what the prefix cache has of its tokens now, where nothing has run since the start; how many more than
  // before.
  int64_t find_prefix();
  // Nothing of it has run since the start, and `other` is about to compute whole pages that are its next as well.
  bool awaits_prefix_of(const Stream& other) const;
  // Writes the session as it stands: what has run, and what is still to run. Errors: those of save_session.
  void save(const SessionTarget& target);
  // Gives its pages back; all its tokens are pending again.
  void preempt();
  // A full context: makes room as the request asks. False where it is to stop. Errors: those of Sequence::remove;
  // out_of_memory.
  bool shift();
  // Guesses what follows the one pending token, at most `most` tokens and as many as are worth it in a step with
  // `other_rows` rows of others. draft() has them, until the next call or drop_draft(). Or lets a proposer read what it
  // lacks, and tells `cost`; returns the seconds of that.
  double propose(int64_t most, int64_t other_rows, StepCost& cost);
  void drop_draft() { draft_.clear(); }
  const Draft& draft() const { return draft_; }

  // For a step that is being built: pages for its next `rows` rows; the rows; their ids.
  bool reserve(int64_t rows) { return sequence_.reserve(submitted_rows_ + rows); }
  graph::SequenceStep step(int64_t first_row, int64_t rows) const {
    return sequence_.step(first_row, rows, submitted_rows_);
  }
  void append_ids(int64_t rows, std::vector<int32_t>& ids) const;
  // What it is asked to draw there, where the device can: in a step behind those in flight.
  bool prepare_draw() { return sampler_.prepare_draw(awaited_output_); }
  graph::RowDraw row_draw();
  // The step is in flight; its next token is drawn at `output`, or the step has none of its outputs (graph::kNoOutput).
  void submitted(int64_t rows, int32_t output);
  // It is no longer; one of the two advances follows if the stream has not ended meanwhile.
  void arrived(int64_t rows, bool drawn);

  // The step has run its first `rows` pending tokens and, if those were all, its draft; `logits` are then those after
  // the last of them and after each of the draft [1 + drafted][vocabulary], else empty. Draws what follows and hands
  // the text out; the reason where that ends it. Errors: those of the sampler.
  std::optional<StopReason> advance(int64_t rows, std::span<const float> logits);
  // The same where the device drew the next token of its last row; `top` are the likeliest, the row's own first.
  std::optional<StopReason> advance_drawn(int64_t rows, const graph::Drawn& drawn, std::span<const TokenLogprob> top);
  // The step has run its first `rows` pending tokens; `hidden` [rows][width] has those of all where pools_all(), else
  // that of the last one, or none. Errors: invalid_input where a value is no number.
  std::optional<StopReason> advance_hidden(int64_t rows, std::span<const float> hidden, int64_t width);
  void record_draft(const StepCost& cost, int64_t other_rows);
  // Tells the listener. `error` with StopReason::failed.
  void end(StopReason reason, const std::optional<Error>& error);

 private:
  std::optional<StopReason> take(const DrawnToken& token);
  // A token with the row of logits that it was drawn from.
  std::optional<StopReason> go_on(std::optional<StopReason> reason);
  std::optional<StopReason> take(int32_t id, std::span<const float> logits);
  // Of the draft that the step ran, so many tokens stand.
  void accept_draft(int64_t accepted);
  void load(const SessionTarget& target);
  void make_room(std::vector<int32_t>& earlier, const SessionTarget& target);
  bool runs_awaited() const;
  bool shares_prefix() const { return fresh_ && sequence_.publishes(); }

  RequestId id_;
  Request request_;
  Listener listener_;
  const tokenizer::Tokenizer& tokenizer_;
  Sequence sequence_;
  int64_t context_tokens_;
  Sampler sampler_;
  StopMatcher stops_;
  tokenizer::StreamDecoder decoder_;
  Logprobs logprobs_;            // where they are asked for
  std::vector<int32_t> tokens_;  // known: the sequence's, and those pending
  std::unique_ptr<Proposer> proposer_;
  DepthPolicy depth_;
  Draft draft_;
  int64_t drafted_ = 0;  // in the last step
  int64_t accepted_ = 0;
  Result result_;
  std::vector<double> pooled_;                 // the sum of hidden rows
  size_t session_tokens_ = 0;                  // of the file, before it is loaded
  int64_t submitted_rows_ = 0;                 // of the steps in flight
  int64_t awaited_ = 0;                        // tokens that those draw
  int32_t awaited_output_ = graph::kNoOutput;  // of the last one
  bool started_ = false;
  bool fresh_ = false;    // nothing has run since start()
  bool has_run_ = false;  // ever
  bool ended_ = false;
  Clock::time_point submitted_ = Clock::now();
  Clock::time_point started_at_;
  Clock::time_point first_token_at_;
};

}  // namespace minfer::engine
