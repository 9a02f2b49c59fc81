// Forced tool calls: what their grammar matches in each syntax, by the naive matcher, and that the parser of answers
// reads it as calls.
#include "server/tool_grammar.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "chat/output_test_support.hpp"
#include "engine/grammar/naive_match_testing.hpp"
#include "server/tagged_arguments.hpp"

namespace minfer::server {
namespace {

using chat::OutputFormat;
using chat::ToolSignature;
using testing::HasSubstr;

const chat::ToolSyntax& syntax_of(std::string_view name) {
  for (const chat::ToolSyntax& syntax : chat::tool_syntaxes()) {
    if (syntax.name == name) {
      return syntax;
    }
  }
  throw std::runtime_error("no such syntax");
}

engine::grammar::Ast calls(const chat::ToolSyntax& syntax, const std::vector<ToolSignature>& tools,
                           bool parallel = true) {
  OutputFormat format;
  format.tools = &syntax;
  engine::grammar::AstBuilder builder;
  const engine::grammar::RuleId root = builder.declare("root");
  builder.define(root, add_tool_calls(builder, format, tools, parallel));
  return std::move(builder).finish(root);
}

std::vector<ToolSignature> tools() {
  return {
      {"get_weather",
       chat::value_from_json(
           R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1},"unit":{"enum":["C","F"]}},"required":["city"]})")},
      {"stop", chat::Value()}};
}

// Two calls of the first tool as the syntax writes them.
std::string two_calls(const chat::ToolSyntax& syntax) {
  std::string arguments = R"({"city": "Bern", "days": 2, "unit": "C"})";
  if (syntax.arguments == chat::ArgumentStyle::tagged) {
    const auto tagged = [&](std::string_view name, std::string_view value, bool text) {
      const std::string_view end =
          text && !syntax.text_name_end.empty() ? syntax.text_name_end : syntax.parameter_name_end;
      return fmt::format("{}{}{}{}{}", syntax.parameter_begin, name, end, value, syntax.parameter_end);
    };
    arguments = tagged("city", "Bern", true) + tagged("days", "2", false) + tagged("unit", "C", true);
  }
  const std::string call =
      fmt::format("{}get_weather{}{}{}", syntax.call_begin, syntax.name_end, arguments, syntax.call_end);
  const std::string rest = syntax.parallel ? fmt::format("{}{}", syntax.separator, call) : "";
  return fmt::format("{}{}{}{}", syntax.prefix, call, rest, syntax.suffix);
}

TEST(ToolGrammar, EverySyntaxIsWrittenAndReadBack) {
  for (const chat::ToolSyntax& row : chat::tool_syntaxes()) {
    OutputFormat format;
    format.tools = &row;
    format.tools = &forced_tool_syntax(format, std::vector<ToolSignature>{tools()[0]});
    const std::string text = two_calls(*format.tools);
    EXPECT_TRUE(engine::grammar::naive_match(calls(*format.tools, {tools()[0]}), text)) << row.name << ": " << text;
    chat::OutputParser parser(format, tools(), "");
    std::vector<chat::OutputEvent> events;
    parser.push(text, events);
    parser.finish(events);
    std::string call_text = chat::described(events);
    EXPECT_THAT(call_text, HasSubstr("0:get_weather")) << row.name;
    EXPECT_THAT(call_text, HasSubstr("Bern")) << row.name;
    EXPECT_EQ(call_text.find("1:get_weather") != std::string::npos, format.tools->parallel) << row.name << call_text;
    EXPECT_THAT(call_text, testing::Not(HasSubstr("C("))) << row.name;
  }
}

TEST(ToolGrammar, ArgumentsAreHeldToTheSchema) {
  const auto& hermes = syntax_of("hermes");
  const engine::grammar::Ast ast = calls(hermes, tools());
  const auto call = [](std::string_view name, std::string_view arguments) {
    return fmt::format("<tool_call>\n{{\"name\": \"{}\", \"arguments\": {}}}\n</tool_call>", name, arguments);
  };
  const auto matches = [&](const std::string& text) { return engine::grammar::naive_match(ast, text); };
  EXPECT_TRUE(matches(call("get_weather", R"({"city":"Bern"})")));
  EXPECT_TRUE(matches(call("stop", "{}")));
  EXPECT_TRUE(matches(call("stop", R"({"anything":[1]})")));
  EXPECT_TRUE(matches(call("stop", "{}") + "\n" + call("get_weather", R"({"city":"Bern","days":3})")));
  EXPECT_FALSE(matches(call("get_weather", "{}")));
  EXPECT_FALSE(matches(call("get_weather", R"({"city":"Bern","days":0})")));
  EXPECT_FALSE(matches(call("get_weather", R"({"city":"Bern","other":1})")));
  EXPECT_FALSE(matches(call("get_wind", "{}")));
  EXPECT_FALSE(matches(call("stop", "[]")));
  EXPECT_FALSE(matches(call("stop", "{}") + call("stop", "{}")));
  EXPECT_FALSE(matches("text"));
  EXPECT_FALSE(
      engine::grammar::naive_match(calls(hermes, tools(), false), call("stop", "{}") + "\n" + call("stop", "{}")));
}

TEST(ToolGrammar, TaggedArguments) {
  const auto& coder = syntax_of("qwen3-coder");
  const std::vector<ToolSignature> write = {
      {"write", chat::value_from_json(R"({"properties":{"path":{"type":"string"},"mode":{"enum":["new","append"]},
          "lines":{"type":"array","items":{"$ref":"#/$defs/n"}},"note":{"anyOf":[{"type":"string"},{"type":"null"}]}},
          "required":["path"],"$defs":{"n":{"type":"integer"}}})")}};
  ASSERT_TRUE(can_tag_arguments(coder, write[0].parameters));
  const engine::grammar::Ast ast = calls(coder, write);
  const auto matches = [&](std::string_view arguments) {
    return engine::grammar::naive_match(
        ast, fmt::format("<tool_call>\n<function=write>\n{}</function>\n</tool_call>", arguments));
  };
  EXPECT_TRUE(matches("<parameter=path>\na/b </p> \"x\"\n\n</parameter>\n"));
  EXPECT_TRUE(
      matches("<parameter=path>\na\n</parameter>\n<parameter=mode>\nnew\n</parameter>\n<parameter=lines>\n[1, "
              "2]\n</parameter>\n"));
  EXPECT_TRUE(matches("<parameter=path>\na\n</parameter>\n<parameter=note>\nnull\n</parameter>\n"));
  EXPECT_FALSE(matches("<parameter=mode>\nnew\n</parameter>\n"));
  EXPECT_FALSE(matches("<parameter=path>\na\n</parameter>\n<parameter=mode>\nold\n</parameter>\n"));
  EXPECT_FALSE(matches("<parameter=path>\na\n</parameter>\n<parameter=lines>\n[\"1\"]\n</parameter>\n"));
  EXPECT_FALSE(matches("<parameter=path>\na</parameter>b\n</parameter>\n"));
  for (const char* property :
       {R"({"type":"string","pattern":"^a"})", R"({"type":["string","integer"]})", "{}", R"({"$ref":"#/$defs/s"})"}) {
    const ToolSignature tool = {
        "t", chat::value_from_json(fmt::format(
                 R"({{"type":"object","properties":{{"a":{}}},"$defs":{{"s":{{"type":"string"}}}}}})", property))};
    OutputFormat format;
    format.tools = &coder;
    EXPECT_EQ(forced_tool_syntax(format, std::vector{tool}).name, "generic") << property;
  }
}

TEST(ToolGrammar, MarksAreLiteralsOfTheirOwn) {
  engine::grammar::AstBuilder builder;
  const engine::grammar::RuleId root = builder.declare("root");
  builder.define(root, add_tool_calls(builder, {.tools = &syntax_of("deepseek-r1")}, std::vector{tools()[1]}, false));
  const engine::grammar::Ast ast = std::move(builder).finish(root);
  std::vector<std::string> literals;
  for (const engine::grammar::Node& node : ast.nodes) {
    literals.push_back(node.text);
  }
  EXPECT_THAT(literals, testing::Contains("<｜tool▁calls▁begin｜>"));
  EXPECT_THAT(literals, testing::Contains("<｜tool▁sep｜>"));
  EXPECT_THAT(literals, testing::Contains("function"));
  EXPECT_THAT(literals, testing::Contains("\n```json\n"));
}

TEST(ToolGrammar, ErrorsNameTheTool) {
  const std::vector<ToolSignature> bad = {{"odd", chat::value_from_json(R"({"properties":{"a":{"not":{}}}})")}};
  try {
    calls(syntax_of("hermes"), bad);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(),
                HasSubstr("tool 'odd': JSON schema: #/properties/a/not: the keyword 'not' is not supported"));
  }
}

}  // namespace
}  // namespace minfer::server
