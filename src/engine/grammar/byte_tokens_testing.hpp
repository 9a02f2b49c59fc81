// The small vocabulary of the tests and fuzzers of grammars: a token for each byte, whose id it is, then some longer
// texts, and last a token that ends a generation. For tests alone.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/grammar/token_table.hpp"

namespace minfer::engine::grammar {

inline std::shared_ptr<const TokenTable> byte_tokens(std::initializer_list<const char*> longer = {}) {
  std::vector<TokenTable::Token> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, static_cast<char>(byte))});
  for (const char* text : longer) tokens.push_back({text});
  tokens.push_back({"", true});
  return std::make_shared<const TokenTable>(std::move(tokens));
}

}  // namespace minfer::engine::grammar
