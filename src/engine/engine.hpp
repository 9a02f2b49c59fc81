// The thread that owns a runner and its device: it runs the batcher's steps while there are requests, and sleeps while
// there are none. Any thread submits and cancels; that takes effect between two steps. Listeners are called on the
// engine's thread.
#pragma once

#include <condition_variable>
#include <functional>
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

  // Waits for the running step, then queues the request. Errors: those of Batcher::submit. Not from a listener.
  RequestId submit(Request request, Listener listener);
  void cancel(RequestId id);
  BatcherStats stats();

 private:
  void post(std::function<void()> task);
  bool step();
  void run();

  Batcher batcher_;  // touched by thread_ only, once it runs
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::function<void()>> tasks_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace minfer::engine
