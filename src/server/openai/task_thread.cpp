// The thread and its queue. See task_thread.hpp.
#include "server/openai/task_thread.hpp"

#include <algorithm>
#include <utility>

#include "server/api_error.hpp"

namespace minfer::server::openai {

TaskThread::TaskThread(size_t most_waiting, std::string what)
    : most_waiting_(most_waiting), what_(std::move(what)), thread_([this] { run(); }) {}

TaskThread::~TaskThread() {
  stop();
}

void TaskThread::put(const std::shared_ptr<Responder>& responder, const std::string& param, Task task) {
  const auto entry = std::make_shared<Entry>(Entry{std::move(task)});
  // Before the entry can be run: what runs may set a callback of its own.
  responder->on_gone([queue = std::weak_ptr<Queue>(queue_), mine = std::weak_ptr<Entry>(entry)] {
    const auto waiting = queue.lock();
    const auto gone = mine.lock();
    if (waiting == nullptr || gone == nullptr) return;
    const std::lock_guard lock(waiting->mutex);
    gone->is_gone = true;
    std::erase(waiting->entries, gone);
  });
  {
    const std::lock_guard lock(queue_->mutex);
    if (entry->is_gone) return;
    if (queue_->entries.size() >= most_waiting_) {
      throw ApiFailure({.status = 429,
                        .message = fmt::format("{} requests wait for {}; the limit is {}", queue_->entries.size(),
                                               what_, most_waiting_),
                        .type = "rate_limit_error",
                        .param = param,
                        .code = "queue_full",
                        .retry_after_s = 1});
    }
    if (!queue_->is_stopped) {
      queue_->entries.push_back(entry);
      queue_->wake.notify_one();
      return;
    }
  }
  entry->task.refuse();
}

void TaskThread::run() {
  std::unique_lock lock(queue_->mutex);
  while (true) {
    queue_->wake.wait(lock, [this] { return queue_->is_stopped || !queue_->entries.empty(); });
    if (queue_->is_stopped) return;
    auto entry = std::move(queue_->entries.front());
    queue_->entries.pop_front();
    lock.unlock();
    entry->task.run();
    entry.reset();
    lock.lock();
  }
}

void TaskThread::stop() {
  std::deque<std::shared_ptr<Entry>> left;
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->is_stopped = true;
    left.swap(queue_->entries);
  }
  queue_->wake.notify_one();
  if (thread_.joinable()) thread_.join();
  for (const auto& entry : left) entry->task.refuse();
}

}  // namespace minfer::server::openai
