// Implementation of ThreadPool. See thread_pool.hpp.
//
// Waiting: every wait is on an Event, a counter that only grows. A waiter spins until the counter moves or kSpinTime is
// over, then announces itself in `sleepers` and sleeps in the kernel (std::atomic::wait, a futex on Linux). The
// signaller moves the counter, then looks at `sleepers`; both sides are sequentially consistent, so one of them sees
// the other and no wake-up is lost, and no system call is made while nobody sleeps.
//
// Loops: loop n of a section counts its chunks in counters[n % 2]. Worker 0 clears the other counter while it is in
// loop n: nobody touches that one any more (all have arrived at the barrier of loop n - 1), and loop n + 1 starts only
// after the barrier of loop n, which publishes the clearing.
//
// Exceptions: the first one is kept and `aborted` set, then the barrier is signalled. A thread that is in a barrier, or
// comes to one, reads the barrier's counter first and `aborted` second, so it cannot sleep on a counter that was
// signalled before; it leaves by SectionAborted, which the pool swallows.
#include "base/thread_pool.hpp"

#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "base/error.hpp"

namespace minfer {
namespace {

// How long a thread spins before it sleeps: longer than the gaps inside a step, far shorter than a frame of idleness.
constexpr std::chrono::microseconds kSpinTime{80};
constexpr int kPausesPerClockRead = 32;
constexpr int kClockReadsPerCoreCheck = 16;
constexpr size_t kCacheLineBytes = 64;

// Thrown out of barrier() in the other threads of a section in which one body threw. No std::exception: a body that
// handles its own errors does not catch it by accident.
struct SectionAborted {};

// The core that the calling thread is on; -1 where the system does not say.
int current_core() {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

struct alignas(kCacheLineBytes) Event {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};

  uint32_t now() const { return value.load(std::memory_order_acquire); }

  void signal() {
    value.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) != 0) value.notify_all();
  }

  // Sleeps until the counter is no longer `seen`.
  void sleep(uint32_t seen) {
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    while (value.load(std::memory_order_seq_cst) == seen) value.wait(seen, std::memory_order_seq_cst);
    sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
};

struct alignas(kCacheLineBytes) Counter {
  std::atomic<int64_t> value{0};
};

// The core that a thread was on when it last started a section or arrived at a barrier.
struct alignas(kCacheLineBytes) Core {
  std::atomic<int> number{-1};
};

}  // namespace

struct ThreadPool::State {
  int threads = 1;
  bool may_spin =
      false;  // false where threads outnumber the cores: a spinner would keep the awaited thread from running
  std::atomic<bool> running{false};
  std::atomic<bool> stopping{false};
  const FunctionRef<void(Worker&)>* body = nullptr;
  std::mutex exception_mutex;
  std::exception_ptr exception;

  Event section;  // signalled to start a section or to stop
  Event done;     // signalled by the last thread to leave a section
  Event phase;    // signalled by the last thread to arrive at a barrier, or by one that aborts
  Counter arrived;
  Counter remaining;
  Counter loop_counters[2];
  alignas(kCacheLineBytes) std::atomic<bool> aborted{false};
  std::unique_ptr<Core[]> cores;  // of each thread
  std::vector<std::thread> others;

  void note_core(int index) {
    cores[static_cast<size_t>(index)].number.store(current_core(), std::memory_order_relaxed);
  }

  bool shares_core(int index) const {
    const int own = current_core();
    for (int other = 0; other < threads && own >= 0; ++other) {
      if (other != index && cores[static_cast<size_t>(other)].number.load(std::memory_order_relaxed) == own)
        return true;
    }
    return false;
  }

  // Spins until the event's counter is no longer `seen` (true) or spinning makes no more sense (false).
  bool spin(const Event& event, uint32_t seen, int index) const {
    const auto limit = std::chrono::steady_clock::now() + kSpinTime;
    for (int reads = 0; may_spin; ++reads) {
      for (int i = 0; i < kPausesPerClockRead; ++i) {
        if (event.now() != seen) return true;
        pause_cpu();
      }
      if (std::chrono::steady_clock::now() >= limit) return false;
      if (reads % kClockReadsPerCoreCheck == 0 && shares_core(index)) return false;
    }
    return false;
  }

  // Returns when the event's counter is no longer `seen`.
  void wait(Event& event, uint32_t seen, int index) {
    if (!spin(event, seen, index)) event.sleep(seen);
  }

  // Runs the body as one worker; never throws.
  void run_body(Worker& worker) {
    try {
      (*body)(worker);
    } catch (const SectionAborted&) {
      // The exception that caused it is kept already.
    } catch (...) {
      {
        const std::lock_guard lock(exception_mutex);
        if (!exception) exception = std::current_exception();
      }
      aborted.store(true, std::memory_order_seq_cst);
      phase.signal();
    }
  }

  void stop_others() {
    stopping.store(true, std::memory_order_seq_cst);
    section.signal();
    for (std::thread& thread : others) thread.join();
    others.clear();
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  if (threads < 1 || threads > kMaxThreads) {
    fail(ErrorCode::invalid_input, "threads: {} is out of range; choose 1 to {}", threads, kMaxThreads);
  }
  State& state = *state_;
  state.threads = threads;
  state.may_spin = static_cast<unsigned>(threads) <= std::thread::hardware_concurrency();
  state.cores = std::make_unique<Core[]>(static_cast<size_t>(threads));
  try {
    state.others.reserve(static_cast<size_t>(threads - 1));
    for (int index = 1; index < threads; ++index) {
      state.others.emplace_back([this, index] { serve(index); });
    }
  } catch (const std::system_error& error) {
    const size_t started = state.others.size() + 1;
    state.stop_others();
    fail(ErrorCode::io, "threads: the system refused thread {} of {}: {}; ask for fewer threads", started + 1, threads,
         error.what());
  }
}

ThreadPool::~ThreadPool() {
  state_->stop_others();
}

int ThreadPool::threads() const {
  return state_->threads;
}

void ThreadPool::serve(int index) {
  State& state = *state_;
  uint32_t seen = 0;  // the section counter before the pool's first section
  for (;;) {
    state.wait(state.section, seen, index);
    ++seen;
    state.note_core(index);
    if (state.stopping.load(std::memory_order_acquire)) return;
    Worker worker(*this, index, state.threads);
    state.run_body(worker);
    if (state.remaining.value.fetch_sub(1, std::memory_order_acq_rel) == 1) state.done.signal();
  }
}

void ThreadPool::run(FunctionRef<void(Worker&)> body) {
  State& state = *state_;
  check(!state.running.load(std::memory_order_relaxed), "ThreadPool::run called inside ThreadPool::run");
  struct Running {
    std::atomic<bool>& flag;
    explicit Running(std::atomic<bool>& f) : flag(f) { flag.store(true, std::memory_order_relaxed); }
    ~Running() { flag.store(false, std::memory_order_relaxed); }
  } running(state.running);

  Worker worker(*this, 0, state.threads);
  if (state.threads == 1) {
    body(worker);
    return;
  }
  state.note_core(0);
  state.body = &body;
  state.exception = nullptr;
  state.aborted.store(false, std::memory_order_relaxed);
  state.arrived.value.store(0, std::memory_order_relaxed);
  for (Counter& counter : state.loop_counters) counter.value.store(0, std::memory_order_relaxed);
  state.remaining.value.store(state.threads - 1, std::memory_order_relaxed);
  const uint32_t before = state.done.now();
  state.section.signal();  // publishes the stores above
  state.run_body(worker);
  state.wait(state.done, before, 0);
  if (state.exception) std::rethrow_exception(std::exchange(state.exception, nullptr));
}

void Worker::barrier() {
  if (count_ == 1) return;
  ThreadPool::State& state = *pool_.state_;
  state.note_core(index_);
  const uint32_t seen = state.phase.now();
  if (state.aborted.load(std::memory_order_acquire)) throw SectionAborted{};
  if (state.arrived.value.fetch_add(1, std::memory_order_acq_rel) == count_ - 1) {
    state.arrived.value.store(0, std::memory_order_relaxed);
    state.phase.signal();
    return;
  }
  state.wait(state.phase, seen, index_);
  if (state.aborted.load(std::memory_order_acquire)) throw SectionAborted{};
}

void Worker::parallel_for(int64_t items, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> chunk) {
  check(items >= 0 && grain > 0, "parallel_for needs items >= 0 and grain > 0");
  const int64_t chunks = items / grain + (items % grain != 0);
  const auto run_chunk = [&](int64_t index) {
    const int64_t begin = index * grain;
    chunk(begin, items - begin < grain ? items : begin + grain);
  };
  if (count_ == 1) {
    for (int64_t index = 0; index < chunks; ++index) run_chunk(index);
    return;
  }
  ThreadPool::State& state = *pool_.state_;
  std::atomic<int64_t>& counter = state.loop_counters[loops_ % 2].value;
  if (index_ == 0) state.loop_counters[(loops_ + 1) % 2].value.store(0, std::memory_order_relaxed);
  ++loops_;
  for (;;) {
    const int64_t index = counter.fetch_add(1, std::memory_order_relaxed);
    if (index >= chunks) break;
    run_chunk(index);
  }
  barrier();
}

}  // namespace minfer
