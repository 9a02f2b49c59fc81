// The thread for long tasks: order, the limit on what waits, clients that go, and the end.
#include "server/openai/task_thread.hpp"

#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "server/openai/test_support.hpp"

namespace minfer::server::openai {
namespace {

// A thread that is busy until it is told to go on.
struct Busy {
  std::promise<void> started;
  std::promise<void> go_on;
  std::vector<int> ran;
  std::vector<int> refused;
  TaskThread thread{2, "a turn"};

  Busy() {
    thread.put(std::make_shared<test::RecordingResponder>(), "",
               {[this] {
                  started.set_value();
                  go_on.get_future().wait();
                },
                [] {}});
    started.get_future().wait();
  }
  std::shared_ptr<test::RecordingResponder> put(int number) {
    auto client = std::make_shared<test::RecordingResponder>();
    thread.put(client, "field",
               {[this, number] { ran.push_back(number); }, [this, number] { refused.push_back(number); }});
    return client;
  }
  // After all that waits now.
  void finish() {
    go_on.set_value();
    std::promise<void> done;
    thread.put(std::make_shared<test::RecordingResponder>(), "", {[&] { done.set_value(); }, [] {}});
    done.get_future().wait();
  }
};

TEST(TaskThread, RunsInOrder) {
  Busy busy;
  busy.put(1);
  busy.finish();
  EXPECT_EQ(busy.ran, std::vector<int>({1}));
}

TEST(TaskThread, AClientThatGoesLeavesItsPlace) {
  Busy busy;
  const auto first = busy.put(1);
  const auto second = busy.put(2);
  try {
    busy.put(3);
    FAIL() << "a third one waits";
  } catch (const ApiFailure& failure) {
    EXPECT_EQ(failure.error().status, 429);
    EXPECT_EQ(failure.error().message, "2 requests wait for a turn; the limit is 2");
    EXPECT_EQ(failure.error().param, "field");
  }
  first->gone();
  const auto fourth = busy.put(4);
  second->gone();
  busy.finish();
  EXPECT_EQ(busy.ran, std::vector<int>({4}));
  fourth->gone();  // it was answered
}

TEST(TaskThread, OneThatIsGoneAlreadyWaitsForNothing) {
  class Gone : public test::RecordingResponder {
    void on_gone(std::function<void()> callback) override { callback(); }
  };
  Busy busy;
  busy.thread.put(std::make_shared<Gone>(), "", {[&busy] { busy.ran.push_back(1); }, [] {}});
  busy.finish();
  EXPECT_TRUE(busy.ran.empty());
}

TEST(TaskThread, RefusesWhatWaitsAtTheEndAndWhatComesAfter) {
  Busy busy;
  const auto waiting = busy.put(1);
  auto stopping = std::async(std::launch::async, [&busy] { busy.thread.stop(); });
  busy.go_on.set_value();
  stopping.get();
  busy.put(2);
  waiting->gone();
  EXPECT_EQ(busy.ran.size() + busy.refused.size(), 2U);
  EXPECT_EQ(busy.refused.back(), 2);
}

}  // namespace
}  // namespace minfer::server::openai
