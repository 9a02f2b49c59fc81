// The parser on answers of each syntax: those written by the rows' own pieces, those that models write otherwise, and
// those that are no calls; each in many cuts.
#include "chat/output_parser.hpp"

#include <gtest/gtest.h>

#include <random>

#include "chat/output_test_support.hpp"

namespace minfer::chat {
namespace {

constexpr ReasoningTags kThink = {"<think>", "</think>"};

OutputFormat format_of(std::string_view name, bool thinks = false) {
  OutputFormat format;
  format.tools = &syntax_named(name);
  if (thinks) format.reasoning = &kThink;
  return format;
}

// Parses whole, byte by byte and in random cuts; all must agree.
std::string parsed(const OutputFormat& format, std::string_view text, std::string_view prompt = {}) {
  const std::string whole = described(parse_answer(format, two_tools(), prompt, text));
  EXPECT_EQ(described(parse_answer(format, two_tools(), prompt, text, {1})), whole) << text;
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<size_t> cuts;
    for (size_t i = 0; i < text.size(); ++i) cuts.push_back(1 + random() % 12);
    EXPECT_EQ(described(parse_answer(format, two_tools(), prompt, text, cuts)), whole) << text;
  }
  return whole;
}

std::string parsed(std::string_view row, std::string_view text) {
  return parsed(format_of(row), text);
}

// Arguments as the row writes them.
std::string written(const ToolSyntax& row, bool first) {
  const auto parameter = [&](std::string_view key, std::string_view value, bool is_text) {
    const std::string_view name_end =
        is_text && !row.text_name_end.empty() ? row.text_name_end : row.parameter_name_end;
    return fmt::format("{}{}{}{}{}", row.parameter_begin, key, name_end, value, row.parameter_end);
  };
  switch (row.arguments) {
    case ArgumentStyle::json:
      return first ? R"({"city": "Köln \"x\"", "days": 3})" : R"({"opts": {"a": [1, 2.5e3, null]}})";
    case ArgumentStyle::tagged:
      return first ? parameter("city", "Köln \"x\"", true) + parameter("days", "3", false)
                   : parameter("opts", R"({"a": [1, 2.5e3, null]})", false);
    case ArgumentStyle::braces:
      return first ? R"(city:<|"|>Köln "x"<|"|>,days:3)" : "opts:{a:[1,2.5e3,null]}";
    case ArgumentStyle::python:
      return first ? R"(city='Köln "x"', days=3)" : R"(opts={"a": [1, 2.5e3, None]})";
  }
  return {};
}

std::string wrapped(const ToolSyntax& row, bool both) {
  const auto call = [&](std::string_view name, bool first) {
    return fmt::format("{}{}{}{}{}", row.call_begin, name, row.name_end, written(row, first), row.call_end);
  };
  std::string text = std::string(row.prefix) + call("get_weather", true);
  if (both) text += std::string(row.separator) + call("add", false);
  return text + std::string(row.suffix);
}

constexpr std::string_view kFirst = R"(0:get_weatherA({"city": "Köln \"x\"", "days": 3})E)";
constexpr std::string_view kSecond = R"(1:addA({"opts": {"a": [1, 2.5e3, null]}})E)";

TEST(OutputParser, ReadsWhatEachRowWrites) {
  for (const ToolSyntax& row : tool_syntaxes()) {
    SCOPED_TRACE(row.name);
    OutputFormat format;
    format.tools = &row;
    EXPECT_EQ(parsed(format, wrapped(row, false)), kFirst);
    EXPECT_EQ(parsed(format, wrapped(row, true)), std::string(kFirst) + std::string(kSecond));
    if ((row.prefix.empty() && row.call_begin.starts_with('{')) || row.channels) continue;
    EXPECT_EQ(parsed(format, "Let me see.\n" + wrapped(row, true)),
              "C(Let me see.)" + std::string(kFirst) + std::string(kSecond));
  }
}

TEST(OutputParser, KeepsTextThatIsNoCall) {
  for (const ToolSyntax& row : tool_syntaxes()) {
    if (row.channels) continue;
    SCOPED_TRACE(row.name);
    OutputFormat format;
    format.tools = &row;
    std::string unknown = wrapped(row, false);
    unknown.replace(unknown.find("get_weather"), 11, "get_wether");
    EXPECT_EQ(parsed(format, unknown), "C(" + unknown + ")");
    const std::string opened = fmt::format("a {}{} b\n", row.prefix, row.call_begin);
    EXPECT_EQ(parsed(format, opened), "C(" + opened + ")");
    EXPECT_EQ(parsed(format, "  x < y [1] {\"a\": 2}\n\n"), "C(  x < y [1] {\"a\": 2}\n\n)");
  }
}

TEST(OutputParser, WithoutToolsOnlyReasoningIsSeparated) {
  for (const ToolSyntax& row : tool_syntaxes()) {
    if (row.channels) continue;
    SCOPED_TRACE(row.name);
    OutputFormat format;
    format.tools = &row;
    format.reasoning = &kThink;
    const std::string text = "A" + wrapped(row, true);
    EXPECT_EQ(described(parse_answer(format, {}, "", "<think>\nhm\n</think>\n\n" + text)), "R(hm)C(" + text + ")");
  }
}

TEST(OutputParser, ReadsHermesAsModelsWriteIt) {
  EXPECT_EQ(parsed("hermes", R"(<tool_call>{"arguments": {"city": "B"}, "name": "get_weather"}</tool_call>)"),
            R"(0:get_weatherA({"city": "B"})E)");
  EXPECT_EQ(parsed("hermes", R"(<tool_call> {"name": "add", "arguments": "{\"opts\": {}}", "id": 7} </tool_call> ok)"),
            R"(0:addA({"opts": {}})EC(ok))");
  EXPECT_EQ(
      parsed("hermes", R"(<tool_call>{"type": "function", "function": {"name": "add", "parameters": {}}}</tool_call>)"),
      R"(0:addA({})E)");
  EXPECT_EQ(parsed("hermes", R"(<tool_call>{"name": "add"}</tool_call>)"), R"(0:addA({})E)");
  EXPECT_EQ(parsed("hermes", R"(<tool_call>{"name": "add", "arguments": null}</tool_call>)"), R"(0:addA({})E)");
  // The last brace and the end mark are missing.
  EXPECT_EQ(parsed("hermes", R"(<tool_call>{"name": "add", "arguments": {"a": True})"), R"(0:addA({"a": true})E)");
  EXPECT_EQ(
      parsed("hermes", "<tool_call>\n[{\"name\": \"add\", \"arguments\": {}}, {\"name\": \"add\"}]\n</tool_call>\n"),
      "0:addA({})E1:addA({})E");
  EXPECT_EQ(parsed("hermes", "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": \"x\ny\"}}</tool_call>"),
            "0:addA({\"a\": \"x\\ny\"})E");
}

TEST(OutputParser, TellsCutAndBrokenCalls) {
  EXPECT_EQ(parsed("hermes", R"(<tool_call>{"name": "add", "arguments": {"a": "x\u00)"), R"(0:addA({"a": "x)E-)");
  EXPECT_EQ(parsed("hermes", R"(a <tool_call>{"name": "add", "arguments": {"a": 'x'}}</tool_call>)"),
            R"(C(a)0:addA({"a": )X( <tool_call>{"name": "add", "arguments": {"a": )C('x'}}</tool_call>))");
  EXPECT_EQ(parsed("hermes", R"(<tool_call>{"name": "add", "argum)"), R"(C(<tool_call>{"name": "add", "argum))");
  EXPECT_EQ(parsed("qwen3-coder", "<tool_call>\n<function=add>\n<parameter=note>\nabc\n</param"),
            R"(0:addA({"note": )E-)");
  EXPECT_EQ(parsed("qwen3-coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nabc\n</param"),
            R"(0:get_weatherA({"city": "abc)E-)");
  EXPECT_EQ(parsed("qwen3-coder", "<function=add>\nwhat"), "0:addA({)X(<function=add>\n)C(what)");
}

TEST(OutputParser, ConvertsTaggedValuesByTheirTypes) {
  const auto value = [](std::string_view key, std::string_view text) {
    return parsed("qwen3-coder", fmt::format("<tool_call>\n<function=get_weather>\n<parameter={}>\n{}\n</parameter>\n"
                                             "</function>\n</tool_call>",
                                             key, text));
  };
  EXPECT_EQ(value("city", "3"), R"(0:get_weatherA({"city": "3"})E)");
  EXPECT_EQ(value("city", "\n a\n"), R"(0:get_weatherA({"city": "\n a\n"})E)");
  EXPECT_EQ(value("days", " 3"), R"(0:get_weatherA({"days": 3})E)");
  EXPECT_EQ(value("days", "soon"), R"(0:get_weatherA({"days": "soon"})E)");
  EXPECT_EQ(value("exact", "True"), R"(0:get_weatherA({"exact": true})E)");
  EXPECT_EQ(value("exact", "null"), R"(0:get_weatherA({"exact": null})E)");
  EXPECT_EQ(value("other", "[1, 2]"), R"(0:get_weatherA({"other": [1, 2]})E)");
  EXPECT_EQ(value("other", "a\tb"), R"(0:get_weatherA({"other": "a\tb"})E)");
  EXPECT_EQ(parsed("qwen3-coder", "<tool_call>\n<function=add>\n</function>\n</tool_call>"), "0:addA({})E");
  EXPECT_EQ(parsed("glm", "<tool_call>add</tool_call>"), "0:addA({})E");
  EXPECT_EQ(
      parsed("minicpm5", "<function name=\"add\"><param name=\"note\"><![CDATA[a </param> & b]]></param></function>"),
      R"(0:addA({"note": "a </param> & b"})E)");
  EXPECT_EQ(parsed("deepseek-v4",
                   "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"add\">\n<｜DSML｜parameter name=\"note\" "
                   "string=\"true\">null</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"),
            R"(0:addA({"note": "null"})E)");
}

TEST(OutputParser, ConvertsLiterals) {
  EXPECT_EQ(
      parsed(
          "gemma4",
          R"(<|tool_call>call:add{opts:{<|"|>k k<|"|>:<|"|>a"b<|"|>,t:true,n:None,w:word,l:[]},x:-1.5}<tool_call|>)"),
      R"(0:addA({"opts": {"k k": "a\"b", "t": true, "n": null, "w": "word", "l": []}, "x": -1.5})E)");
  EXPECT_EQ(parsed("gemma4", "<|tool_call>call:add{}<tool_call|>"), "0:addA({})E");
  EXPECT_EQ(
      parsed(
          "lfm2",
          R"(<|tool_call_start|>[add(note="a\n'\x41\u00e4\ud83d\ude42\q", opts={'a': (1, True)},)]<|tool_call_end|>Done)"),
      R"(0:addA({"note": "a\n'Aä\ud83d\ude42\\q", "opts": {"a": [1, true]}})EC(Done))");
  EXPECT_EQ(parsed("lfm2", "<|tool_call_start|>[add(note=abc)]"),
            "0:addA({\"note\": )X(<|tool_call_start|>[add(note=)C(abc)])");
}

TEST(OutputParser, ReadsCallsWithoutMarks) {
  EXPECT_EQ(parsed("llama3", R"( {"type": "function", "name": "add", "parameters": {"opts": {}}})"),
            R"(0:addA({"opts": {}})E)");
  EXPECT_EQ(parsed("llama3", R"(<|python_tag|>{"name": "add", "parameters": {}}; {"name": "add", "parameters": {}})"),
            "0:addA({})E1:addA({})E");
  EXPECT_EQ(parsed("llama3", R"({"name": "add", "parameters": {}} and more)"), "0:addA({})EC(and more)");
  EXPECT_EQ(parsed("llama3", R"(See {"name": "add", "parameters": {}})"),
            R"(C(See {"name": "add", "parameters": {}}))");
  EXPECT_EQ(parsed("llama3", R"({"name": "add"})"), R"(C({"name": "add"}))");
  EXPECT_EQ(parsed("generic", "```json\n[{\"name\": \"add\", \"arguments\": {}}]\n```"), "0:addA({})E");
  EXPECT_EQ(parsed("generic", "```json\n{\"name\": \"Ann\"}\n```"), "C(```json\n{\"name\": \"Ann\"}\n```)");
}

TEST(OutputParser, ReadsHermesWithoutItsMarks) {
  const std::string call = "{\"name\": \"add\", \"arguments\": {}}";
  EXPECT_EQ(parsed("hermes", call), "0:addA({})E");
  EXPECT_EQ(parsed("hermes", "```json\n" + call + "\n```"), "0:addA({})E");
  EXPECT_EQ(parsed("hermes", "<tools>\n" + call + "\n</tools>"), "0:addA({})E");
  EXPECT_EQ(parsed("hermes", "So:\n```json\n" + call + "\n```\nThere."), "C(So:)0:addA({})EC(There.)");
  EXPECT_EQ(parsed("hermes", "So: " + call), "C(So: " + call + ")");
  EXPECT_EQ(parsed("hermes", "```json\n{\"name\": \"add\"}\n```"), "C(```json\n{\"name\": \"add\"}\n```)");
}

TEST(OutputParser, ReadsNamesWithIds) {
  EXPECT_EQ(parsed("mistral-named", R"([TOOL_CALLS]add[CALL_ID]abcdefghi[ARGS]{}[TOOL_CALLS]add[ARGS]{"a": 1})"),
            R"(0:addA({})E1:addA({"a": 1})E)");
  EXPECT_EQ(parsed("mistral-named", R"([TOOL_CALLS][{"name": "add", "arguments": {}}])"), "0:addA({})E");
  EXPECT_EQ(parsed("kimi",
                   "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:12<|tool_call_argument_begin|>{}"
                   "<|tool_call_end|><|tool_calls_section_end|>"),
            "0:addA({})E");
}

TEST(OutputParser, SeparatesReasoning) {
  const OutputFormat format = format_of("hermes", true);
  EXPECT_EQ(parsed(format, "<think>\na <b>\n\n</think>\n\nHi <think>x</think>"), "R(a <b>)C(Hi <think>x</think>)");
  EXPECT_EQ(parsed(format, "hm\n</think>\n\nHi", "user\n<think>\n"), "R(hm)C(Hi)");
  EXPECT_EQ(parsed(format, "<think>\nhm</think>Hi", "user\n<think>\n"), "R(hm)C(Hi)");
  EXPECT_EQ(parsed(format, "hm\n", "<think>"), "R(hm\n)");
  EXPECT_EQ(parsed(format, "<think>\n\n</think>\n\n Hi\n"), "C(Hi\n)");
  EXPECT_EQ(parsed(format, "</think> Hi"), "C(</think> Hi)");
  EXPECT_EQ(
      parsed(format,
             "<think>x <tool_call> y</think>\n<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>\n"),
      "R(x <tool_call> y)0:addA({})E");
  EXPECT_EQ(parsed(format_of("generic", true), "<think>x</think>\n{\"name\": \"add\", \"arguments\": {}}"),
            "R(x)0:addA({})E");
}

TEST(OutputParser, ReadsChannels) {
  const OutputFormat format = format_of("harmony");
  EXPECT_EQ(
      parsed(format, "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Hi\n"),
      "R(Think.)C(Hi\n)");
  EXPECT_EQ(parsed(format,
                   "<|channel|>analysis<|message|>T<|end|><|start|>assistant<|channel|>commentary to=functions.add "
                   "<|constrain|>json<|message|>{\"a\": 1}<|call|>"),
            "R(T)0:addA({\"a\": 1})E");
  EXPECT_EQ(parsed(format,
                   "<|channel|>commentary<|message|>Let me.<|end|><|start|>assistant to=functions.add<|channel|>"
                   "commentary json<|message|>{}"),
            "C(Let me.)0:addA({})E");
  EXPECT_EQ(parsed(format, "<|channel|>commentary to=functions.sub <|message|>{}"),
            "C(<|channel|>commentary to=functions.sub <|message|>{})");
  EXPECT_EQ(parsed(format, "more<|end|>", "<|start|>assistant<|channel|>analysis<|message|>"), "R(more)");
  EXPECT_EQ(parsed(format, "a <|start|>user<|message|> b"), "C(a <|start|>user<|message|> b)");
  EXPECT_EQ(described(parse_answer(format, {}, "",
                                   "<|channel|>analysis<|message|>T<|end|><|start|>assistant<|channel|>"
                                   "final<|message|>Hi")),
            "R(T)C(Hi)");
}

TEST(OutputParser, ArgumentsComeInWholeEscapes) {
  const std::string_view text =
      R"(<tool_call>{"name": "add", "arguments": {"a": "\ud83d\ude42\n\u00e4\\", "b": 12}}</tool_call>)";
  for (size_t cut = 1; cut < 8; ++cut) {
    for (const OutputEvent& event : parse_answer(format_of("hermes"), two_tools(), "", text, {cut})) {
      if (event.kind != OutputEvent::Kind::arguments) continue;
      const std::string closed = "\"" + event.text + "\"";
      const size_t last = event.text.rfind('\\');
      if (last == std::string::npos) continue;
      EXPECT_NE(last + 1, event.text.size()) << event.text;
    }
  }
}

TEST(OutputParser, HasLimits) {
  std::string deep = R"(<tool_call>{"name": "add", "arguments": {"a": )" + std::string(kMaxArgumentDepth, '[');
  const std::string described_deep = parsed("hermes", deep);
  EXPECT_TRUE(described_deep.starts_with("0:addA({\"a\": [")) << described_deep;
  EXPECT_TRUE(described_deep.ends_with("C([)")) << described_deep;
  std::string many;
  for (size_t i = 0; i <= kMaxCalls; ++i) many += "<tool_call>{\"name\": \"add\"}</tool_call>";
  const std::vector<OutputEvent> events = parse_answer(format_of("hermes"), two_tools(), "", many);
  EXPECT_EQ(events.size(), 3 * kMaxCalls + 1);
  EXPECT_EQ(events.back().text, "<tool_call>{\"name\": \"add\"}</tool_call>");
  const std::string long_text(kMaxCallBytes, 'x');
  const std::string longest = R"(<tool_call>{"name": "add", "arguments": {"a": ")" + long_text + R"("}}</tool_call>)";
  const std::vector<OutputEvent> whole = parse_answer(format_of("hermes"), two_tools(), "", longest);
  const std::vector<OutputEvent> pieces = parse_answer(format_of("hermes"), two_tools(), "", longest, {99'991});
  EXPECT_EQ(described(whole), described(pieces));
  std::string text;
  for (const OutputEvent& event : whole)
    if (event.kind == OutputEvent::Kind::content || event.kind == OutputEvent::Kind::call_broken) text += event.text;
  EXPECT_EQ(text, longest);
}

// Answers of random fragments: the same events in any cut, and where no call can be whole, not a byte is lost.
TEST(OutputParser, RandomTextIsCutAnywhereAndNeverLost) {
  std::mt19937 random(11);
  for (const ToolSyntax& row : tool_syntaxes()) {
    SCOPED_TRACE(row.name);
    OutputFormat format;
    format.tools = &row;
    std::vector<std::string> fragments = {"get_weather",
                                          "add",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          "\"",
                                          "\n",
                                          " ",
                                          ",",
                                          ":",
                                          "\\",
                                          "ä",
                                          "x y",
                                          R"({"name": "add", "arguments": )",
                                          "{\"a\": 1}",
                                          "<|channel|>",
                                          "<|message|>",
                                          "to=functions."};
    for (const std::string_view piece : {row.prefix, row.call_begin, row.name_end, row.call_end, row.suffix,
                                         row.separator, row.parameter_begin, row.parameter_name_end, row.parameter_end})
      if (!piece.empty()) fragments.emplace_back(piece);
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (size_t i = 0, count = random() % 14; i < count; ++i) text += fragments[random() % fragments.size()];
      const std::vector<OutputEvent> whole = parse_answer(format, two_tools(), "", text);
      const std::vector<size_t> cuts = {random() % 9 + 1, random() % 9 + 1, random() % 5 + 1};
      ASSERT_EQ(described(parse_answer(format, two_tools(), "", text, cuts)), described(whole)) << text;
      ASSERT_EQ(described(parse_answer(format, two_tools(), "", text, {1})), described(whole)) << text;
      if (row.channels || !row.dropped[0].empty()) continue;
      const std::vector<OutputEvent> untold = parse_answer(format, {{"other", Value()}}, "", text);
      ASSERT_EQ(described(untold), text.empty() ? "" : "C(" + text + ")");
      std::string kept;
      bool has_call = false;
      for (const OutputEvent& event : whole) {
        has_call = has_call || event.kind == OutputEvent::Kind::call_end;
        if (event.kind == OutputEvent::Kind::content || event.kind == OutputEvent::Kind::call_broken)
          kept += event.text;
      }
      if (!has_call) {
        ASSERT_EQ(kept, text);
      }
    }
  }
}

}  // namespace
}  // namespace minfer::chat
