// The thread and its queue. See task_thread.hpp.
#include "server/openai/task_thread.hpp"

#include <utility>

#include "server/api_error.hpp"

namespace minfer::server::openai {

TaskThread::TaskThread(size_t most_waiting, std::string what)
    : most_waiting_(most_waiting), what_(std::move(what)), thread_([this] { run(); }) {}

TaskThread::~TaskThread() {
  stop();
}

void TaskThread::put(const std::shared_ptr<Responder>& responder, const std::string& param, Task task) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  {
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= most_waiting_) {
      throw ApiFailure(
          {.status = 429,
           .message = fmt::format("{} requests wait for {}; the limit is {}", entries_.size(), what_, most_waiting_),
           .type = "rate_limit_error",
           .param = param,
           .code = "queue_full",
           .retry_after_s = 1});
    }
    if (!stopped_) {
      entries_.push_back({std::move(task), gone});
      wake_.notify_one();
      responder->on_gone([gone] { *gone = true; });
      return;
    }
  }
  task.refuse();
}

void TaskThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopped_ || !entries_.empty(); });
    if (stopped_) return;
    {
      const Entry entry = std::move(entries_.front());
      entries_.pop_front();
      lock.unlock();
      if (!*entry.gone) entry.task.run();
    }
    lock.lock();
  }
}

void TaskThread::stop() {
  std::deque<Entry> left;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    left.swap(entries_);
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  for (const Entry& entry : left) entry.task.refuse();
}

}  // namespace minfer::server::openai
