// Reads the arguments of one call while they are written, in one of the styles, and writes them on as JSON text. One
// call, one thread. Limits: kMaxArgumentDepth.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "chat/output/text_match.hpp"
#include "chat/output_parser.hpp"

namespace minfer::chat::output {

class ArgumentReader {
 public:
  virtual ~ArgumentReader() = default;
  // Reads from the front of `text`, appends what is certain to `out`. `size` bytes of the result were read; the caller
  // gives the others again, with more. yes: the arguments are whole; no: what follows is no argument. `final`: no more
  // text comes; more: the arguments are cut.
  virtual Match read(std::string_view text, bool final, std::string& out) = 0;
};

// For a call of `tool`; `syntax` must live as long. `json`: a JSON object, whatever the syntax' own style.
std::unique_ptr<ArgumentReader> make_argument_reader(const ToolSyntax& syntax, const ToolSignature& tool, bool json);

}  // namespace minfer::chat::output
