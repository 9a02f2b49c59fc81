// Fuzzes JSON Schema: any text either becomes a grammar or throws minfer::Error within the limits; and of a grammar
// that compiles, tokens are taken as the rest of the input chooses: there is never a dead end, and a complete text is
// JSON. An input is a schema's text, a byte 0, and choices. Seeds: fuzz/corpus/json_schema.
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "engine/grammar/byte_tokens_testing.hpp"
#include "engine/grammar/grammar.hpp"
#include "engine/grammar/json_schema.hpp"

namespace {

using minfer::Error;
using minfer::ErrorCode;
namespace grammar = minfer::engine::grammar;

constexpr size_t kMostTokens = 200;
constexpr size_t kMostText = 4096;  // of a schema: beyond it a run takes too long, and finds nothing new

void require(bool condition) {
  if (!condition) __builtin_trap();
}

const std::shared_ptr<const grammar::TokenTable>& table() {
  static const auto made = grammar::byte_tokens();
  return made;
}

void walk(const grammar::Ast& ast, std::string_view choices) {
  grammar::Matcher matcher(grammar::compile(ast, table()));
  std::string text;
  for (const char choice : choices.substr(0, kMostTokens)) {
    const auto mask = matcher.mask();
    std::vector<int32_t> allowed;
    for (int32_t byte = 0; byte < 256; ++byte) {
      if ((mask[static_cast<size_t>(byte) / 32] >> (byte % 32) & 1) != 0) allowed.push_back(byte);
    }
    require(!allowed.empty() || matcher.is_complete());
    if (matcher.is_complete()) {
      minfer::chat::value_from_json(text);
    }
    if (allowed.empty()) return;
    const int32_t token = allowed[static_cast<uint8_t>(choice) % allowed.size()];
    text += static_cast<char>(token);
    matcher.accept(token);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  if (std::min(cut, size) > kMostText) return 0;
  grammar::AstBuilder builder;
  grammar::Ast ast;
  try {
    const grammar::RuleId root = builder.declare("root");
    const grammar::SchemaOptions options{.most_whitespace = 1, .open = size % 2 == 0};
    builder.define(root,
                   grammar::add_json_schema(builder, minfer::chat::value_from_json(input.substr(0, cut)), options));
    ast = std::move(builder).finish(root);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::invalid_input || error.code() == ErrorCode::unsupported);
    return 0;
  }
  try {
    walk(ast, cut == std::string_view::npos ? std::string_view() : input.substr(cut + 1));
  } catch (const Error& error) {
    // Limits of the automaton; integers beyond 64 bits and deep nesting in a text, which is JSON all the same.
    const std::string_view message = error.what();
    require(message.find("malformed") == std::string_view::npos && error.code() != ErrorCode::internal);
  }
  return 0;
}
