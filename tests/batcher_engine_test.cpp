// The engine's thread: many callers submit, cancel and ask while a step runs, and none of them waits for it. A gate in
// front of the device holds a step for as long as a test wants.
#include "engine/engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <new>
#include <thread>

#include "batcher_runs.hpp"
#include "graph/backend_test_support.hpp"
#include "model/vocab.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

// Steps pass while it is open.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_ || let_ > 0; });
    if (!open_) --let_;
  }
  // Lets so many through although it is closed.
  void let(int64_t steps) {
    const std::lock_guard lock(mutex_);
    let_ += steps;
    changed_.notify_all();
  }
  void set(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  // Until a step stands in front of it, or has passed, after so many others.
  bool wait_for(int64_t steps) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(60), [&] { return arrived_ > steps; });
  }
  int64_t steps() {
    const std::lock_guard lock(mutex_);
    return arrived_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int64_t arrived_ = 0;
  int64_t let_ = 0;
};

class GatedDevice final : public graph::ForwardingBackend {
 public:
  GatedDevice(std::unique_ptr<graph::Backend> cpu, Gate& gate) : ForwardingBackend(std::move(cpu)), gate_(gate) {}
  std::unique_ptr<graph::Executable> compile(graph::Graph graph, graph::MemoryPlan plan,
                                             const graph::WeightSet& weights, graph::KvStore& kv,
                                             graph::Workspace& workspace) override {
    return std::make_unique<GatedExecutable>(
        ForwardingBackend::compile(std::move(graph), std::move(plan), weights, kv, workspace), gate_);
  }

 private:
  class GatedExecutable final : public graph::Executable {
   public:
    GatedExecutable(std::unique_ptr<graph::Executable> inner, Gate& gate) : inner_(std::move(inner)), gate_(gate) {}
    void submit(const graph::StepData& step, std::span<const std::span<const float>> imports) override {
      gate_.pass();
      inner_->submit(step, imports);
    }
    graph::StepResult wait() override { return inner_->wait(); }
    std::span<const float> exported(size_t index) const override { return inner_->exported(index); }

   private:
    std::unique_ptr<graph::Executable> inner_;
    Gate& gate_;
  };

  Gate& gate_;
};

class EngineThread : public ::testing::Test {
 protected:
  EngineThread()
      : model_(gguf::File(golden_path("tiny/llama.gguf"))),
        tokenizer_(model::read_vocab(model_.file())),
        device_(device_factories().back().create({1, {}}), gate_),
        runner_(model_, device_, exact_options(192, 64, 4), {}),
        pages_(available_pages()) {}

  static engine::Request request(int64_t prompt, int64_t tokens, int32_t first = 3) {
    engine::Request request;
    for (int64_t i = 0; i < prompt; ++i) request.prompt.push_back(first + static_cast<int32_t>(i % 200));
    request.max_tokens = tokens;
    request.sampler.temperature = 0;
    request.sampler.logit_bias = {{2, -1000.0F}};  // never an end before max_tokens
    return request;
  }
  int64_t available_pages() { return runner_.cache().pool(0).available_pages(); }
  // What a call gives, which must not wait for the step that stands at the gate.
  template <class Call>
  auto at_once(Call call) {
    auto result = std::async(std::launch::async, call);
    if (result.wait_for(seconds(20)) == std::future_status::timeout) {
      ADD_FAILURE() << "the call waits for the step";
      gate_.set(true);
    }
    return result.get();
  }

  Gate gate_;
  model::Model model_;
  tokenizer::Tokenizer tokenizer_;
  GatedDevice device_;
  engine::Runner runner_;
  int64_t pages_;
};

TEST_F(EngineThread, NobodyWaitsForARunningStep) {
  engine::BatcherOptions options;
  options.max_running = 1;
  options.max_waiting = 3;
  engine::Engine engine(runner_, tokenizer_, options);
  gate_.set(false);
  std::vector<int> order;
  std::vector<Outcome> outcomes(4);
  const auto listener = [&](int i) {
    engine::Listener mine = listener_of(outcomes[static_cast<size_t>(i)]);
    mine.on_end = [&order, i, end = mine.on_end](const engine::Result& result) {
      order.push_back(i);
      end(result);
    };
    return mine;
  };
  std::vector<engine::RequestId> ids;
  const auto submit = [&](const engine::Request& r, int i) {
    return at_once([&] { return engine.submit(r, listener(i)); });
  };
  ids.push_back(submit(request(10, 5), 0));
  ASSERT_TRUE(gate_.wait_for(0));
  for (int i = 1; i < 4; ++i) ids.push_back(submit(request(10, 5, 3 + i), i));
  const engine::BatcherStats stats = at_once([&] { return engine.stats(); });
  EXPECT_EQ(stats.waiting + stats.running, 4);
  EXPECT_EQ(stats.steps, 0);
  try {
    submit(request(10, 5), 0);
    ADD_FAILURE() << "a fifth request was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::busy);
    EXPECT_THAT(error.what(), HasSubstr("the queue is full"));
  }
  EXPECT_FALSE(at_once([&] { return engine.wait_until_idle(std::chrono::milliseconds(1)); }));
  at_once([&] { return engine.cancel(ids[2]), true; });
  gate_.set(true);
  ASSERT_TRUE(engine.wait_until_idle(seconds(60)));
  EXPECT_EQ(order, (std::vector<int>{2, 0, 1, 3})) << "the cancelled one at once, the others as submitted";
  EXPECT_EQ(outcomes[2].result.reason, engine::StopReason::cancelled);
  EXPECT_TRUE(outcomes[2].tokens.empty());
  for (const size_t i : {0, 1, 3}) {
    EXPECT_EQ(outcomes[i].tokens, run_alone(runner_, tokenizer_, request(10, 5, 3 + static_cast<int32_t>(i))).tokens);
  }
  EXPECT_EQ(engine.stats().steps, 15);
}

TEST_F(EngineThread, BadRequestsAreRefusedWhileAStepRuns) {
  engine::Engine engine(runner_, tokenizer_, {});
  gate_.set(false);
  Outcome outcome;
  engine.submit(request(10, 1), listener_of(outcome));
  ASSERT_TRUE(gate_.wait_for(0));
  engine::Request bad[3] = {request(193, 1), request(4, 1), request(4, 1)};
  bad[1].sampler.temperature = -1;
  bad[2].stops = {""};
  bool heard = false;
  const engine::Listener listener{{}, [&](const engine::Result&) { heard = true; }};
  for (const engine::Request& r : bad) {
    try {
      at_once([&] { return engine.submit(r, listener); });
      ADD_FAILURE() << "it was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input) << error.what();
    }
  }
  gate_.set(true);
  ASSERT_TRUE(engine.wait_until_idle(seconds(60)));
  EXPECT_FALSE(heard);
  EXPECT_EQ(outcome.tokens.size(), 1u);
}

// Requests that wait, run a prompt or decode: each ends before another step begins.
TEST_F(EngineThread, ACancelledRequestEndsWithTheRunningStep) {
  for (const std::string where : {"queue", "prompt", "decode"}) {
    SCOPED_TRACE(where);
    engine::BatcherOptions options;
    options.max_running = 2;
    engine::Engine engine(runner_, tokenizer_, options);
    gate_.set(false);
    const int64_t before = gate_.steps();
    Outcome others[2], outcome;
    for (Outcome& other : others) {
      if (where == "queue") engine.submit(request(4, 20), listener_of(other));
    }
    std::promise<int64_t> ended;
    engine::Listener listener = listener_of(outcome);
    listener.on_end = [&, end = listener.on_end](const engine::Result& result) {
      end(result);
      ended.set_value(gate_.steps());
    };
    const auto id = engine.submit(request(150, 20, where == "decode" ? 7 : 8), std::move(listener));
    // The prompt takes three steps.
    if (where == "decode") gate_.let(5);
    ASSERT_TRUE(gate_.wait_for(before + (where == "decode" ? 5 : 0)));
    const int64_t at_cancel = gate_.steps();
    engine.cancel(id);
    gate_.set(true);
    EXPECT_EQ(ended.get_future().get(), at_cancel);
    ASSERT_TRUE(engine.wait_until_idle(seconds(60)));
    EXPECT_EQ(outcome.result.reason, engine::StopReason::cancelled);
    EXPECT_EQ(outcome.tokens.size(), where == "decode" ? 4u : 0u);
    for (const Outcome& other : others) EXPECT_EQ(other.tokens.size(), where == "queue" ? 20u : 0u);
  }
  EXPECT_EQ(available_pages(), pages_);
}

TEST_F(EngineThread, ListenersSubmitAndCancel) {
  engine::Engine engine(runner_, tokenizer_, {});
  Outcome first, second;
  engine::Listener again = listener_of(first);
  const auto end = again.on_end;
  again.on_end = [&](const engine::Result& result) {
    end(result);
    const auto id = engine.submit(request(4, -1, 9), listener_of(second));
    engine.cancel(id);
    EXPECT_EQ(engine.stats().waiting, 1) << "what has just come";
    EXPECT_EQ(engine.stats().running, 1) << "as of the last step";
  };
  engine.submit(request(4, 3), std::move(again));
  ASSERT_TRUE(engine.wait_until_idle(seconds(60)));
  EXPECT_EQ(first.tokens.size(), 3u);
  EXPECT_EQ(second.result.reason, engine::StopReason::cancelled);
}

TEST_F(EngineThread, EachOfFourHundredCallersGetsItsOwn) {
  constexpr size_t kCallers = 400;
  std::vector<std::vector<int32_t>> alone;
  for (int32_t kind = 0; kind < 4; ++kind) {
    alone.push_back(run_alone(runner_, tokenizer_, request(10 + 20 * kind, 12, 3 + kind)).tokens);
  }
  std::vector<Outcome> outcomes(kCallers);
  std::atomic<int64_t> busy = 0, ends = 0;
  engine::BatcherOptions options;
  options.max_running = 16;
  options.max_waiting = 300;
  engine::Engine engine(runner_, tokenizer_, options);
  std::vector<std::thread> callers;
  for (size_t i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      engine::Listener listener = listener_of(outcomes[i]);
      listener.on_end = [&ends, end = listener.on_end](const engine::Result& result) {
        end(result);
        ++ends;
      };
      const auto kind = static_cast<int32_t>(i % 4);
      try {
        const auto id = engine.submit(request(10 + 20 * kind, 12, 3 + kind), listener);
        if (i % 5 == 0) engine.cancel(id);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::busy);
        ++busy;
      }
      engine.stats();
    });
  }
  for (auto& caller : callers) caller.join();
  ASSERT_TRUE(engine.wait_until_idle(seconds(120)));
  EXPECT_EQ(ends + busy, static_cast<int64_t>(kCallers));
  EXPECT_LT(busy, 100);
  for (size_t i = 0; i < kCallers; ++i) {
    const Outcome& outcome = outcomes[i];
    if (!outcome.ended) continue;
    EXPECT_FALSE(outcome.result.error);
    const auto& expected = alone[i % 4];
    if (outcome.result.reason == engine::StopReason::cancelled) {
      EXPECT_EQ(i % 5, 0u);
      EXPECT_TRUE(std::equal(outcome.tokens.begin(), outcome.tokens.end(), expected.begin()));
    } else {
      EXPECT_EQ(outcome.tokens, expected) << i;
    }
  }
  EXPECT_EQ(available_pages(), pages_);
}

TEST_F(EngineThread, AnEngineOutlivesListenersThatThrowAlsoAtItsEnd) {
  std::atomic<int> ends[3] = {};
  {
    engine::Engine engine(runner_, tokenizer_, {});
    const auto listener = [&](size_t i) {
      return engine::Listener{{}, [&ends, i](const engine::Result&) {
                                ++ends[i];
                                throw std::bad_alloc();
                              }};
    };
    engine.submit(request(4, 2), listener(0));
    while (ends[0] == 0) std::this_thread::yield();
    engine.submit(request(4, -1), listener(1));
    engine.submit(request(4, -1), listener(2));
  }
  EXPECT_EQ(ends[0], 1);
  EXPECT_EQ(ends[1], 1);
  EXPECT_EQ(ends[2], 1);
}

TEST_F(EngineThread, EndsWhatIsLeftWithItself) {
  Outcome running, queued;
  {
    engine::Engine engine(runner_, tokenizer_, {});
    gate_.set(false);
    engine.submit(request(10, -1), listener_of(running));
    ASSERT_TRUE(gate_.wait_for(0));
    engine.submit(request(10, -1), listener_of(queued));
    gate_.set(true);
  }
  EXPECT_EQ(running.result.reason, engine::StopReason::cancelled);
  EXPECT_EQ(queued.result.reason, engine::StopReason::cancelled);
  EXPECT_EQ(available_pages(), pages_);
}

}  // namespace
}  // namespace minfer::test
