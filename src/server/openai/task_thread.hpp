// A thread for what takes long in handlers, one thing after another, so that no thread that answers other requests
// waits for it. What waits is limited; a client that goes away while it waits costs nothing more.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "server/http/exchange.hpp"

namespace minfer::server::openai {

class TaskThread {
 public:
  struct Task {
    std::function<void()> run;     // answers all errors itself
    std::function<void()> refuse;  // in its place, where the thread stops before
  };

  // At most so many tasks wait. `what` they wait for, for the message: "a grammar to be compiled".
  TaskThread(size_t most_waiting, std::string what);
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // Any thread. The task is dropped, and its place is free, where the client of `responder` goes before its turn.
  // `param`: the field that asks for it. Errors: ApiFailure (429) where too many wait.
  void put(const std::shared_ptr<Responder>& responder, const std::string& param, Task task);
  // Ends what runs, and refuses what waits.
  void stop();

 private:
  // A task and whether its client has gone; clients may go after this thread has, so they hold only this.
  struct Entry {
    Task task;
    bool is_gone = false;
  };
  struct Queue {
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<std::shared_ptr<Entry>> entries;
    bool is_stopped = false;
  };

  void run();

  const size_t most_waiting_;
  const std::string what_;
  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  std::thread thread_;
};

}  // namespace minfer::server::openai
