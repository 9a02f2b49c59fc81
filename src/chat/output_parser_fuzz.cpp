// Fuzzes the parser of answers: the first byte picks the syntax, the second the size of the pieces, the rest is the
// answer. The events must not depend on the pieces, and the arguments of a call that ended must be JSON. The corpus
// (fuzz/corpus/output_parser) holds an answer of each style.
#include <cstdint>
#include <cstdlib>

#include "base/utf8.hpp"
#include "chat/output/json_scanner.hpp"
#include "chat/output_test_support.hpp"

namespace {

using minfer::chat::OutputEvent;

void check_calls(const std::vector<OutputEvent>& events) {
  std::string arguments;
  for (const OutputEvent& event : minfer::chat::joined(events)) {
    std::string json;
    if (event.kind == OutputEvent::Kind::call_begin) arguments.clear();
    if (event.kind == OutputEvent::Kind::arguments) arguments = event.text;
    const bool ended = event.kind == OutputEvent::Kind::call_end && !event.cut;
    if (ended && !minfer::chat::output::read_json(arguments, minfer::chat::kMaxArgumentDepth + 2, json)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  static const std::vector<minfer::chat::ToolSignature> tools = minfer::chat::two_tools();
  static const minfer::chat::ReasoningTags think = {"<think>", "</think>"};
  const auto rows = minfer::chat::tool_syntaxes();
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  if (minfer::find_malformed_utf8(text) != std::string_view::npos) return 0;
  minfer::chat::OutputFormat format;
  format.tools = &rows[data[0] % rows.size()];
  if (data[0] >= 128 && !format.tools->channels) format.reasoning = &think;
  const auto whole = minfer::chat::parse_answer(format, tools, "", text);
  const auto pieces = minfer::chat::parse_answer(format, tools, "", text, {size_t{1} + data[1] % 16});
  if (minfer::chat::described(whole) != minfer::chat::described(pieces)) std::abort();
  check_calls(whole);
  return 0;
}
