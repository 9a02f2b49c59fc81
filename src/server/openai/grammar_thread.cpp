// The thread that compiles, and its queue. See grammar_thread.hpp.
// A request that finds its grammar in the queue waits behind it, and finds it compiled.
#include "server/openai/grammar_thread.hpp"

#include <utility>

namespace minfer::server::openai {

GrammarThread::GrammarThread(AnswerThread& answers) : answers_(answers), thread_([this] { run(); }) {}

GrammarThread::~GrammarThread() {
  stop();
}

void GrammarThread::put(Waiting waiting) {
  Entry entry{std::move(waiting), std::make_shared<std::atomic<bool>>(false)};
  const auto responder = entry.waiting.job.responder;
  const auto gone = entry.gone;
  {
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= kMostWaitingGrammars) {
      throw ApiFailure({.status = 429,
                        .message = fmt::format("{} requests wait for a grammar to be compiled; the limit is {}",
                                               entries_.size(), kMostWaitingGrammars),
                        .type = "rate_limit_error",
                        .param = entry.waiting.wish.param(),
                        .code = "queue_full",
                        .retry_after_s = 1});
    }
    if (!stopped_) {
      entries_.push_back(std::move(entry));
      wake_.notify_one();
      responder->on_gone([gone] { *gone = true; });
      return;
    }
  }
  entry.waiting.job.answer->fail(stopping_error());
}

void GrammarThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopped_ || !entries_.empty(); });
    if (stopped_) return;
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    lock.unlock();
    if (!*entry.gone) compile(entry.waiting);
    lock.lock();
  }
}

void GrammarThread::compile(Waiting& waiting) {
  try {
    const auto grammar = waiting.model->grammars.find(waiting.wish);
    for (Part& part : waiting.job.parts) part.request.grammar = grammar;
    answers_.start(std::move(waiting.job));
  } catch (...) {
    // Without one start() has failed, which has dropped the answer: its client is told.
    if (waiting.job.answer != nullptr) waiting.job.answer->fail(current_api_error());
  }
}

void GrammarThread::stop() {
  std::deque<Entry> left;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    left.swap(entries_);
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  for (const Entry& entry : left) entry.waiting.job.answer->fail(stopping_error());
}

}  // namespace minfer::server::openai
