// Constraints: the automaton that waits for the end of reasoning, and the cache of compiled grammars.
#include "server/openai/constraint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/grammar/naive_match_testing.hpp"
#include "server/openai/test_support.hpp"

namespace minfer::server::openai {
namespace {

using engine::grammar::AstBuilder;
using engine::grammar::naive_match;
using test::failure_of;
using ::testing::HasSubstr;

engine::grammar::Ast after_mark(std::string_view mark, std::string_view rest) {
  AstBuilder builder;
  const auto node = add_after_mark(builder, mark, builder.literal(rest));
  const auto root = builder.declare("root");
  builder.define(root, node);
  return std::move(builder).finish(root);
}

TEST(AfterMark, TakesAnyTextUpToTheFirstMark) {
  const auto ast = after_mark("</think>", "{}");
  EXPECT_TRUE(naive_match(ast, "</think>{}"));
  EXPECT_TRUE(naive_match(ast, "é <<</</think <b></think>{}"));
  EXPECT_FALSE(naive_match(ast, "hm{}"));
  EXPECT_FALSE(naive_match(ast, "</think>"));
  EXPECT_FALSE(naive_match(ast, "a</think>b</think>{}")) << "nothing but the rest may follow the first mark";
}

TEST(AfterMark, MarksThatOverlapThemselves) {
  const auto ast = after_mark("aab", "!");
  EXPECT_TRUE(naive_match(ast, "aaaab!"));
  EXPECT_TRUE(naive_match(ast, "abaab!"));
  EXPECT_FALSE(naive_match(ast, "aab aab!"));
}

Constraint gbnf(std::string text) {
  Constraint constraint;
  constraint.kind = Constraint::Kind::gbnf;
  constraint.gbnf = std::move(text);
  constraint.param = "grammar";
  return constraint;
}

TEST(GrammarCache, CompilesATextOnce) {
  const test::TestModel model;
  GrammarCache cache(engine::grammar::make_token_table(model.tokenizer));
  const chat::OutputFormat format;
  const auto first = cache.find(gbnf("root ::= \"a\""), {}, format, false);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(cache.find(gbnf("root ::= \"a\""), {}, format, false), first);
  EXPECT_NE(cache.find(gbnf("root ::= \"b\""), {}, format, false), first);
  EXPECT_EQ(cache.find({}, {}, format, false), nullptr);
  for (size_t i = 0; i < kMostGrammars - 1; ++i) {
    cache.find(gbnf(fmt::format("root ::= \"a{}\"", i)), {}, format, false);
    EXPECT_EQ(cache.find(gbnf("root ::= \"a\""), {}, format, false), first) << "used often, kept";
  }
  const std::weak_ptr<const engine::grammar::Grammar> dropped = cache.find(gbnf("root ::= \"a1\""), {}, format, false);
  for (size_t i = 0; i < kMostGrammars; ++i) cache.find(gbnf(fmt::format("root ::= \"c{}\"", i)), {}, format, false);
  EXPECT_TRUE(dropped.expired());
}

TEST(GrammarCache, ErrorsNameTheField) {
  const test::TestModel model;
  GrammarCache cache(engine::grammar::make_token_table(model.tokenizer));
  EXPECT_THAT(failure_of([&] { cache.find(gbnf("root ::= \"a"), {}, {}, false); }),
              HasSubstr("400 grammar invalid_schema: grammar: "));
}

}  // namespace
}  // namespace minfer::server::openai
