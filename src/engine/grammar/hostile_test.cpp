// Grammars that are made to hurt: each compiles and gives masks, or is refused with a reason, within the limits of
// automaton.hpp and explorer.hpp. Those bound steps and bytes, so that no clock is asked here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.hpp"
#include "engine/grammar/byte_tokens_testing.hpp"
#include "engine/grammar/compiled_grammar.hpp"
#include "engine/grammar/gbnf.hpp"

namespace minfer::engine::grammar {
namespace {

using testing::HasSubstr;

constexpr size_t kMaxBytes = size_t{64} << 20;

std::shared_ptr<const TokenTable> table() {
  return byte_tokens({"aa", "aaaa", "aaaaaaaa", "ab", "ba", "abab", "a,b", "((((", "))))"});
}

// What it is refused with, while it is compiled or at one of the tokens; empty: it goes on behind all of them.
std::string run(const Ast& ast, std::string_view text) {
  try {
    const auto grammar = compile(ast, table());
    EXPECT_LT(grammar->automaton.bytes(), kMaxBytes);
    Matcher matcher(grammar);
    for (const char c : text) {
      matcher.mask();
      matcher.accept(static_cast<uint8_t>(c));
    }
    matcher.mask();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input) << error.what();
    return error.what();
  }
  return "";
}

std::string run(const std::string& grammar, std::string_view text) {
  try {
    return run(parse_gbnf(grammar, "test"), text);
  } catch (const Error& error) {
    return error.what();
  }
}

std::string repeated(size_t count, const std::function<std::string(size_t)>& part) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += part(i);
  return out;
}

std::string times(size_t count, const std::string& part) {
  return repeated(count, [&](size_t) { return part; });
}

std::string num(size_t i) {
  return std::to_string(i);
}

TEST(Hostile, HugeRepetitionsAreCounted) {
  EXPECT_EQ(run("root ::= \"a\"{1000000} \"b\"", times(100, "a")), "");
  EXPECT_EQ(run("root ::= (((\"a\"{1000,1000000} \"b\"){1000000}){1000000}){1000000}", times(100, "a")), "");
  EXPECT_EQ(run("root ::= (\"a\"? \"b\"?){1000000} \"c\"", times(50, "ab")), "");
  EXPECT_EQ(run("root ::= ((\"a\"*)*)*", times(100, "a")), "");
  EXPECT_EQ(run("root ::= ((\"a\"{0,1000000}){0,1000000}){0,1000000} \"b\"", "a"), "");
}

TEST(Hostile, AmbiguousCountsEnd) {
  EXPECT_THAT(run("root ::= (\"a\" | \"aa\"){0,1000000} \"b\"", times(200, "a")),
              testing::AnyOf("", HasSubstr("ambig")));
  EXPECT_THAT(run("root ::= ((\"a\"{1,1000}){1,1000}){1,1000} \"b\"", times(60, "a")),
              testing::AnyOf("", HasSubstr("ambig"), HasSubstr("to go on")));
}

TEST(Hostile, CopiesOfCopiesAreTooManyStates) {
  AstBuilder builder;
  NodeId node = builder.literal("a");
  for (int i = 0; i < 200; ++i) node = builder.sequence({node, node});
  const RuleId root = builder.declare("root");
  builder.define(root, node);
  EXPECT_THAT(run(std::move(builder).finish(root), ""), HasSubstr("states"));
}

TEST(Hostile, AlternativesOfAlternatives) {
  AstBuilder builder;
  NodeId node = builder.literal("a");
  for (int i = 0; i < 200; ++i) node = builder.alternatives({node, node});
  const RuleId root = builder.declare("root");
  builder.define(root, node);
  EXPECT_THAT(run(std::move(builder).finish(root), ""), HasSubstr("edges"));
  // Rules: each is there once, and its ways to be read are one.
  const std::string rules = "root ::= r0\n" +
                            repeated(200,
                                     [](size_t i) {
                                       return "r" + num(i) + " ::= r" + num(i + 1) + " \"x\" | r" + num(i + 1) +
                                              " | r" + num(i + 1) + " r" + num(i + 1) + "\n";
                                     }) +
                            "r200 ::= \"a\" r0 \"b\" | \"a\"\n";
  EXPECT_THAT(run(rules, "aaa"), testing::AnyOf("", HasSubstr("ambig")));
}

TEST(Hostile, ManyOptionalPartsInARow) {
  EXPECT_EQ(run("root ::= " + times(200, "\"a\"? "), "aaaa"), "");
  EXPECT_THAT(run("root ::= " + times(20000, "\"a\"? "), ""), HasSubstr("edges"));
  EXPECT_THAT(run("root ::= " + times(20000, "([ab] | \"\") "), ""),
              testing::AnyOf(HasSubstr("edges"), HasSubstr("steps")));
}

TEST(Hostile, LongChainsOfRules) {
  const auto chain = [](size_t count, const std::string& before, const std::string& end) {
    return "root ::= r0\n" +
           repeated(count, [&](size_t i) { return "r" + num(i) + " ::= " + before + " r" + num(i + 1) + "\n"; }) + "r" +
           num(count) + " ::= " + end;
  };
  EXPECT_EQ(run(chain(20000, "", "\"a\" root | \"b\""), "aab"), "");
  EXPECT_EQ(run(chain(20000, "\"b\"?", "\"a\" root | \"b\""), "aab"), "");
  EXPECT_THAT(run(chain(20000, "\"b\"?", "r0"), "b"), HasSubstr("no text ever matches"));
  EXPECT_THAT(run(chain(20000, "\"b\"?", "r0 | \"c\""), "b"), HasSubstr("begins with itself"));
}

TEST(Hostile, DeepNesting) {
  EXPECT_THAT(run("root ::= " + times(100000, "(") + "\"a\"" + times(100000, ")"), ""),
              HasSubstr("nested more than 256"));
  EXPECT_THAT(run("root ::= \"a\"" + times(100000, "*"), ""), HasSubstr("more than 256 repetitions"));
  AstBuilder builder;
  NodeId node = builder.literal("a");
  for (int i = 0; i < 80000; ++i) node = builder.optional(builder.sequence({node, builder.literal("b")}));
  const RuleId root = builder.declare("root");
  builder.define(root, node);
  EXPECT_THAT(run(std::move(builder).finish(root), "ab"), testing::AnyOf("", HasSubstr("steps"), HasSubstr("edges")));
  // A text that nests as deep as it likes.
  EXPECT_EQ(run("root ::= \"(\" root \")\" | \"a\"", times(3000, "(") + "a" + times(3000, ")")), "");
}

TEST(Hostile, ManyWaysToReadAText) {
  EXPECT_THAT(run("root ::= \"a\" root root | \"a\"", times(60, "a")), testing::AnyOf("", HasSubstr("ambig")));
  EXPECT_THAT(run("root ::= s \"b\"\ns ::= \"a\" | \"a\" s | \"a\" s s | \"a\" s s s", times(60, "a")),
              testing::AnyOf("", HasSubstr("ambig")));
}

// What the answers of a grammar cost others is bounded in all, however many tokens they have.
TEST(Hostile, AnAnswerHasAnAllowance) {
  const auto grammar =
      compile(parse_gbnf("root ::= s \"b\"\ns ::= \"a\" | \"a\" s | \"a\" s s | \"a\" s s s", "test"), table());
  const auto other = compile(parse_gbnf("root ::= [ab]* \"!\"", "test"), table());
  Matcher matcher(grammar), beside(other);
  size_t tokens = 0, work = 0;
  const auto go_on = [&] {
    const size_t before = std::min(kMaxExplorerWork, grammar->work_left + kTokenWork);
    matcher.mask();
    matcher.accept('a');
    work += before - grammar->work_left;
    ++tokens;
  };
  try {
    while (tokens < 10000) {
      go_on();
      beside.accept('a');
      EXPECT_FALSE(beside.mask().empty());
    }
    FAIL() << "it takes more than any answer may";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_THAT(error.what(), HasSubstr("4194304 steps in all, or 16384 a token"));
  }
  EXPECT_GT(tokens, 5U);
  EXPECT_LE(work, kMaxExplorerWork + tokens * kTokenWork);
  // Nor does it help to ask again, or to begin anew.
  EXPECT_EQ(grammar->work_left, 0U);
  EXPECT_THROW(matcher.mask(), Error);
  EXPECT_THROW(Matcher{grammar}, Error);
  EXPECT_TRUE(is_spent(*grammar));
  EXPECT_FALSE(is_spent(*other));
  EXPECT_GT(other->work_left, kMaxExplorerWork / 2);
}

TEST(Hostile, WhatIsCheapGoesOnForEver) {
  // What a fuzzer found: many ways to read a text, and few places that they lead to.
  EXPECT_EQ(run("root ::= a a* (\"a\" | aa)*\na ::= \"a\" | \"aa\" | \"\"\naa ::= a a", times(5000, "a")), "");
  EXPECT_EQ(run("root ::= (\"a\" | \"aa\" | \"aaa\")* \"b\"", times(5000, "a")), "");
  // Tokens that the grammar forces come many in one step, and give it nothing more.
  const auto grammar = compile(parse_gbnf("root ::= \"" + times(1000, "xy") + "\"", "test"), table());
  Matcher matcher(grammar);
  for (int i = 0; i < 1000; ++i) {
    const size_t before = grammar->work_left;
    matcher.accept(matcher.forced());
    EXPECT_LT(grammar->work_left, before);
  }
}

TEST(Hostile, ManyAlternatives) {
  EXPECT_EQ(run("root ::= " + repeated(30000, [](size_t i) { return (i > 0 ? " | \"" : "\"") + num(i * 7919) + "\""; }),
                "15838"),
            "");
  EXPECT_THAT(
      run("root ::= (" + repeated(20000, [](size_t i) { return (i > 0 ? " | r" : "r") + num(i); }) + ")*\n" +
              repeated(20000, [](size_t i) { return "r" + num(i) + " ::= \"a" + num(i) + "\" root | \"b\"\n"; }),
          "a1a2"),
      testing::AnyOf("", HasSubstr("ambig"), HasSubstr("to go on")));
}

}  // namespace
}  // namespace minfer::engine::grammar
