// The engine's thread and its mailbox. See engine.hpp.
#include "engine/engine.hpp"

#include <new>
#include <utility>

#include "base/error.hpp"

namespace minfer::engine {

Engine::Engine(Runner& runner, const tokenizer::Tokenizer& tokenizer, const BatcherOptions& options)
    : batcher_(runner, tokenizer, options), stats_(batcher_.stats()), thread_([this] { run(); }) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

RequestId Engine::submit(Request request, Listener listener) {
  // Refused before anything is made, and looked at again when it is.
  batcher_.check_queue(stats());
  auto stream = batcher_.create(std::move(request), std::move(listener));
  const RequestId id = stream->id();
  {
    const std::lock_guard lock(mutex_);
    batcher_.check_queue(stats_);
    submitted_.push_back(std::move(stream));
    ++stats_.waiting;
  }
  wake_.notify_one();
  return id;
}

void Engine::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(id);
  }
  wake_.notify_one();
}

BatcherStats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

bool Engine::wait_until_idle(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, timeout, [this] { return stats_.running + stats_.waiting == 0; });
}

void Engine::deliver() {
  for (auto& stream : taken_) batcher_.add(std::move(stream));
  taken_.clear();
  for (const RequestId id : to_cancel_) batcher_.cancel(id);
}

void Engine::fail_all(const Error& error) {
  batcher_.fail_all(error);
  for (const auto& stream : taken_) {
    if (stream == nullptr) continue;
    try {
      stream->end(StopReason::failed, error);
    } catch (const std::exception&) {
      // Its listener's, which has been told.
    }
  }
  taken_.clear();
}

// What is thrown past the requests, memory that is used up for instance, ends them all; the engine goes on.
bool Engine::step() {
  try {
    deliver();
    return batcher_.step();
  } catch (const Error& error) {
    fail_all(error);
  } catch (const std::bad_alloc&) {
    fail_all({ErrorCode::out_of_memory, "memory is used up; run fewer requests, or a smaller context"});
  } catch (const std::exception& error) {
    fail_all({ErrorCode::internal, fmt::format("internal error: {}", error.what())});
  }
  return false;
}

bool Engine::take_mail(bool working) {
  std::unique_lock lock(mutex_);
  if (!working) wake_.wait(lock, [this] { return closing_ || !submitted_.empty() || !cancelled_.empty(); });
  taken_.swap(submitted_);
  to_cancel_.clear();
  to_cancel_.swap(cancelled_);
  return !closing_;
}

void Engine::publish() {
  BatcherStats stats = batcher_.stats();
  const std::lock_guard lock(mutex_);
  stats.waiting += static_cast<int64_t>(submitted_.size());
  stats_ = stats;
  if (stats.running + stats.waiting == 0) idle_.notify_all();
}

void Engine::run() {
  bool working = false;
  while (take_mail(working)) {
    working = step();
    publish();
  }
  for (const auto& stream : taken_) stream->cancelled = true;
  batcher_.cancel_all();
  step();
}

}  // namespace minfer::engine
