// What is known of an Ast before it is compiled: which nodes match the empty text, which match some text at all, how
// large they are, and which rules are written out where they are referred to. Internal to engine/grammar.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/grammar/ast.hpp"

namespace minfer::engine::grammar {

inline constexpr uint32_t kUnbounded = UINT32_MAX;

struct Facts {
  std::vector<char> nullable;    // by node
  std::vector<char> productive;  // by node
  // By node, references written out; kUnbounded where that never ends, or is too deep to tell. Sizes are in states,
  // about; lengths are the most bytes of a text.
  std::vector<uint32_t> size;
  std::vector<uint32_t> length;
  std::vector<char> inlined;  // by rule
};

Facts find_facts(const Ast& ast);

// A repetition up to `most` (kUnbounded: none) times is written out rather than counted.
bool is_unrolled(uint32_t child_size, uint32_t most);

}  // namespace minfer::engine::grammar
