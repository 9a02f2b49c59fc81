// Many requests on one runner. Each step fills the runner's token budget with rows of the running sequences
// (schedule.hpp) and draws a token for each whose last known token was among them. A request waits in a queue until
// there are pages for its prompt; where pages run out later, the latest arrival is preempted: it gives its pages back
// and computes them again when there are some. On a device whose rows do not depend on each other (the CPU) a request's
// tokens are those that it would get alone, bit for bit. Everything is deterministic given the same calls in the same
// order.
//
// Where the device draws, it does not wait for the host: a step is built and submitted while the one before it runs, on
// the assumption that every stream goes on, with tokens that the host does not know yet; then the tokens of that one
// are handled. A stream that ends has a row too many in the step in flight, which is dropped. What can't be done ahead
// (a full context, preemption, draws that need logits, speculation) waits until no step is in flight.
//
// One thread makes all calls but create() and check_queue(); engine.hpp has one for it. Listeners are called from
// step(); they may cancel().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/broken_logits.hpp"
#include "engine/request.hpp"
#include "engine/runner.hpp"
#include "engine/stream.hpp"
#include "tokenizer/tokenizer.hpp"

namespace minfer::engine {

struct BatcherOptions {
  int64_t max_running = 64;   // sequences in the cache at once, at most the runner's outputs
  int64_t max_waiting = 256;  // requests beyond those; more are refused
  bool share_prefixes = true;
  // Speculation: makes the proposer of a request, on the thread that submits it. Empty: none.
  std::function<std::unique_ptr<Proposer>(const Request& request)> make_proposer;
  int64_t draft_depth = 0;  // tokens; 0: as many as pay, measured as it runs
};

inline constexpr int64_t kMaxWaiting = 1 << 16;

struct BatcherStats {
  int64_t steps = 0;
  int64_t rows = 0;
  int64_t preemptions = 0;
  int64_t reused_tokens = 0;  // found in the prefix cache
  int64_t pages = 0;          // of all groups
  int64_t used_pages = 0;     // of those, by requests
  int64_t idle_pages = 0;     // kept for their prefixes alone
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
  // The parts of submit(). The first two may be called by any thread while the batcher runs: the error of a full queue;
  // a request that is ready to be queued, with the other errors.
  void check_queue(const BatcherStats& stats) const;
  std::unique_ptr<Stream> create(Request request, Listener listener) const;
  void add(std::unique_ptr<Stream> stream) { waiting_.push_back(std::move(stream)); }
  // The request ends with StopReason::cancelled at the next step. No effect on one that has ended.
  void cancel(RequestId id);
  void cancel_all();
  // Ends all requests that have not ended with StopReason::failed. What their listeners throw is dropped.
  void fail_all(const Error& error);
  // Brings the results of one step, and may leave the next in flight; false where no request is left. What fails in one
  // request ends that one; what fails in the device ends those of the step.
  bool step();
  BatcherStats stats() const;

 private:
  struct Entry {
    Stream* stream;
    int64_t rows;         // of its pending tokens
    bool has_logits;      // they are all that is pending
    int64_t drafted = 0;  // rows behind those

    // Rows of logits or of the hidden state.
    int64_t outputs() const {
      if (stream->pools_all()) return rows;
      return has_logits ? 1 + drafted : 0;
    }
  };
  // A step from its plan until its results are handled.
  struct Step {
    std::vector<Entry> entries;
    bool hidden = false;  // of embeddings, and of nothing else
    bool draws = false;
    bool gives_logits = false;
    double reading_seconds = 0;  // of proposers that caught up, no part of what its rows cost
    std::optional<Error> error;  // of submitting it: there is nothing to wait for
  };

  void end_cancelled();
  int64_t pages_for(size_t group, int64_t tokens) const;
  int64_t promised_pages(size_t group) const;
  bool may_start(Stream& stream) const;
  bool has_pages_for(size_t prompt) const;
  void admit();
  const SessionTarget* session_target(const Stream& stream);
  void end(Stream& stream, StopReason reason);
  void fail_stream(Stream& stream, const Error& error);
  // The error with what is wrong with the model's weights, which is looked for once.
  void fail_stream(Stream& stream, const BrokenLogits& error);
  void remove_ended();

  // The step that is being built, and the earliest that was submitted.
  Step& next_step() {
    return steps_[static_cast<size_t>((first_step_ + steps_in_flight_) % graph::kMostStepsInFlight)];
  }
  Step& first_step() { return steps_[static_cast<size_t>(first_step_)]; }
  bool may_run_ahead() const;
  void shift_or_end(Stream& stream);
  // Plans the next step; false where there is nothing to run, or with a step in flight, where it has to be over first.
  bool plan_step();
  bool is_context_full(const Stream& stream) const;
  bool awaits_prefix(size_t index);
  // Adds the rows of the streams, or those of embeddings; false where a step in flight has to be over first.
  bool add_rows(bool hidden);
  // False where it needs pages that only preemption gives, and a step is in flight.
  bool add_decode(Stream& stream);
  void add_prompt(Stream& stream, int64_t rows);
  void add_drafts();
  void give_way();
  Error no_pages(const Stream& stream) const;
  Stream* latest_preemptable() const;
  void preempt(Stream& stream);
  void requeue_preempted();
  void collect_rows();
  // Whether the device is to draw the tokens of this step; then draws_ says how.
  bool plan_draws();
  void submit_step();
  // Waits for the earliest step and handles its results.
  void take_step();
  void take_logits(const Step& step, std::span<const float> logits);
  void take_hidden(const Step& step, std::span<const float> hidden);
  void take_drawn(const Step& step, const graph::StepResult& result);
  // Waits for all steps, whatever comes of them.
  void drop_steps();
  void record_cost(const Step& step, double seconds);

  Runner& runner_;
  const tokenizer::Tokenizer& tokenizer_;
  BatcherOptions options_;
  mutable std::atomic<RequestId> next_id_ = 1;
  BatcherStats stats_;
  StepCost cost_;
  std::optional<std::string> broken_weights_;  // described once a step has given no numbers
  std::optional<ModelIdentity> identity_;      // read for the first session
  std::optional<SessionTarget> session_target_;
  std::deque<std::unique_ptr<Stream>> waiting_;   // in order of arrival
  std::vector<std::unique_ptr<Stream>> running_;  // in order of arrival
  std::vector<std::unique_ptr<Stream>> leaving_;  // have ended, with rows in a step in flight
  // A ring of those in flight, and the one that is being built.
  std::array<Step, graph::kMostStepsInFlight> steps_;
  int64_t first_step_ = 0;
  int64_t steps_in_flight_ = 0;
  bool last_hidden_ = false;  // the step submitted last
  // The step being built; kept for their capacity.
  std::vector<int64_t> pending_;
  std::vector<int64_t> rows_of_kind_;
  std::vector<int64_t> shares_;
  std::vector<int32_t> token_ids_;
  std::vector<int32_t> output_rows_;
  std::vector<graph::SequenceStep> sequences_;
  std::vector<graph::RowDraw> draws_;
};

}  // namespace minfer::engine
