// Unit tests of the pre-tokenizer rules: what each kind of rule cuts, and that no rule takes more than linear time or
// constant stack, whatever the text. The pieces themselves are compared with the published expressions, on an engine of
// another make, by tests/tokenizer.
#include "tokenizer/pretokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <set>
#include <string>

#include "base/error.hpp"

namespace minfer::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> pieces(std::string_view rule, std::string_view text) {
  const Pretokenizer pretokenizer(find_pretokenizer_rule(rule));
  Pretokenizer::Scratch scratch;
  const auto found = pretokenizer.split(text, scratch);
  return {found.begin(), found.end()};
}

TEST(PreRules, NamesAreUniqueAndUnknownOnesAreRefused) {
  std::set<std::string_view> names;
  for (const PretokenizerRule& rule : pretokenizer_rules()) {
    for (const std::string_view name : rule.names) EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_GE(names.size(), 90u);
  try {
    find_pretokenizer_rule("zebra");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("'zebra'"));
    EXPECT_THAT(error.what(), HasSubstr("'kimi-k2'"));
    EXPECT_THAT(error.what(), HasSubstr("--pre NAME"));
  }
}

TEST(PreRules, Words) {
  EXPECT_THAT(pieces("gpt-2", ""), IsEmpty());
  EXPECT_THAT(pieces("gpt-2", "I've  12 x"), ElementsAre("I", "'ve", " ", " 12", " x"));
  EXPECT_THAT(pieces("smollm", "a12"), ElementsAre("a", "1", "2"));
  EXPECT_THAT(pieces("llama-bpe", "I'VE 1234\n\n x"), ElementsAre("I", "'VE", " ", "123", "4", "\n\n", " x"));
  EXPECT_THAT(pieces("qwen2", "12e\xCC\x81"), ElementsAre("1", "2", "e", "\xCC\x81"));
  EXPECT_THAT(pieces("qwen35", "e\xCC\x81x"), ElementsAre("e\xCC\x81x"));
  EXPECT_THAT(pieces("gpt-4o", "camelCase HTTPServer's/\n"), ElementsAre("camel", "Case", " HTTPServer's", "/\n"));
  EXPECT_THAT(pieces("tekken", "FOObar 12"), ElementsAre("FOObar", " ", "1", "2"));
  EXPECT_THAT(pieces("exaone-moe", "one two  three"), ElementsAre("one two", " ", " three"));
  EXPECT_THAT(pieces("bloom", "a(b), c"), ElementsAre("a", "(", "b", "),", " c"));
  EXPECT_THAT(pieces("deepseek-llm", "x  \n  y  "), ElementsAre("x", "  ", "\n", " ", " y", "  "));
  EXPECT_THAT(pieces("deepseek-v3", "a.b 1234"), ElementsAre("a", ".b", " ", "123", "4"));
  EXPECT_THAT(pieces("chameleon", "<sentinel:12>IMGIMGABZ  "),
              ElementsAre("<", "sentinel", ":", "1", "2", ">", "IMGIMGABZ", "  "));
  EXPECT_THAT(pieces("whitespace", " a  b\n"), ElementsAre("a", "b"));
  EXPECT_THAT(pieces("gemma4", "a b\n\nc"), ElementsAre("a b", "\n\n", "c"));
}

TEST(PreRules, KimiKeepsHanApart) {
  const std::string han = "\xE4\xB8\xAD";   // U+4E2D
  const std::string kana = "\xE3\x81\x82";  // U+3042, a letter without case
  const std::string mark = "\xE3\x80\x85";  // U+3005, a modifier letter of the script Han
  EXPECT_THAT(pieces("kimi-k2", "a" + han + mark + "b's"), ElementsAre("a", han + mark, "b's"));
  EXPECT_THAT(pieces("kimi-k2", kana + "AB"), ElementsAre(kana, "AB"));
  EXPECT_THAT(pieces("kimi-k2", kana + "ABc" + kana), ElementsAre(kana + "ABc" + kana));
  EXPECT_THAT(pieces("kimi-k2", " FOO 1234"), ElementsAre(" FOO", " ", "123", "4"));
}

TEST(PreRules, ThreesOfDigits) {
  EXPECT_THAT(pieces("superbpe", "x 1234567y"), ElementsAre("x ", "1", "234", "567", "y"));
  EXPECT_THAT(pieces("afmoe", "ab1234c123"), ElementsAre("ab", "1", "234", "c", "123"));
  EXPECT_THAT(pieces("tiny_aya", "12345 12345a"), ElementsAre("12", "345", " ", "123", "45", "a"));
  EXPECT_THAT(pieces("default", "1234.5"), ElementsAre("123", "4", ".", "5"));
}

// Half a MB of one thing, for every rule: what is not linear would take minutes, what is recursive would end the
// program.
TEST(PreRules, HostileTextsTakeLinearTime) {
  constexpr size_t kBytes = size_t{1} << 19;
  constexpr double kLimitSeconds = 10;  // of the processor's time
  for (const PretokenizerRule& rule : pretokenizer_rules()) {
    const Pretokenizer pretokenizer(rule);
    Pretokenizer::Scratch scratch;
    for (const std::string_view unit : {"a",
                                        "A",
                                        "a ",
                                        "A ",
                                        "aA",
                                        "Aa",
                                        " ",
                                        "\n",
                                        " \n",
                                        "\t ",
                                        "7",
                                        "7.",
                                        "7a",
                                        "!",
                                        "! ",
                                        "'",
                                        "'s",
                                        "\xCC\x81",
                                        "\xE4\xB8\xAD",
                                        "\xE3\x81\x82",
                                        "\xE3\x81\x82"
                                        "A",
                                        "\xE2\x85\xA7",
                                        "\xC2\xA0",
                                        "<sentinel:1",
                                        "IMGIMGA",
                                        "\xF0\x9F\x98\x80",
                                        "\xD9\xA3"}) {
      std::string text;
      while (text.size() < kBytes) text += unit;
      for (const std::string_view last : {"", "x"}) {
        const std::string whole = text + std::string(last);
        const std::clock_t start = std::clock();
        size_t bytes = 0;
        for (const std::string_view piece : pretokenizer.split(whole, scratch)) bytes += piece.size();
        const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
        EXPECT_LT(seconds, kLimitSeconds) << rule.names[0] << " " << unit << "+" << last;
        EXPECT_TRUE(rule.drops_space || bytes == whole.size()) << rule.names[0];
      }
    }
  }
}

}  // namespace
}  // namespace minfer::tokenizer
