// Where grammars are compiled: one thread, one after another, so that whoever sends slow ones (up to a second each)
// holds up those who send new ones, and no thread that answers other requests. What waits is limited; a client that
// goes away while it waits costs nothing more.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "server/openai/answer_thread.hpp"
#include "server/openai/prepared_model.hpp"

namespace minfer::server::openai {

inline constexpr size_t kMostWaitingGrammars = 64;

class GrammarThread {
 public:
  // A job whose parts have no grammar yet.
  struct Waiting {
    std::shared_ptr<PreparedModel> model;
    GrammarWish wish;
    Job job;
  };

  // `answers` outlives it, and gets the jobs once they have their grammar.
  explicit GrammarThread(AnswerThread& answers);
  ~GrammarThread();
  GrammarThread(const GrammarThread&) = delete;
  GrammarThread& operator=(const GrammarThread&) = delete;

  // Any thread. A grammar that can't be compiled fails the job's answer. Errors: ApiFailure (429) where
  // kMostWaitingGrammars wait.
  void put(Waiting waiting);
  // Compiles no more, and fails what waits with 503.
  void stop();

 private:
  struct Entry {
    Waiting waiting;
    std::shared_ptr<std::atomic<bool>> gone;  // its client
  };

  void run();
  void compile(Waiting& waiting);

  AnswerThread& answers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Entry> entries_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace minfer::server::openai
