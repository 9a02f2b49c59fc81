// Stop strings in a stream: whole, in pieces of any size, with common beginnings.
#include "engine/stop_matcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace minfer::engine {
namespace {

using ::testing::HasSubstr;

template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return std::string(error_code_name(error.code())) + ": " + error.what();
  }
  return "no error";
}

// What is shown of `text` when it comes in pieces of `size` characters.
std::string shown(const std::vector<std::string>& stops, const std::string& text, size_t size) {
  StopMatcher matcher(stops);
  std::string result;
  for (size_t at = 0; at < text.size(); at += size) result += matcher.push(text.substr(at, size));
  return result + matcher.finish();
}

TEST(StopMatcher, ShowsAllWithoutStops) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.finish(), "");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, HoldsBackWhatCouldBeginAStop) {
  StopMatcher matcher({"STOP"});
  EXPECT_EQ(matcher.push("one ST"), "one ");
  EXPECT_EQ(matcher.push("ART ST"), "START ");
  EXPECT_EQ(matcher.push("O"), "");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.push("P more"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("even more"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, FlushesWhatWasNoStop) {
  StopMatcher matcher({"STOP"});
  EXPECT_EQ(matcher.push("a STO"), "a ");
  EXPECT_EQ(matcher.finish(), "STO");
  EXPECT_EQ(matcher.finish(), "");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, PiecesOfAnySizeShowTheSame) {
  const std::vector<std::string> stops = {"aab", "\n\n", "</end>"};
  for (size_t size = 1; size <= 12; ++size) {
    EXPECT_EQ(shown(stops, "xaaab tail", size), "xa") << size;
    EXPECT_EQ(shown(stops, "line\n\nnext", size), "line") << size;
    EXPECT_EQ(shown(stops, "a</e</end>b", size), "a</e") << size;
    EXPECT_EQ(shown(stops, "aa\n</en", size), "aa\n</en") << size;
    EXPECT_EQ(shown(stops, "é\n\né", size), "é") << size;
  }
}

TEST(StopMatcher, TheEarliestOfSeveralStopsCounts) {
  for (size_t size = 1; size <= 8; ++size) EXPECT_EQ(shown({"cd", "bcx", "b"}, "abcd", size), "a") << size;
  // In one piece the longer one is seen to begin earlier.
  EXPECT_EQ(shown({"bcd", "c"}, "abcd", 4), "a");
}

TEST(StopMatcher, RefusesAnEmptyStopAndTooMany) {
  EXPECT_EQ(error_of([] { StopMatcher({"a", ""}); }),
            "invalid_input: a stop string is empty; expected at least one character");
  const std::vector<std::string> most(StopMatcher::kMaxStops, "a");
  EXPECT_EQ(error_of([&] { StopMatcher{most}; }), "no error");
  std::vector<std::string> more = most;
  more.emplace_back("b");
  EXPECT_EQ(error_of([&] { StopMatcher{more}; }), "invalid_input: 65 stop strings; expected at most 64");
}

}  // namespace
}  // namespace minfer::engine
