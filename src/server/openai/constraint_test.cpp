// Constraints: the automaton that waits for the end of reasoning, and the cache of compiled grammars. What the grammars
// match is asked of their masks, a byte a token, and of the definition.
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
using ::testing::StartsWith;

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
  EXPECT_EQ(cache.known({gbnf("root ::= \"a\""), {}, format, false}), nullptr);
  const auto first = cache.find({gbnf("root ::= \"a\""), {}, format, false});
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(cache.known({gbnf("root ::= \"a\""), {}, format, false}), first);
  EXPECT_EQ(cache.find({gbnf("root ::= \"a\""), {}, format, false}), first);
  EXPECT_NE(cache.find({gbnf("root ::= \"b\""), {}, format, false}), first);
  EXPECT_EQ(cache.find({{}, {}, format, false}), nullptr);
  for (size_t i = 0; i < kMostGrammars - 1; ++i) {
    cache.find({gbnf(fmt::format("root ::= \"a{}\"", i)), {}, format, false});
    EXPECT_EQ(cache.find({gbnf("root ::= \"a\""), {}, format, false}), first) << "used often, kept";
  }
  const std::weak_ptr<const engine::grammar::Grammar> dropped =
      cache.find({gbnf("root ::= \"a1\""), {}, format, false});
  for (size_t i = 0; i < kMostGrammars; ++i) cache.find({gbnf(fmt::format("root ::= \"c{}\"", i)), {}, format, false});
  EXPECT_TRUE(dropped.expired());
}

// Whether the tokens of `text` (a byte each) may be drawn, and end an answer.
bool may_be_answer(const std::shared_ptr<const engine::grammar::Grammar>& grammar, std::string_view text) {
  engine::grammar::Matcher matcher(grammar);
  for (const char byte : text) {
    const auto token = static_cast<unsigned char>(byte);
    if ((matcher.mask()[token / 32] >> (token % 32) & 1) == 0) return false;
    matcher.accept(token);
  }
  return matcher.is_complete();
}

struct Answers {
  explicit Answers(
      std::string_view template_source = "<think></think>{{ tools }}<tool_call>\n{\"name\": x, \"arguments\": y}")
      : cache(engine::grammar::make_token_table(model.tokenizer)),
        format(chat::detect_output_format(template_source, [](std::string_view) { return false; })) {}

  std::shared_ptr<const engine::grammar::Grammar> find(const std::string& response_format, const ToolUse& tools,
                                                       bool in_reasoning) {
    const chat::Value body = parse_body(response_format);
    Fields fields(body, "response_format", true);
    const Constraint constraint = read_response_format(fields, false);
    return cache.find({constraint, tools, answer_format(format, constraint, tools), in_reasoning});
  }

  test::TestModel model;
  GrammarCache cache;
  chat::OutputFormat format;
};

constexpr const char* kAge = R"({"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object",
    "properties": {"age": {"type": "integer"}}, "required": ["age"]}}})";

ToolUse add_tool(bool required) {
  ToolUse use;
  use.tools = {{"add", chat::value_from_json(R"({"type": "object", "properties": {"a": {"type": "integer"}},
                                                 "required": ["a"]})")}};
  use.required = required;
  return use;
}

// One request's text must not spoil the grammar for others.
TEST(GrammarCache, ASpentGrammarIsCompiledAnew) {
  const test::TestModel model;
  GrammarCache cache(engine::grammar::make_token_table(model.tokenizer));
  const GrammarWish wish{gbnf("root ::= s \"!\"\ns ::= \"a\" | \"a\" s | \"a\" s s | \"a\" s s s"), {}, {}, false};
  const auto first = cache.find(wish);
  engine::grammar::Matcher matcher(first);
  const auto letter = model.tokenizer.encode("a", {.parse_special = false, .add_special = false}).back();
  EXPECT_THROW(
      {
        for (int i = 0; i < 10000; ++i) {
          matcher.mask();
          matcher.accept(letter);
        }
      },
      Error);
  EXPECT_EQ(cache.known(wish), nullptr);
  const auto second = cache.find(wish);
  EXPECT_NE(second, first);
  EXPECT_NO_THROW(engine::grammar::Matcher(second).mask());
}

TEST(GrammarCache, HoldsToTheSchemaBehindReasoning) {
  Answers answers;
  const auto plain = answers.find(kAge, {}, false);
  EXPECT_TRUE(may_be_answer(plain, R"({"age": 36})"));
  EXPECT_FALSE(may_be_answer(plain, R"({"age": "36"})"));
  EXPECT_FALSE(may_be_answer(plain, R"({"age": 36, "x": 1})")) << "the schema lists its properties";
  EXPECT_FALSE(may_be_answer(plain, "hm</think>{\"age\": 36}"));
  const auto behind = answers.find(kAge, {}, true);
  EXPECT_TRUE(may_be_answer(behind, "hm <b></think>\n\n{\"age\": 36}"));
  EXPECT_FALSE(may_be_answer(behind, "{\"age\": 36}"));
}

TEST(GrammarCache, ToolsAreForcedOrLeftToTheModel) {
  Answers answers;
  constexpr const char* kText = R"({"type": "text"})";
  constexpr const char* kCall = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  EXPECT_EQ(answers.find(kText, add_tool(false), false), nullptr);
  const auto forced = answers.find(kText, add_tool(true), false);
  EXPECT_TRUE(may_be_answer(forced, kCall));
  EXPECT_FALSE(may_be_answer(forced, "no"));
  const auto either = answers.find(kAge, add_tool(false), false);
  EXPECT_TRUE(may_be_answer(either, kCall));
  EXPECT_TRUE(may_be_answer(either, R"({"age": 36})"));
  EXPECT_FALSE(may_be_answer(either, "no"));
}

// gpt-oss: what it thinks comes in channels before, and the answer has a channel of its own.
TEST(GrammarCache, AnswersInChannels) {
  Answers answers("<|channel|>analysis<|message|> {{ tools }} <|start|>assistant<|channel|>commentary to=functions.");
  ASSERT_TRUE(answers.format.tools->channels);
  const std::string final = "<|channel|>final<|message|>{\"age\": 36}";
  const std::string thought = "<|channel|>analysis<|message|>hm < {\"age\"\n<|end|><|start|>assistant";
  const std::string call = "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\": 1}";
  const auto document = answers.find(kAge, {}, false);
  EXPECT_TRUE(may_be_answer(document, final));
  EXPECT_TRUE(may_be_answer(document, thought + thought + final));
  EXPECT_FALSE(may_be_answer(document, "{\"age\": 36}"));
  EXPECT_FALSE(may_be_answer(document, thought));
  EXPECT_FALSE(may_be_answer(document, thought + "<|channel|>final<|message|>no"));
  EXPECT_FALSE(may_be_answer(document, call));
  const auto either = answers.find(kAge, add_tool(false), false);
  for (const std::string& answer : {final, thought + final, call, thought + call}) {
    EXPECT_TRUE(may_be_answer(either, answer)) << answer;
  }
  const auto forced = answers.find(R"({"type": "text"})", add_tool(true), false);
  EXPECT_TRUE(may_be_answer(forced, thought + call));
  EXPECT_FALSE(may_be_answer(forced, thought + final));
}

TEST(GrammarCache, ErrorsNameTheField) {
  const test::TestModel model;
  GrammarCache cache(engine::grammar::make_token_table(model.tokenizer));
  EXPECT_THAT(failure_of([&] { cache.find({gbnf("root ::= \"a"), {}, {}, false}); }),
              HasSubstr("400 grammar invalid_schema: grammar, line 1: "));
  EXPECT_THAT(failure_of([&] { cache.find({gbnf("root ::= root \"a\" | \"b\""), {}, {}, false}); }),
              StartsWith("400 grammar invalid_schema: grammar: the rule 'root' begins with itself"));
  Constraint schema;
  schema.kind = Constraint::Kind::json_schema;
  schema.param = "response_format.json_schema.schema";
  schema.schema = chat::value_from_json(R"({"type": "string", "maxLength": 9, "contains": 1})");
  EXPECT_THAT(
      failure_of([&] { cache.find({schema, {}, {}, false}); }),
      StartsWith("400 response_format.json_schema.schema unsupported_schema: response_format.json_schema.schema: "));
}

}  // namespace
}  // namespace minfer::server::openai
