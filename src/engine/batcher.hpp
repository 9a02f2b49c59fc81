// Many requests on one runner. Each step fills the runner's token budget with rows of the running sequences
// (schedule.hpp) and draws a token for each whose last known token was among them. A request waits in a queue until
// there are pages for its prompt; where pages run out later, the latest arrival is preempted: it gives its pages back
// and computes them again when there are some. On a device whose rows do not depend on each other (the CPU) a request's
// tokens are those that it would get alone, bit for bit. Everything is deterministic given the same calls in the same
// order.
//
// One thread makes all calls; engine.hpp has one for it. Listeners are called from step(); they may cancel().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/request.hpp"
#include "engine/runner.hpp"
#include "engine/stream.hpp"
#include "tokenizer/tokenizer.hpp"

namespace minfer::engine {

struct BatcherOptions {
  int64_t max_running = 64;   // sequences in the cache at once, at most the runner's outputs
  int64_t max_waiting = 256;  // requests beyond those; more are refused
  bool share_prefixes = true;
  // Speculation: makes the proposer of a request. Empty: none.
  std::function<std::unique_ptr<Proposer>(const Request& request)> make_proposer;
  int64_t draft_depth = 0;  // tokens; 0: as many as pay, measured as it runs
};

inline constexpr int64_t kMaxWaiting = 1 << 16;

struct BatcherStats {
  int64_t steps = 0;
  int64_t rows = 0;
  int64_t preemptions = 0;
  int64_t reused_tokens = 0;  // found in the prefix cache
  int64_t idle_pages = 0;     // of all groups: kept for their prefixes
  int64_t evictions = 0;      // of such pages
  int64_t running = 0;
  int64_t waiting = 0;
};

class Batcher {
 public:
  // Errors: invalid_input for options out of range. Runner and tokenizer outlive the batcher.
  Batcher(Runner& runner, const tokenizer::Tokenizer& tokenizer, const BatcherOptions& options);
  ~Batcher();

  // Errors: invalid_input for a request that can't be run (no prompt, longer than the context, sampler or stop values);
  // busy where the queue is full.
  RequestId submit(Request request, Listener listener);
  // The request ends with StopReason::cancelled at the next step. No effect on one that has ended.
  void cancel(RequestId id);
  void cancel_all();
  // Ends all requests with StopReason::failed.
  void fail_all(const Error& error);
  // Runs one step; false where no request is left. What fails in one request ends that one; what fails in the device
  // ends all that run.
  bool step();
  BatcherStats stats() const;

 private:
  struct Entry {
    Stream* stream;
    int64_t rows;         // of its pending tokens
    bool has_logits;      // they are all that is pending
    int64_t drafted = 0;  // rows behind those
  };

  void end_cancelled();
  int64_t pages_for(size_t group, int64_t tokens) const;
  int64_t promised_pages(size_t group) const;
  bool may_start(const Stream& stream) const;
  void admit();
  const SessionTarget* session_target(const Stream& stream);
  void end(Stream& stream, StopReason reason);
  void fail_stream(Stream& stream, const Error& error);
  void remove_ended();

  void shift_or_end(Stream& stream);
  void plan_step();
  void add_decode(Stream& stream);
  void add_prompt(Stream& stream, int64_t rows);
  void add_drafts();
  void give_way();
  Error no_pages(const Stream& stream) const;
  Stream* latest_preemptable() const;
  void preempt(Stream& stream);
  void requeue_preempted();
  void run_step();
  // Whether the device is to draw the tokens of this step; then draws_ says how.
  bool plan_draws();
  void take_logits(std::span<const float> logits);
  void take_drawn(std::span<const graph::Drawn> drawn);
  void record_cost(double seconds);

  Runner& runner_;
  const tokenizer::Tokenizer& tokenizer_;
  BatcherOptions options_;
  RequestId next_id_ = 1;
  BatcherStats stats_;
  StepCost cost_;
  std::optional<ModelIdentity> identity_;  // read for the first session
  std::optional<SessionTarget> session_target_;
  std::deque<std::unique_ptr<Stream>> waiting_;   // in order of arrival
  std::vector<std::unique_ptr<Stream>> running_;  // in order of arrival
  // The step being built; kept for their capacity.
  std::vector<int64_t> pending_;
  std::vector<int64_t> shares_;
  std::vector<Entry> entries_;
  std::vector<int32_t> token_ids_;
  std::vector<int32_t> output_rows_;
  std::vector<graph::SequenceStep> sequences_;
  std::vector<graph::RowDraw> draws_;
};

}  // namespace minfer::engine
