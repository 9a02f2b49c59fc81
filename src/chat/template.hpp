// Chat templates: the Jinja text that a model carries to turn messages into its prompt. Output is byte for byte what
// Python's jinja2 gives as transformers sets it up (immutable sandbox, trim_blocks, lstrip_blocks, loopcontrols, the
// generation tag, tojson without HTML or ASCII escapes, raise_exception, strftime_now). Templates come out of model
// files and are not trusted: work, time, output, memory and nesting are limited, and an excess is an Error like any
// other. What depends on Python itself is an Error too (integers beyond 64 bits, lone surrogates, include, import,
// extends, autoescape). A Template is immutable: any number of threads may render it at once.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "chat/value.hpp"

namespace minfer::chat {

namespace jinja {
struct Program;
}

// What one rendering may use.
struct RenderLimits {
  uint64_t max_steps = 50'000'000;            // evaluated nodes and visited items; 64 bytes of new text count as one
  double max_seconds = 10;                    // checked every 4096 steps
  uint32_t max_depth = 1000;                  // statements and expressions being evaluated inside one another
  size_t max_text_bytes = 64u << 20;          // one string
  size_t max_output_bytes = 64u << 20;        // the result and all text being captured
  size_t max_memory_bytes = size_t{1} << 30;  // strings and containers alive at once
};

struct RenderOptions {
  // The local time for strftime_now; empty: the system's.
  std::function<std::tm()> clock;
  RenderLimits limits;
};

// The template itself refused the conversation by raise_exception: `template_message` is its text.
class RaisedError : public Error {
 public:
  RaisedError(const std::string& message, std::string template_message)
      : Error(ErrorCode::invalid_input, message), template_message_(std::move(template_message)) {}
  const std::string& template_message() const { return template_message_; }

 private:
  std::string template_message_;
};

class Template {
 public:
  // `name` stands in messages ("tokenizer.chat_template of x.gguf"). Errors: invalid_input, naming the template, the
  // line and what was expected.
  static Template parse(std::string_view source, std::string name);

  // `variables` is a dict with string keys. Errors: RaisedError; invalid_input, naming the template, the line and the
  // construct.
  std::string render(const Value& variables, const RenderOptions& options = {}) const;

 private:
  Template(std::string name, std::shared_ptr<const jinja::Program> program)
      : name_(std::move(name)), program_(std::move(program)) {}

  std::string name_;
  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace minfer::chat
