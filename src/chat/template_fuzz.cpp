// Fuzzes templates: parse and render with a small conversation and tight limits. Only Errors may come out. The corpus
// (fuzz/corpus/template) holds templates of our own.
#include <cstddef>
#include <cstdint>

#include "chat/template.hpp"

namespace {

using minfer::chat::RenderOptions;
using minfer::chat::Template;
using minfer::chat::Value;

Value conversation() {
  return minfer::chat::value_from_json(
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "h\u00e9llo \ud83d\ude42"}],
          "tools": [{"function": {"name": "f", "parameters": {"a": [1, 2.5, null]}}}], "add_generation_prompt": true,
          "bos_token": "<s>", "n": 7, "xs": [3, 1, 2]})");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Value variables = conversation();
  RenderOptions options;
  options.limits.max_steps = 200'000;
  options.limits.max_seconds = 2;
  options.limits.max_text_bytes = 1 << 20;
  options.limits.max_output_bytes = 1 << 20;
  options.limits.max_memory_bytes = 64 << 20;
  try {
    const std::string_view source(reinterpret_cast<const char*>(data), size);
    (void)Template::parse(source, "fuzz").render(variables, options);
  } catch (const minfer::Error& error) {
    if (error.code() != minfer::ErrorCode::invalid_input) throw;
  }
  return 0;
}
