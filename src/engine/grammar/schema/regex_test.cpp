// Patterns, their automata, and the rules written of them: each must accept the same texts.
#include "engine/grammar/schema/regex.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "engine/grammar/naive_match_testing.hpp"
#include "engine/grammar/schema/dfa.hpp"

namespace minfer::engine::grammar::schema {
namespace {

using testing::HasSubstr;

RegexId searched(RegexPool& pool, std::string_view pattern, bool widest = false) {
  return pool.concat(pool.any_text(), pool.concat(parse_pattern(pool, pattern, widest, "#/pattern"), pool.any_text()));
}

// What derivatives, the automaton and its rules say, which must be the same.
bool matches(std::string_view pattern, std::string_view text) {
  RegexPool pool;
  const RegexId regex = searched(pool, pattern);
  const bool by_derivatives = pool.matches(regex, text);
  const std::optional<Dfa> dfa = make_dfa(pool, regex);
  if (!dfa || dfa->states.empty()) {
    EXPECT_TRUE(dfa.has_value()) << pattern;
    return by_derivatives;
  }
  AstBuilder builder;
  const RuleId root = builder.declare("root");
  const WriteClass write = [](AstBuilder& to, const std::vector<CodeRange>& ranges) { return to.code_class(ranges); };
  builder.define(root, add_dfa(builder, *dfa, write, "!", "pattern"));
  const Ast ast = std::move(builder).finish(root);
  EXPECT_EQ(naive_match(ast, std::string(text) + "!"), by_derivatives) << pattern << " on " << text;
  return by_derivatives;
}

TEST(Regex, MatchesAsEcmaAndPythonDo) {
  struct Case {
    const char* pattern;
    std::vector<const char*> yes;
    std::vector<const char*> no;
  };
  const std::vector<Case> cases = {
      {"^abc$", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"b+", {"b", "abba", "xb"}, {"", "a"}},
      {"^a|b$", {"a", "ax", "xb", "b"}, {"", "xa", "bx"}},
      {"^(a|b$)", {"ax", "b"}, {"bx", "xa"}},
      {"(^|x)a", {"a", "ab", "qxa"}, {"qa", ""}},
      {"(^a|b){2}", {"ab", "bb", "xbbx"}, {"aa", "a", "xab"}},
      {"^[a-c\\d_-]{2,3}$", {"a1", "_-c"}, {"a", "a1b2", "d1"}},
      {"^[^a-y\\W]$", {"z", "A", "5", "_"}, {"a", "-", ""}},
      {"^\\w+\\s\\S$", {"ab \xC3\xA9", "a\tb"}, {"a b ", "\xC3\xA9 b"}},
      {"^(?:ab?)*?c{0}$", {"", "a", "ab", "aab"}, {"b", "c"}},
      {"^\\x41\\u00e9\\.\\/\\\\[\\]\\b]$", {"A\xC3\xA9./\\]", "A\xC3\xA9./\\\b"}, {"A\xC3\xA9./\\x"}},
      {"^a.c$",
       {"abc",
        "a\xE2\x82\xAC"
        "c"},
       {"a\nc", "ac", "a\rc"}},
      {"^(?<year>\\d{4})-(0[1-9]|1[0-2])$", {"2024-12"}, {"2024-13", "24-12"}},
      {"", {"", "x"}, {}},
      {"a$b", {}, {"ab", "a"}},
      {"^(a*b*)*$", {"", "abab", "ba"}, {"c"}},
      {"^[\\D]$", {"a", "\xC3\xA9"}, {"1", "\xD9\xA3"}},
  };
  for (const Case& one : cases) {
    for (const char* text : one.yes) {
      EXPECT_TRUE(matches(one.pattern, text)) << one.pattern << " on " << text;
    }
    for (const char* text : one.no) {
      EXPECT_FALSE(matches(one.pattern, text)) << one.pattern << " on " << text;
    }
  }
}

TEST(Regex, TheWidestMeaningCoversBothDialects) {
  RegexPool pool;
  EXPECT_TRUE(pool.matches(searched(pool, "^\\d$", true), "\xD9\xA3"));     // an Arabic digit, which Python takes
  EXPECT_TRUE(pool.matches(searched(pool, "^a$", true), "a\n"));            // likewise
  EXPECT_TRUE(pool.matches(searched(pool, "^[^\\w]$", true), "\xC3\xA9"));  // JavaScript takes it
  EXPECT_FALSE(pool.matches(searched(pool, "^[^\\w]$", false), "\xC3\xA9"));
  EXPECT_FALSE(pool.matches(searched(pool, "^\\d$", true), "a"));
}

TEST(Regex, RefusesByName) {
  RegexPool pool;
  const auto error = [&](std::string_view pattern, ErrorCode code) -> std::string {
    try {
      parse_pattern(pool, pattern, false, "#/properties/a/pattern");
    } catch (const Error& caught) {
      EXPECT_EQ(caught.code(), code) << pattern;
      return caught.what();
    }
    return "no error";
  };
  EXPECT_THAT(error("(?=a)", ErrorCode::unsupported),
              HasSubstr("#/properties/a/pattern: the regular expression '(?=a)' has a lookahead"));
  EXPECT_THAT(error("(?<!a)", ErrorCode::unsupported), HasSubstr("lookbehind"));
  EXPECT_THAT(error("(a)\\1", ErrorCode::unsupported), HasSubstr("backreference at byte 4"));
  EXPECT_THAT(error("\\bword", ErrorCode::unsupported), HasSubstr("word boundary"));
  EXPECT_THAT(error("\\p{L}", ErrorCode::unsupported), HasSubstr("Unicode property"));
  EXPECT_THAT(error("(?i)a", ErrorCode::unsupported), HasSubstr("flags"));
  EXPECT_THAT(error("\\q", ErrorCode::unsupported), HasSubstr("unknown escape"));
  for (const char* pattern :
       {"(a", "a)", "[a", "a**", "*a", "a{2,1}", "a{x}", "[b-a]", "[]", "a\\", "\\x4", "a{,3}", "[\\d-z]"}) {
    EXPECT_THAT(error(pattern, ErrorCode::invalid_input), HasSubstr("at byte")) << pattern;
  }
  EXPECT_THAT(error("a{99999999}", ErrorCode::invalid_input), HasSubstr("repeats more than"));
  EXPECT_THAT(error(std::string(5000, 'a'), ErrorCode::invalid_input), HasSubstr("5000 bytes"));
  EXPECT_THAT(error(std::string(200, '(') + std::string(200, ')'), ErrorCode::invalid_input),
              HasSubstr("groups inside each other"));
}

TEST(Dfa, IntersectsAndInverts) {
  RegexPool pool;
  const RegexId word = searched(pool, "^[a-z]+$");
  const RegexId names = pool.either({pool.literal("if"), pool.literal("in")});
  const RegexId length = pool.repeat(pool.chars({{0, 0xD7FF}, {0xE000, 0x10FFFF}}), 2, 3);
  const std::optional<Dfa> dfa = make_dfa(pool, pool.both({word, pool.inverse(names), length}));
  ASSERT_TRUE(dfa);
  EXPECT_EQ(lengths(*dfa).least, 2u);
  EXPECT_EQ(lengths(*dfa).most, 3u);
  const RegexId regex = pool.both({word, pool.inverse(names), length});
  EXPECT_TRUE(pool.matches(regex, "is"));
  EXPECT_TRUE(pool.matches(regex, "ifs"));
  EXPECT_FALSE(pool.matches(regex, "if"));
  EXPECT_FALSE(pool.matches(regex, "i"));
  EXPECT_FALSE(pool.matches(regex, "four"));
  const std::optional<Dfa> never = make_dfa(pool, pool.both({word, pool.literal("A")}));
  ASSERT_TRUE(never);
  EXPECT_TRUE(never->states.empty());
  const std::optional<Dfa> loop = make_dfa(pool, word);
  EXPECT_EQ(loop->states.size(), 2u);
  EXPECT_FALSE(lengths(*loop).most);
  EXPECT_FALSE(make_dfa(pool, searched(pool, "a[ab]{20}$")));
}

}  // namespace
}  // namespace minfer::engine::grammar::schema
