// The pool of threads that executes a step. One call of run() is one parallel section: every thread, the caller
// included, executes the same body, and inside it shares loops (Worker::parallel_for, dynamic chunks from one atomic
// counter) and waits at barriers. Waiting spins for a bounded time, then sleeps in the kernel: an idle process uses no
// CPU. Results of a loop may not depend on which thread runs a chunk. Where a body throws, its section ends: the other
// threads leave their bodies at the next barrier (or loop end), and run() rethrows the exception; the pool stays
// usable. One owner thread calls run(); the pool itself is not re-entrant.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace minfer {

class ThreadPool;

// A non-owning reference to a callable; lives no longer than the call it is passed to.
template <class Signature>
class FunctionRef;
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class Callable, class = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef>>>
  FunctionRef(Callable&& callable)  // NOLINT(google-explicit-constructor): a parameter type
      : object_(const_cast<void*>(static_cast<const void*>(&callable))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<Callable>*>(object))(args...);
        }) {}
  Result operator()(Args... args) const { return call_(object_, args...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

// One thread's view of the running section.
class Worker {
 public:
  int index() const { return index_; }  // 0: the calling thread
  int count() const { return count_; }  // threads in the section

  // Returns when all threads of the section have arrived; what they wrote before is visible after. Where another
  // thread's body has thrown, it throws a type private to the pool instead: let it pass (no catch (...) that swallows,
  // no noexcept function around a barrier).
  void barrier();
  // Every thread of the section calls it with the same `items` and `grain`; chunk(begin, end) runs once for each chunk
  // of [0, items) of at most `grain` items, on whichever thread claims it. Ends with a barrier.
  void parallel_for(int64_t items, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> chunk);

 private:
  friend class ThreadPool;
  Worker(ThreadPool& pool, int index, int count) : pool_(pool), index_(index), count_(count) {}
  ThreadPool& pool_;
  int index_;
  int count_;
  uint64_t loops_ = 0;  // loops this thread has entered in this section
};

class ThreadPool {
 public:
  // Starts threads - 1 threads. Errors: invalid_input where threads is under 1 or over kMaxThreads; io if the system
  // refuses a thread.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  // Runs body(worker) on every thread and returns when all are done. Rethrows the first exception that left a body, as
  // it was, after every thread has left the section.
  void run(FunctionRef<void(Worker&)> body);

  static constexpr int kMaxThreads = 1024;

 private:
  friend class Worker;
  struct State;
  void serve(int index);  // the life of one of the other threads
  std::unique_ptr<State> state_;
};

}  // namespace minfer
