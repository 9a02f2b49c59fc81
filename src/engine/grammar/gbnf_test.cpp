// GBNF: what texts are read as, by what they match; and the words of its errors.
#include "engine/grammar/gbnf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "engine/grammar/byte_tokens_testing.hpp"
#include "engine/grammar/grammar.hpp"
#include "engine/grammar/grammar_oracle.hpp"
#include "engine/grammar/token_table.hpp"

namespace minfer::engine::grammar {
namespace {

using testing::HasSubstr;

// Whether the whole text matches, asked of the automaton and, where the text is short, of the definition.
bool matches(const std::string& grammar, std::string_view text) {
  const Ast ast = parse_gbnf(grammar, "test");
  Matcher matcher(compile(ast, byte_tokens()));
  bool all = true;
  for (size_t i = 0; i < text.size() && all; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    all = (matcher.mask()[byte / 32U] >> (byte % 32U) & 1) != 0;
    if (all) matcher.accept(byte);
  }
  all = all && matcher.is_complete();
  EXPECT_EQ(GrammarOracle(ast).matches(text), all) << text;
  return all;
}

void expect_matches(const std::string& grammar, const std::vector<std::string>& good,
                    const std::vector<std::string>& bad) {
  for (const std::string& text : good) EXPECT_TRUE(matches(grammar, text)) << text;
  for (const std::string& text : bad) EXPECT_FALSE(matches(grammar, text)) << text;
}

std::string error_of(const std::string& text) {
  try {
    parse_gbnf(text, "my.gbnf");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Gbnf, ReadsEveryPart) {
  expect_matches("root ::= \"a\\n\\x41\\u00e9\\U0001F600\\\"\\\\\"", {"a\nA\xC3\xA9\xF0\x9F\x98\x80\"\\"}, {"a", ""});
  expect_matches("root ::= [a-c] [^a-c] [\\]\\-x-] [-+] .", {"ad]--", "b\xE2\x82\xACx+\xC3\xA9", "cz--\n"},
                 {"aa]-x", "ad]-", "ad]-xy", "ada-x"});
  expect_matches("root ::= \"a\"? \"b\"* \"c\"+", {"c", "abbcc", "bc"}, {"", "ab", "aac"});
  expect_matches("root ::= \"a\"{2} \"b\"{1,} \"c\"{0,2} \"d\"{,1}", {"aab", "aabbbccd"},
                 {"ab", "aa", "aabccc", "aabdd"});
  expect_matches("root ::= (\"a\" | \"b\" \"c\" |)\n  # a remark\n\nother ::= \"x\" # another", {"", "a", "bc"},
                 {"b", "x"});
  expect_matches("root ::= (\n \"a\" |\n  \"b\"\n)\n", {"a", "b"}, {""});
  expect_matches("root ::=\n  \"a\" |\n  \"b\"", {"a", "b"}, {""});
  expect_matches("root ::= x-1 x_2\r\nx-1 ::= \"1\"\r\nx_2::=\"2\"", {"12"}, {"1"});
  expect_matches("root ::= \"a\"{2}{3} \"b\"?*", {"aaaaaa", "aaaaaabb"}, {"aaaaa"});
  expect_matches("root ::= [^]{2}", {"a\xC3\xA9"}, {"a"});
}

TEST(Gbnf, JsonAndArithmetic) {
  expect_matches(
      "root ::= object\n"
      "value ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
      "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\" ws\n"
      "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
      "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}))* \"\\\"\" ws\n"
      "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws\n"
      "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
      {"{}", "{ \"a\": [1, -2.5e3, {\"b\": null}], \"\\u00e9\\n\": \"\xC3\xA9\"}", "{\"a\":{\"a\":{\"a\":[[[]]]}}}"},
      {"", "[]", "{\"a\"}", "{\"a\": 01}", "{\"a\": \"\n\"}", "{\"a\": 1,}"});
  expect_matches(
      "root ::= (expr \"=\" ws term \"\\n\")+\n"
      "expr ::= term ([-+*/] ws term)*\n"
      "term ::= ident | num | \"(\" ws expr \")\" ws\n"
      "ident ::= [a-z] [a-z0-9_]* ws\n"
      "num ::= [0-9]+ ws\n"
      "ws ::= [ \\t\\n]*\n",
      {"1 + 2 = 3\n", "(a1 * (b - 4)) / 2= x\ny = 1\n"}, {"1 + = 2\n", "1 = 2", "(1 = 2\n"});
}

TEST(Gbnf, MovesOfChessAndLists) {
  expect_matches(
      "root ::= \"1. \" move \" \" move \"\\n\" ([1-9] [0-9]? \". \" move \" \" move \"\\n\")+\n"
      "move ::= (pawn | piece | castle) [+#]?\n"
      "piece ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\n"
      "pawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBQR])?\n"
      "castle ::= \"O-O\" \"-O\"?\n",
      {"1. e4 e5\n2. Nf3 O-O-O+\n", "1. exd5 Nbxd2\n10. a8=Q# O-O\n"}, {"1. e4 e5\n", "1. e9 e5\n2. a1 a2\n"});
  expect_matches("root ::= item+\nitem ::= \"- \" [^\\r\\n]+ \"\\n\"", {"- a\n- \xE2\x82\xAC b\n"},
                 {"- \n", "-a\n", ""});
}

TEST(Gbnf, ErrorsNameTheLine) {
  EXPECT_THAT(error_of("root ::= \"a\" )"), HasSubstr("my.gbnf, line 1: found ')'; expected the end of the rule"));
  EXPECT_THAT(error_of("root ::= a\n\nb ::= \"x\" c\na ::= \"y\""),
              HasSubstr("line 3: the rule 'c' is not defined; write c ::= ..."));
  EXPECT_THAT(error_of("a ::= \"x\""), HasSubstr("there is no rule 'root'"));
  EXPECT_THAT(error_of(""), HasSubstr("there is no rule 'root'"));
  EXPECT_THAT(error_of("root ::= \"x\"\n\nroot ::= \"y\""),
              HasSubstr("line 3: the rule 'root' is defined already, in line 1"));
  EXPECT_THAT(error_of("root = \"x\""), HasSubstr("line 1: found '= \"x\"'; expected ::="));
  EXPECT_THAT(error_of("root ::= \"x"), HasSubstr("a literal has no end"));
  EXPECT_THAT(error_of("root ::= [a-"), HasSubstr("a character class has no end"));
  EXPECT_THAT(error_of("root ::= [b-a]"), HasSubstr("falls"));
  EXPECT_THAT(error_of("root ::= []"), HasSubstr("an empty character class"));
  EXPECT_THAT(error_of("root ::= \"\\q\""), HasSubstr("expected an escape"));
  EXPECT_THAT(error_of("root ::= \"\\u12\""), HasSubstr("4 hexadecimal digits"));
  EXPECT_THAT(error_of("root ::= \"\\ud800\""), HasSubstr("the number of a character"));
  EXPECT_THAT(error_of("root ::= \"a\"{3,2}"), HasSubstr("a repetition of 3 to 2 times"));
  EXPECT_THAT(error_of("root ::= \"a\"{99999999999999999999}"), HasSubstr("more than 1048576 times"));
  EXPECT_THAT(error_of("root ::= \"a\"{x}"), HasSubstr("a number of repetitions"));
  EXPECT_THAT(error_of("root ::= (\"a\""), HasSubstr("found the end of the text; expected ')'"));
  EXPECT_THAT(error_of("root ::= \"a\" | <think>"), HasSubstr("are not supported"));
  EXPECT_THAT(error_of("root ::= \"\xFF\""), HasSubstr("not UTF-8"));
  EXPECT_THAT(error_of("root ::= \"a\" \"b\"\n \"c\""), HasSubstr("line 2: found '\"c\"'; expected a rule"));
}

}  // namespace
}  // namespace minfer::engine::grammar
