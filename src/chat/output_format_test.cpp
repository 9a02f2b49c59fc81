// Detection on the published templates (from MINFER_FIXTURES, none is part of the repository), and the parser on what
// each of them writes for an assistant's turn with tool calls: a template shows what its model was trained to write.
#include "chat/output_format.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/options.hpp"
#include "chat/output_test_support.hpp"
#include "chat/template.hpp"

namespace minfer::chat {
namespace {

namespace fs = std::filesystem;

struct Expected {
  std::string_view file;  // without .jinja
  std::string_view syntax;
  std::string_view open;  // of reasoning
};

constexpr Expected kExpected[] = {
    {"Apriel-1.6-15b-Thinker-fixed", "apriel", "Here are my reasoning steps:\n"},
    {"Bielik-11B-v3.0-Instruct", "hermes", "<think>"},
    {"CohereForAI-c4ai-command-r-plus-tool_use", "command-r", ""},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command-r7b", "<|START_THINKING|>"},
    {"GLM-4.7-Flash", "glm", "<think>"},
    {"GigaChat3-10B-A1.8B", "gigachat-3", ""},
    {"GigaChat3.1-10B-A1.8B", "gigachat-3.1", ""},
    {"HuggingFaceTB-SmolLM3-3B", "generic", "<think>"},
    {"Kimi-K2-Instruct", "kimi", ""},
    {"LFM2.5-8B-A1B", "lfm2", "<think>"},
    {"LFM2.5-Instruct", "generic", ""},
    {"MiMo-VL", "hermes", ""},
    {"MiniMax-M3", "generic", "<mm:think>"},
    {"Mistral-Small-3.2-24B-Instruct-2506", "mistral-named", ""},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen3-coder", "<think>"},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes", ""},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes", ""},
    {"Qwen-QwQ-32B", "hermes", "<think>"},
    {"Qwen-Qwen2.5-7B-Instruct", "hermes", ""},
    {"Qwen-Qwen3-0.6B", "hermes", "<think>"},
    {"Qwen3.5-4B", "qwen3-coder", "<think>"},
    {"Reka-Edge", "hermes", "<think>"},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek-r1", "<think>"},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-r1", "<think>"},
    {"deepseek-ai-DeepSeek-V3.2", "deepseek-v3.2", "<think>"},
    {"deepseek-ai-DeepSeek-V4", "deepseek-v4", "<think>"},
    {"deepseek-ai-DeepSeek-V4-Flash-0731", "deepseek-v4", "<think>"},
    {"fireworks-ai-llama-3-firefunction-v2", "firefunction", ""},
    {"google-gemma-2-2b-it", "generic", ""},
    {"google-gemma-4-31B-it-interleaved", "gemma4", "<|channel>thought\n"},
    {"ibm-granite-granite-3.3-2B-Instruct", "granite3", "<think>"},
    {"ibm-granite-granite-4.1", "hermes", ""},
    {"llama-cpp-deepseek-r1", "deepseek-r1", "<think>"},
    {"llama-cpp-rwkv-world", "generic", "<think>"},
    {"meetkai-functionary-medium-v3.1", "functionary-3.1", ""},
    {"meetkai-functionary-medium-v3.2", "generic", ""},
    {"meta-llama-Llama-3.1-8B-Instruct", "llama3", ""},
    {"meta-llama-Llama-3.2-3B-Instruct", "llama3", ""},
    {"mistralai-Mistral-Nemo-Instruct-2407", "mistral", ""},
    {"moonshotai-Kimi-K2", "kimi", ""},
    {"openbmb-MiniCPM5-1B", "minicpm5", "<think>"},
    {"poolside-Laguna-S-2.1", "glm", "<think>"},
    {"poolside-Laguna-XS-2.1", "glm", "<think>"},
    {"poolside-Laguna-XS.2", "glm", "<think>"},
    {"unsloth-Apriel-1.5", "apriel", "<thinking>"},
};

bool no_control(std::string_view) {
  return false;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<fs::path> templates_folder() {
  const fs::path folder = fs::path(environment_options().fixtures) / "templates";
  if (!environment_options().fixtures.empty() && fs::exists(folder)) return folder;
  return std::nullopt;
}

OutputFormat format_of_file(const fs::path& folder, std::string_view name) {
  return detect_output_format(read_file(folder / (std::string(name) + ".jinja")), no_control);
}

TEST(OutputFormat, IsDetectedFromPublishedTemplates) {
  const std::optional<fs::path> folder = templates_folder();
  if (!folder.has_value()) {
    ASSERT_FALSE(environment_options().require_models) << "no templates: set MINFER_FIXTURES";
    GTEST_SKIP() << "no templates: set MINFER_FIXTURES";
  }
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(*folder)) files += entry.path().extension() == ".jinja" ? 1 : 0;
  EXPECT_EQ(files, std::size(kExpected));
  for (const Expected& expected : kExpected) {
    const OutputFormat format = format_of_file(*folder, expected.file);
    EXPECT_EQ(format.tools->name, expected.syntax) << expected.file;
    EXPECT_EQ(format.reasoning == nullptr ? "" : format.reasoning->open, expected.open) << expected.file;
  }
}

// What the template writes behind the question for a turn of the assistant; empty where it refuses such a turn.
std::string turn(const Template& chat_template, size_t calls, bool arguments_as_text) {
  constexpr std::string_view kConversation =
      R"({{"bos_token": "", "eos_token": "", "tools": [
            {{"type": "function", "function": {{"name": "get_weather", "description": "W", "parameters":
              {{"type": "object", "properties": {{"city": {{"type": "string", "description": "c"}},
                "days": {{"type": "integer", "description": "d"}}}}, "required": ["city"]}}}}}},
            {{"type": "function", "function": {{"name": "add", "description": "A", "parameters":
              {{"type": "object", "properties": {{"opts": {{"type": "object", "description": "o"}}}},
                "required": ["opts"]}}}}}}],
          "functions": "", "datetime": "", "messages": [{{"role": "user", "content": "QUESTION"}},
          {{"role": "assistant", "content": "", "reasoning_content": "REASON", "tool_calls": [{}]}}]}})";
  const std::string_view first =
      arguments_as_text ? R"("{\"city\": \"Bonn\", \"days\": 3}")" : R"({"city": "Bonn", "days": 3})";
  const std::string_view second =
      arguments_as_text ? R"("{\"opts\": {\"x\": [1, true]}}")" : R"({"opts": {"x": [1, true]}})";
  std::string list = fmt::format(
      R"({{"id": "abcdefghi", "type": "function", "function": {{"name": "get_weather", "arguments": {}}}}})", first);
  if (calls == 2)
    list += fmt::format(
        R"(, {{"id": "abcdefghj", "type": "function", "function": {{"name": "add", "arguments": {}}}}})", second);
  try {
    const std::string text = chat_template.render(value_from_json(fmt::format(kConversation, list)));
    return text.substr(text.rfind("QUESTION"));
  } catch (const Error&) {
    return {};
  }
}

// The calls in `events`, as JSON.
std::string calls_of(const std::vector<OutputEvent>& events) {
  std::string out;
  for (const OutputEvent& event : joined(events)) {
    if (event.kind == OutputEvent::Kind::call_begin) out += event.text;
    if (event.kind == OutputEvent::Kind::arguments) out += event.text + "\n";
    if (event.kind == OutputEvent::Kind::call_broken) out += "broken\n";
  }
  return out;
}

// Templates that show no calls of earlier turns, or that write them otherwise than the model does.
bool writes_no_calls(std::string_view file) {
  for (const std::string_view name :
       {"HuggingFaceTB-SmolLM3-3B", "LFM2.5-Instruct", "MiniMax-M3", "google-gemma-2-2b-it", "llama-cpp-rwkv-world",
        "ibm-granite-granite-3.3-2B-Instruct", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "llama-cpp-deepseek-r1",
        "fireworks-ai-llama-3-firefunction-v2", "CohereForAI-c4ai-command-r-plus-tool_use", "Kimi-K2-Instruct",
        "meetkai-functionary-medium-v3.2"})
    if (file == name) return true;
  return false;
}

TEST(OutputFormat, TemplatesOwnCallsAreParsed) {
  const std::optional<fs::path> folder = templates_folder();
  if (!folder.has_value()) {
    ASSERT_FALSE(environment_options().require_models) << "no templates: set MINFER_FIXTURES";
    GTEST_SKIP() << "no templates: set MINFER_FIXTURES";
  }
  constexpr std::string_view kFirst = "get_weather{\"city\": \"Bonn\", \"days\": 3}\n";
  constexpr std::string_view kSecond = "add{\"opts\": {\"x\": [1, true]}}\n";
  for (const Expected& expected : kExpected) {
    SCOPED_TRACE(expected.file);
    const OutputFormat format = format_of_file(*folder, expected.file);
    const Template chat_template =
        Template::parse(read_file(*folder / (std::string(expected.file) + ".jinja")), std::string(expected.file));
    std::string text = turn(chat_template, 2, false);
    if (text.empty()) text = turn(chat_template, 2, true);
    const bool two = !text.empty() && text.find("opts") != std::string::npos;
    if (!two) text = turn(chat_template, 1, false);
    if (writes_no_calls(expected.file)) continue;
    // A call without a mark stands at the beginning of the answer.
    if (format.tools->bare) text = text.substr(text.find("{\""));
    const std::string calls = std::string(kFirst) + (two ? std::string(kSecond) : "");
    EXPECT_EQ(calls_of(parse_answer(format, two_tools(), "", text)), calls) << text;
    EXPECT_EQ(calls_of(parse_answer(format, two_tools(), "", text, {3})), calls) << text;
  }
}

TEST(OutputFormat, PromptsOfReasoningModelsBeginIt) {
  OutputFormat format = detect_output_format("<think> </think> tools", no_control);
  EXPECT_TRUE(begins_in_reasoning(format, "<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(begins_in_reasoning(format, "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(begins_in_reasoning(format, "<think>, said the user"));
  format = detect_output_format("{{ messages }}", no_control);
  EXPECT_FALSE(begins_in_reasoning(format, "<think>"));
  EXPECT_FALSE(format.template_knows_tools);
  format = detect_output_format("<|start|>assistant<|channel|>analysis<|message|>", no_control);
  EXPECT_EQ(format.tools->name, "harmony");
  EXPECT_TRUE(begins_in_reasoning(format, "<|start|>assistant<|channel|>analysis<|message|>"));
  EXPECT_FALSE(begins_in_reasoning(format, "<|start|>assistant"));
}

TEST(OutputFormat, AsksForControlTokensThatAreMarks) {
  const auto shows = [](std::string_view source, std::string_view control) {
    return detect_output_format(source, [&](std::string_view text) { return text == control; }).show_control;
  };
  EXPECT_TRUE(shows("[TOOL_CALLS]", "[TOOL_CALLS]"));
  EXPECT_TRUE(shows("[TOOL_CALLS]<think></think>", "</think>"));
  EXPECT_TRUE(shows("<|tool_call>call:", "<|\"|>"));
  EXPECT_TRUE(shows("<|channel|><|message|>", "<|message|>"));
  EXPECT_TRUE(shows("{\"name\": x, \"parameters\": y}", "<|python_tag|>"));
  EXPECT_FALSE(shows("<tool_call>{\"name\", \"arguments\"}", "<|im_end|>"));
}

}  // namespace
}  // namespace minfer::chat
