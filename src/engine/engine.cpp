// The engine's thread and its mailbox. See engine.hpp.
#include "engine/engine.hpp"

#include <future>
#include <memory>
#include <new>
#include <utility>

#include "base/error.hpp"

namespace minfer::engine {

Engine::Engine(Runner& runner, const tokenizer::Tokenizer& tokenizer, const BatcherOptions& options)
    : batcher_(runner, tokenizer, options), thread_([this] { run(); }) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Engine::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

RequestId Engine::submit(Request request, Listener listener) {
  const auto answer = std::make_shared<std::promise<RequestId>>();
  auto id = answer->get_future();
  post([this, answer, request = std::move(request), listener = std::move(listener)]() mutable {
    try {
      answer->set_value(batcher_.submit(std::move(request), std::move(listener)));
    } catch (...) {
      answer->set_exception(std::current_exception());
    }
  });
  return id.get();
}

void Engine::cancel(RequestId id) {
  post([this, id] { batcher_.cancel(id); });
}

BatcherStats Engine::stats() {
  std::promise<BatcherStats> answer;
  post([&] { answer.set_value(batcher_.stats()); });
  return answer.get_future().get();
}

// What is thrown past the requests, memory that is used up for instance, ends them all; the engine goes on.
bool Engine::step() {
  try {
    return batcher_.step();
  } catch (const Error& error) {
    batcher_.fail_all(error);
  } catch (const std::bad_alloc&) {
    batcher_.fail_all({ErrorCode::out_of_memory, "memory is used up; run fewer requests, or a smaller context"});
  } catch (const std::exception& error) {
    batcher_.fail_all({ErrorCode::internal, fmt::format("internal error: {}", error.what())});
  }
  return false;
}

void Engine::run() {
  bool working = false;
  std::vector<std::function<void()>> tasks;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (!working) wake_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
      if (closing_ && tasks_.empty()) break;
      tasks.swap(tasks_);
    }
    for (const auto& task : tasks) task();
    tasks.clear();
    working = step();
  }
  batcher_.cancel_all();
  step();
}

}  // namespace minfer::engine
