// GBNF, the grammar notation of llama.cpp's users: `name ::= alternatives`, "literals" with escapes, [classes] with
// ranges and negation, `.`, groups, ? * + {m} {m,} {m,n}, references, # comments. The rule `root` is the grammar.
#pragma once

#include <string_view>

#include "engine/grammar/ast.hpp"

namespace minfer::engine::grammar {

// `name` stands in messages. Errors: invalid_input naming the line, what was found and expected.
Ast parse_gbnf(std::string_view text, std::string_view name);

}  // namespace minfer::engine::grammar
