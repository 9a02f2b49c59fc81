// UTF-8: which sequences are whole, incomplete or malformed (the edges of the Unicode standard's table 3-7), and
// writing.
#include "base/utf8.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace minfer {
namespace {

TEST(Utf8, WholeCharacters) {
  for (const char* text : {"", "a", "\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x90\x80\x80",
                           "\xF4\x8F\xBF\xBF", "abcdefgh\xC3\xA9ijklmnopq"}) {
    EXPECT_EQ(find_malformed_utf8(text), std::string_view::npos) << text;
  }
  const Utf8Step step = utf8_step("a\xE2\x82\xAC", 1);
  EXPECT_EQ(step.status, Utf8Status::whole);
  EXPECT_EQ(step.size_bytes, 3u);
  EXPECT_EQ(step.character, U'\u20AC');
}

TEST(Utf8, MalformedBytesAreFound) {
  for (const char* bad :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82",
        "\xE2\x82(", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(find_malformed_utf8(bad), 0u) << bad;
    EXPECT_EQ(find_malformed_utf8(std::string("0123456789") + bad + "x"), 10u) << bad;
  }
}

TEST(Utf8, TellsPrefixesFromMalformedParts) {
  const auto step_of = [](std::string_view text) {
    const Utf8Step step = utf8_step(text, 0);
    return std::pair(step.status, step.size_bytes);
  };
  EXPECT_EQ(step_of("\xF0\x9F\x98"), std::pair(Utf8Status::incomplete, size_t{3}));
  EXPECT_EQ(step_of("\xE2"), std::pair(Utf8Status::incomplete, size_t{1}));
  EXPECT_EQ(step_of("\xF0\x9F\x98x"), std::pair(Utf8Status::malformed, size_t{3}));
  EXPECT_EQ(step_of("\xED\xA0\x80"), std::pair(Utf8Status::malformed, size_t{1}));
}

TEST(Utf8, WritesWhatItReads) {
  for (const char32_t character :
       {U'\0', U'\x7F', U'\x80', U'\u07FF', U'\u0800', U'\uFFFF', U'\U00010000', U'\U0010FFFF'}) {
    std::string text;
    append_utf8(text, character);
    const Utf8Step step = utf8_step(text, 0);
    EXPECT_EQ(step.status, Utf8Status::whole);
    EXPECT_EQ(step.size_bytes, text.size());
    EXPECT_EQ(step.character, character);
  }
}

}  // namespace
}  // namespace minfer
