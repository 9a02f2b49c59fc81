// ThreadPool: every chunk once, barriers that order memory, many loops and sections in a row, exceptions that neither
// hang nor stick, and no CPU time while idle. Thread counts above the cores' are tested too.
#include "base/thread_pool.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"

namespace minfer {
namespace {

class Pool : public testing::TestWithParam<int> {};

double process_cpu_ms() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

TEST_P(Pool, EveryThreadRunsTheBodyOnce) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.threads(), GetParam());
  for (int round = 0; round < 50; ++round) {
    std::vector<int> runs(static_cast<size_t>(GetParam()));
    pool.run([&](Worker& worker) {
      EXPECT_EQ(worker.count(), GetParam());
      ++runs[static_cast<size_t>(worker.index())];
    });
    EXPECT_EQ(runs, std::vector<int>(runs.size(), 1));
  }
}

TEST_P(Pool, TheCallerIsWorkerZero) {
  ThreadPool pool(GetParam());
  const auto caller = std::this_thread::get_id();
  pool.run([&](Worker& worker) { EXPECT_EQ(worker.index() == 0, std::this_thread::get_id() == caller); });
}

TEST_P(Pool, ALoopRunsEachItemOnceInChunksOfAtMostTheGrain) {
  ThreadPool pool(GetParam());
  for (const int64_t items : {0, 1, 2, 7, 64, 1000}) {
    for (const int64_t grain : {1, 3, 64, 5000}) {
      std::vector<int> runs(static_cast<size_t>(items));
      std::atomic<int> chunks{0};
      pool.run([&](Worker& worker) {
        worker.parallel_for(items, grain, [&](int64_t begin, int64_t end) {
          EXPECT_LT(begin, end);
          EXPECT_LE(end - begin, grain);
          for (int64_t i = begin; i < end; ++i) ++runs[static_cast<size_t>(i)];
          ++chunks;
        });
      });
      EXPECT_EQ(runs, std::vector<int>(runs.size(), 1)) << items << " by " << grain;
      EXPECT_EQ(chunks, (items + grain - 1) / grain);
    }
  }
}

// Loops one after another in a section, each reading what the one before wrote: a counter that is cleared too early or
// too late, or a barrier that lets one thread through, gives a wrong sum.
TEST_P(Pool, ManyLoopsInARowSeeEachOthersResults) {
  ThreadPool pool(GetParam());
  constexpr int64_t kItems = 37;
  constexpr int64_t kLoops = 300;
  for (int section = 0; section < 20; ++section) {
    std::vector<int64_t> even(kItems, 0), odd(kItems, 0);
    pool.run([&](Worker& worker) {
      for (int64_t loop = 0; loop < kLoops; ++loop) {
        const std::vector<int64_t>& from = loop % 2 == 0 ? even : odd;
        std::vector<int64_t>& to = loop % 2 == 0 ? odd : even;
        const int64_t items = loop % 5 == 4 ? 0 : kItems;  // empty loops use a counter as well
        if (items == 0) {
          worker.parallel_for(0, 1, [](int64_t, int64_t) { FAIL() << "a chunk of an empty loop"; });
        }
        worker.parallel_for(kItems, 1 + loop % 4, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            to[static_cast<size_t>(i)] = from[static_cast<size_t>((i + 1) % kItems)] + 1;
          }
        });
      }
    });
    EXPECT_EQ(even, std::vector<int64_t>(kItems, kLoops));
  }
}

TEST_P(Pool, BarriersOrderWhatThreadsWrite) {
  ThreadPool pool(GetParam());
  const size_t count = static_cast<size_t>(GetParam());
  std::vector<int> values(count, 0);
  std::vector<int> sums(count, 0);
  pool.run([&](Worker& worker) {
    const size_t self = static_cast<size_t>(worker.index());
    for (int round = 1; round <= 200; ++round) {
      values[self] = round;
      worker.barrier();
      sums[self] += std::accumulate(values.begin(), values.end(), 0);
      worker.barrier();
    }
  });
  EXPECT_EQ(sums, std::vector<int>(count, GetParam() * 200 * 201 / 2));
}

TEST_P(Pool, AnExceptionComesOutAsItWasAndThePoolStaysUsable) {
  ThreadPool pool(GetParam());
  for (int thrower = 0; thrower < GetParam(); ++thrower) {
    std::atomic<int> passed{0};
    const auto body = [&](Worker& worker) {
      worker.parallel_for(10, 1, [](int64_t, int64_t) {});
      if (worker.index() == thrower) throw std::out_of_range("thread " + std::to_string(thrower));
      worker.barrier();
      ++passed;
      worker.parallel_for(10, 1, [](int64_t, int64_t) {});
    };
    try {
      pool.run(body);
      FAIL() << "no exception";
    } catch (const std::out_of_range& error) {
      EXPECT_EQ(error.what(), "thread " + std::to_string(thrower));
    }
    EXPECT_EQ(passed, 0) << "a thread went through a barrier that not all had reached";
    std::atomic<int> sum{0};
    pool.run([&](Worker& worker) {
      worker.parallel_for(100, 3, [&](int64_t begin, int64_t end) { sum += static_cast<int>(end - begin); });
    });
    EXPECT_EQ(sum, 100);
  }
}

TEST_P(Pool, ExceptionsOfAllThreadsAndFromChunks) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 30; ++round) {
    EXPECT_THROW(pool.run([](Worker&) { throw 42; }), int);
    EXPECT_THROW(pool.run([&](Worker& worker) {
      for (int loop = 0; loop < 5; ++loop) {
        worker.parallel_for(64, 1, [&](int64_t begin, int64_t) {
          if (loop == 3 && begin == 50) fail(ErrorCode::device, "chunk {}", begin);
        });
      }
    }),
                 Error);
  }
}

TEST_P(Pool, IdleThreadsUseNoCpu) {
  ThreadPool pool(GetParam());
  pool.run([](Worker& worker) { worker.parallel_for(100, 1, [](int64_t, int64_t) {}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = process_cpu_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(process_cpu_ms() - before, 20.0);
}

// A thread that arrives late (past the time of spinning) finds the others asleep and wakes them.
TEST_P(Pool, SleepersAtABarrierAreWoken) {
  ThreadPool pool(GetParam());
  for (int late = 0; late < GetParam(); ++late) {
    std::atomic<int> passed{0};
    pool.run([&](Worker& worker) {
      if (worker.index() == late) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      worker.barrier();
      ++passed;
    });
    EXPECT_EQ(passed, GetParam());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Pool, testing::Values(1, 2, 3, 5),
                         [](const auto& test) { return std::to_string(test.param); });

TEST(ThreadPool, RefusesImpossibleCounts) {
  for (const int threads : {0, -1, ThreadPool::kMaxThreads + 1}) {
    try {
      ThreadPool pool(threads);
      FAIL() << threads << " threads were accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_NE(std::string(error.what()).find(std::to_string(threads)), std::string::npos);
    }
  }
}

TEST(ThreadPool, RunInsideRunIsAnInternalErrorNotADeadlock) {
  for (const int threads : {1, 2}) {
    ThreadPool pool(threads);
    const auto nested = [&](Worker& worker) {
      if (worker.index() == 0) pool.run([](Worker&) {});
    };
    EXPECT_THROW(pool.run(nested), Error);
    pool.run([](Worker&) {});
  }
}

}  // namespace
}  // namespace minfer
