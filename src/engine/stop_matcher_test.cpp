// Stop strings in a stream: whole, in pieces of any size, with common beginnings. That the
// cut into pieces changes nothing is a property, tried on random texts and stops of few letters; its oracle looks at
// the whole text.
#include "engine/stop_matcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/test_support.hpp"

namespace minfer::engine {
namespace {

using ::testing::HasSubstr;

// What is shown of `text` when it comes in pieces of `size` characters.
std::string shown(const std::vector<std::string>& stops, const std::string& text, size_t size) {
  StopMatcher matcher(stops);
  std::string result;
  for (size_t at = 0; at < text.size(); at += size) result += matcher.push(text.substr(at, size));
  return result.append(matcher.finish());
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

TEST(StopMatcher, TheStopThatIsCompleteFirstCounts) {
  for (size_t size = 1; size <= 8; ++size) {
    EXPECT_EQ(shown({"cd", "bcx", "b"}, "abcd", size), "a") << size;
    EXPECT_EQ(shown({"bcd", "c"}, "abcd", size), "ab") << size;
    EXPECT_EQ(shown({"c", "abc", "bc"}, "xabcd", size), "x") << size << ": the longest of those that end together";
  }
}

// What is shown of a whole text, by the definition.
std::string shown_by_definition(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 0; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopMatcher, TheCutIntoPiecesChangesNothing) {
  const auto letters = rc::gen::element('a', 'b', 'c');
  const auto stop_lists = rc::gen::container<std::vector<std::string>>(
      rc::gen::nonEmpty(rc::gen::scale(0.06, rc::gen::container<std::string>(letters))));
  EXPECT_TRUE(rc::check([&] {
    const auto stops = *rc::gen::resize(
        80, rc::gen::suchThat(stop_lists, [](const auto& list) { return list.size() <= StopMatcher::kMaxStops; }));
    const auto text = *rc::gen::container<std::string>(letters);
    StopMatcher matcher(stops);
    std::string result;
    for (size_t at = 0; at < text.size();) {
      const size_t size = *rc::gen::inRange<size_t>(1, 8);
      result += matcher.push(text.substr(at, size));
      at += size;
    }
    result += matcher.finish();
    const std::string expected = shown_by_definition(stops, text);
    RC_TAG(matcher.stopped() ? "stopped" : "went through");
    RC_ASSERT(result == expected);
    RC_ASSERT(shown(stops, text, std::max<size_t>(text.size(), 1)) == expected);
  }));
}

TEST(StopMatcher, RefusesAnEmptyStopAndTooMany) {
  EXPECT_EQ(error_of([] { StopMatcher({"a", ""}); }),
            "invalid_input: a stop string is empty; expected at least one character");
  const std::vector<std::string> most(StopMatcher::kMaxStops, "a");
  EXPECT_EQ(error_of([&] { StopMatcher{most}; }), "no error");
  std::vector<std::string> more = most;
  more.emplace_back("b");
  EXPECT_EQ(error_of([&] { StopMatcher{more}; }), "invalid_input: 65 stop strings; expected at most 64");
  EXPECT_EQ(error_of([] { StopMatcher({std::string(4096, 'a')}); }), "no error");
  EXPECT_EQ(error_of([] { StopMatcher({std::string(4097, 'a')}); }),
            "invalid_input: a stop string has 4097 bytes; the limit is 4096");
}

}  // namespace
}  // namespace minfer::engine
