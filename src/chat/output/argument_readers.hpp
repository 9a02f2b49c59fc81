// The readers that are not of JSON, each in its own file.
#pragma once

#include "chat/output/argument_reader.hpp"

namespace minfer::chat::output {

std::unique_ptr<ArgumentReader> make_tagged_reader(const ToolSyntax& syntax, const ToolSignature& tool);
std::unique_ptr<ArgumentReader> make_literal_reader(ArgumentStyle style);

}  // namespace minfer::chat::output
