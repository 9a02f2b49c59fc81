// The AstBuilder: the form of its nodes, and what it refuses.
#include "engine/grammar/ast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "engine/grammar/naive_match_testing.hpp"

namespace minfer::engine::grammar {

bool operator==(CodeRange a, CodeRange b) {
  return a.first == b.first && a.last == b.last;
}

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Ast finish(AstBuilder builder, NodeId node) {
  const RuleId root = builder.declare("root");
  builder.define(root, node);
  return std::move(builder).finish(root);
}

template <class Run>
std::string error_of(const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    return error.what();
  }
  return "no error";
}

TEST(AstBuilder, WritesNodesChildrenFirst) {
  AstBuilder builder;
  const NodeId a = builder.literal("a\xC3\xA9");
  const NodeId sequence = builder.sequence({a, a});
  const NodeId optional = builder.optional(sequence);
  const NodeId either = builder.alternatives({a, optional});
  const Ast ast = finish(std::move(builder), either);
  ASSERT_EQ(ast.nodes.size(), 4u);
  EXPECT_EQ(ast.nodes[a].text, "a\xC3\xA9");
  EXPECT_THAT(ast.nodes[sequence].children, ElementsAre(a, a));
  EXPECT_EQ(ast.nodes[optional].kind, NodeKind::repeat);
  EXPECT_EQ(ast.nodes[optional].least, 0u);
  EXPECT_EQ(ast.nodes[optional].most, 1u);
  EXPECT_THAT(ast.nodes[either].children, ElementsAre(a, optional));
  EXPECT_EQ(ast.rules[ast.root].node, either);
}

TEST(AstBuilder, BringsRangesIntoOneForm) {
  AstBuilder builder;
  const NodeId plain = builder.code_class({{'x', 'z'}, {'a', 'c'}, {'d', 'f'}, {'b', 'b'}});
  const NodeId negated = builder.code_class({{'b', 'y'}, {0, '`'}}, true);
  const NodeId wide = builder.code_class({{0xD000, 0xDABC}, {0xDFFF, 0xE000}});
  const NodeId all = builder.code_class({}, true);
  const Ast ast = finish(std::move(builder), plain);
  EXPECT_THAT(ast.nodes[plain].ranges, ElementsAre(CodeRange{'a', 'f'}, CodeRange{'x', 'z'}));
  EXPECT_THAT(ast.nodes[negated].ranges,
              ElementsAre(CodeRange{'a', 'a'}, CodeRange{'z', 0xD7FF}, CodeRange{0xE000, 0x10FFFF}));
  EXPECT_THAT(ast.nodes[wide].ranges, ElementsAre(CodeRange{0xD000, 0xD7FF}, CodeRange{0xE000, 0xE000}));
  EXPECT_THAT(ast.nodes[all].ranges, ElementsAre(CodeRange{0, 0xD7FF}, CodeRange{0xE000, 0x10FFFF}));
}

TEST(AstBuilder, RefusesWhatNoGrammarCanBe) {
  AstBuilder builder;
  EXPECT_THAT(error_of([&] { builder.literal("a\xC3"); }), HasSubstr("UTF-8 at its byte 1"));
  EXPECT_THAT(error_of([&] { builder.code_class({{'b', 'a'}}); }), HasSubstr("U+0062 to U+0061"));
  EXPECT_THAT(error_of([&] { builder.code_class({{'b', 0x110000}}); }), HasSubstr("ends at U+10FFFF"));
  EXPECT_THAT(error_of([&] { builder.code_class({{0, 0x10FFFF}}, true); }), HasSubstr("no character is in"));
  EXPECT_THAT(error_of([&] { builder.code_class({{0xD800, 0xD900}}); }), HasSubstr("no character is in"));
  const NodeId a = builder.literal("a");
  EXPECT_THAT(error_of([&] { builder.repeat(a, 3, 2); }), HasSubstr("of 3 to 2 times"));
  EXPECT_THAT(error_of([&] { builder.repeat(a, kMaxRepeat + 1, std::nullopt); }),
              HasSubstr("1048577 times; the limit is 1048576"));
  EXPECT_NO_THROW(builder.repeat(a, kMaxRepeat, kMaxRepeat));
  const RuleId open = builder.declare("open");
  const RuleId root = builder.declare("root");
  builder.define(root, builder.reference(open));
  EXPECT_THAT(error_of([&] { std::move(builder).finish(root); }), HasSubstr("'open' is used and not defined"));
}

TEST(AstBuilder, StopsAtItsLimits) {
  AstBuilder nodes;
  const std::string error = error_of([&] {
    for (size_t i = 0; i <= kMaxNodes; ++i) {
      nodes.sequence({});
    }
  });
  EXPECT_THAT(error, HasSubstr("more than 262144 nodes"));
  AstBuilder text;
  const std::string long_text(kMaxTextBytes / 2 + 1, 'a');
  text.literal(long_text);
  EXPECT_THAT(error_of([&] { text.literal(long_text); }), HasSubstr("more than 8388608 bytes"));
  AstBuilder lists;
  const NodeId a = lists.literal("a");
  const std::vector<NodeId> many(kMaxTextBytes / 8 + 1, a);
  lists.sequence(many);
  EXPECT_THAT(error_of([&] { lists.sequence(many); }), HasSubstr("more than 8388608 bytes"));
}

TEST(NaiveMatch, FollowsTheDefinition) {
  AstBuilder builder;
  const RuleId nested = builder.declare("nested");
  const NodeId letter = builder.code_class({{'a', 'z'}, {0xE9, 0xE9}});
  const NodeId inner = builder.alternatives({builder.reference(nested), builder.repeat(letter, 2, 3)});
  builder.define(nested, builder.sequence({builder.literal("("), builder.optional(inner), builder.literal(")")}));
  const NodeId root = builder.sequence({builder.repeat(letter, 1, std::nullopt), builder.reference(nested)});
  const Ast ast = finish(std::move(builder), root);
  for (const char* text : {"a()", "abc(ab)", "q(((abc)))", "\xC3\xA9(\xC3\xA9z)"}) {
    EXPECT_TRUE(naive_match(ast, text)) << text;
  }
  for (const char* text : {"", "()", "a(", "a(a)", "a(abcd)", "a((ab)", "a()b", "\xC3(ab)"}) {
    EXPECT_FALSE(naive_match(ast, text)) << text;
  }
}

}  // namespace
}  // namespace minfer::engine::grammar
