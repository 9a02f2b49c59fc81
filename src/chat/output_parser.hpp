// Takes a model's answer apart while it is written: reasoning, content, tool calls with their arguments as JSON text.
// However the text is cut into pieces, the events are the same once equal ones in a row are joined. Nothing is lost:
// what does not parse as a call of a known tool stays content, byte for byte; only marks of the syntax, and whitespace
// between a mark and what follows or precedes it, are taken out. A call is told as soon as its name is known, its
// arguments as they are written, in pieces that never cut a character or an escape.
//
// Arguments come out as the model wrote them where it writes JSON (control characters inside strings are escaped, for
// JSON forbids them), else converted to JSON by the types in the tool's schema. One answer, one thread.
// Limits: kMaxCallBytes a call, kMaxArgumentDepth of nesting, kMaxCalls an answer: beyond them text stays content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/output_format.hpp"
#include "chat/value.hpp"

namespace minfer::chat {

inline constexpr size_t kMaxCallBytes = size_t{8} << 20;
inline constexpr uint32_t kMaxArgumentDepth = 64;
inline constexpr size_t kMaxCalls = 128;

struct ToolSignature {
  std::string name;
  Value parameters;  // the JSON Schema of its arguments; none: unknown
};

struct OutputEvent {
  enum class Kind : uint8_t {
    content,      // text for the reader
    reasoning,    // text of the model's reasoning
    call_begin,   // text: the tool's name
    arguments,    // text: the next piece of the arguments' JSON
    call_end,     // the call is whole; or, where the answer ended within it, `cut`
    call_broken,  // not a call after all: all that was told of it is void, text: what it was, now content
  };
  Kind kind = Kind::content;
  size_t call = 0;  // which call of the answer, from 0: of the last four
  std::string text = {};
  bool cut = false;
};

class OutputParser {
 public:
  // `prompt`: the rendered conversation that the answer continues. `tools`: those that may be called; none: only
  // reasoning is separated.
  OutputParser(const OutputFormat& format, std::vector<ToolSignature> tools, std::string_view prompt);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  // `text` continues the answer; what is known now is appended to `events`. Pieces hold whole characters.
  void push(std::string_view text, std::vector<OutputEvent>& events);
  // The answer has ended: the rest.
  void finish(std::vector<OutputEvent>& events);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace minfer::chat
