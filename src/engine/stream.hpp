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
  Sequence& sequence() { return sequence_; }
  const Sequence& sequence() const { return sequence_; }
  // A cache that was shifted, or is from a file, is not what its tokens would give anew.
  bool can_recompute() const { return result_.shifts == 0 && result_.session_tokens == 0; }
  bool has_session() const { return !request_.session_path.empty(); }
  // It has drawn its last token, which runs once more so that the session has it.
  bool is_finishing() const { return last_reason_.has_value(); }
  bool has_started() const { return started_; }
  bool ended() const { return ended_; }

  // Set by the batcher.
  bool cancelled = false;
  bool preempted = false;  // in this step: to go back to the queue

  // Takes what a session file or the prefix cache has of its tokens. `target` is of its model; it may be null without a
  // session. Errors: those of load_session; invalid_input where the session and the prompt exceed the context.
  void start(const SessionTarget* target);
  // Writes the session as it stands. Errors: those of save_session.
  void save(const SessionTarget& target);
  // Gives its pages back; all its tokens are pending again.
  void preempt();
  // A full context: makes room as the request asks. False where it is to stop. Errors: those of Sequence::remove;
  // out_of_memory.
  bool shift();
  // Guesses what follows the one pending token, at most `most` tokens and as many as are worth it in a step with
  // `other_rows` rows of others. draft() has them, until the next call or drop_draft().
  void propose(int64_t most, int64_t other_rows, const StepCost& cost);
  void drop_draft() { draft_.clear(); }
  const Draft& draft() const { return draft_; }

  // The step has run its first `rows` pending tokens and, if those were all, its draft; `logits` are then those after
  // the last of them and after each of the draft [1 + drafted][vocabulary], else empty. Draws what follows and hands
  // the text out; the reason where that ends it. Errors: those of the sampler.
  std::optional<StopReason> advance(int64_t rows, std::span<const float> logits);
  // The same where the device drew the next token of its last row: what it is asked to do, where it can be asked.
  bool prepare_draw() { return sampler_.prepare_draw(); }
  graph::RowDraw row_draw() { return sampler_.row_draw(); }
  std::optional<StopReason> advance_drawn(int64_t rows, const graph::Drawn& drawn);
  void record_draft(const StepCost& cost, int64_t other_rows);
  // Tells the listener. `error` with StopReason::failed.
  void end(StopReason reason, const std::optional<Error>& error);

 private:
  std::optional<StopReason> take(int32_t token);
  std::optional<StopReason> take_verdict(const Verdict& verdict);
  bool pending_exceeds_context() const { return tokens_.size() > context_tokens_; }
  void load(const SessionTarget& target);
  void make_room(const SessionTarget& target);

  RequestId id_;
  Request request_;
  Listener listener_;
  const tokenizer::Tokenizer& tokenizer_;
  Sequence sequence_;
  Sampler sampler_;
  StopMatcher stops_;
  tokenizer::StreamDecoder decoder_;
  std::vector<int32_t> tokens_;  // known: the sequence's, and those pending
  std::unique_ptr<Proposer> proposer_;
  DepthPolicy depth_;
  Draft draft_;
  int64_t drafted_ = 0;  // in the last step
  int64_t accepted_ = 0;
  Result result_;
  std::optional<StopReason> last_reason_;
  size_t context_tokens_;
  bool started_ = false;
  bool ended_ = false;
  Clock::time_point submitted_ = Clock::now();
  Clock::time_point started_at_;
  Clock::time_point first_token_at_;
};

}  // namespace minfer::engine
