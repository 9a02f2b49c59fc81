// The thread that owns a runner and its device: it runs the batcher's steps while there are requests, and sleeps while
// there are none. Any thread, also a listener, submits, cancels and asks for numbers; none of that waits for a running
// step: requests are made on the caller's thread and lie in a mailbox until the next step, which takes them in the
// order in which they were submitted. Listeners are called on the engine's thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/batcher.hpp"

namespace minfer::engine {

class Engine {
 public:
  // Errors: those of Batcher. Runner and tokenizer outlive the engine; nothing else uses the runner meanwhile.
  Engine(Runner& runner, const tokenizer::Tokenizer& tokenizer, const BatcherOptions& options);
  // Ends all requests as cancelled.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Queues the request; its listener is called from the next step on, perhaps before this returns. Errors: those of
  // Batcher::submit; the listener is not called then.
  RequestId submit(Request request, Listener listener);
  // The request ends with StopReason::cancelled before the step after the running one. No effect on one that has ended.
  void cancel(RequestId id);
  // As of the last step, with what has been submitted since.
  BatcherStats stats() const;
  // Waits until no request is left; false where some are after `timeout`. Not from a listener.
  bool wait_until_idle(std::chrono::milliseconds timeout) const;

 private:
  // Gives the batcher what take_mail() has brought, and runs one step.
  bool step();
  void deliver();
  void fail_all(const Error& error);
  void run();
  // Waits for mail unless there is work; false where the engine is to end.
  bool take_mail(bool working);
  // To any thread.
  void publish();

  Batcher batcher_;  // all but create() by thread_ only, once it runs
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  mutable std::condition_variable idle_;
  std::vector<std::unique_ptr<Stream>> submitted_;
  std::vector<RequestId> cancelled_;
  BatcherStats stats_;  // with those of submitted_ among the waiting
  bool closing_ = false;
  // Mail that was taken.
  std::vector<std::unique_ptr<Stream>> taken_;
  std::vector<RequestId> to_cancel_;
  std::thread thread_;
};

}  // namespace minfer::engine
