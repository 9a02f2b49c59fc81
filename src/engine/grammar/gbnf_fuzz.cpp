// Fuzzes GBNF text, compiling and matching: any bytes either compile or throw minfer::Error within the limits, and what
// compiles is walked: along tokens that the rest of the input chooses, each mask agrees with the step of each byte.
// An input is a grammar, a byte 0, and choices. Seeds: fuzz/corpus/gbnf.
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "engine/grammar/byte_tokens_testing.hpp"
#include "engine/grammar/compiled_grammar.hpp"
#include "engine/grammar/gbnf.hpp"

namespace {

using minfer::Error;
using minfer::ErrorCode;
namespace grammar = minfer::engine::grammar;

constexpr size_t kMostTokens = 12;

void require(bool condition) {
  if (!condition) __builtin_trap();
}

const std::shared_ptr<const grammar::TokenTable>& table() {
  static const auto made =
      grammar::byte_tokens({"aa", "ab", "\",", "\": ", "\xC3\xA9", "\x82\xAC\"", "    ", "[[", "},"});
  return made;
}

bool has(std::span<const uint32_t> mask, size_t token) {
  return (mask[token / 32] >> (token % 32) & 1) != 0;
}

// Whether the text of `token` leads somewhere from what was accepted, byte by byte.
bool steps(const grammar::Automaton& automaton, const std::vector<int32_t>& taken, size_t token) {
  grammar::Explorer explorer(automaton);
  grammar::FrontierId at = explorer.start();
  for (const int32_t one : taken) {
    for (const char c : table()->text(one)) at = explorer.step(at, static_cast<uint8_t>(c));
  }
  for (const char c : table()->text(static_cast<int32_t>(token))) at = explorer.step(at, static_cast<uint8_t>(c));
  return at != grammar::kDead;
}

void walk(const grammar::Ast& ast, std::string_view choices) {
  const auto compiled = grammar::compile(ast, table());
  grammar::Matcher matcher(compiled);
  std::vector<int32_t> taken;
  for (const char choice : choices.substr(0, kMostTokens)) {
    const auto mask = matcher.mask();
    std::vector<int32_t> allowed;
    const size_t texts = table()->vocabulary() - 1;
    for (size_t token = 0; token < texts; ++token) {
      if (has(mask, token)) allowed.push_back(static_cast<int32_t>(token));
    }
    require(has(mask, texts) == matcher.is_complete());
    require(allowed.empty() == matcher.is_over());
    const size_t probe = (static_cast<uint8_t>(choice) * size_t{37}) % texts;
    require(steps(compiled->automaton, taken, probe) == has(mask, probe));
    if (allowed.empty()) return;
    taken.push_back(allowed[static_cast<uint8_t>(choice) % allowed.size()]);
    matcher.accept(taken.back());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  try {
    const grammar::Ast ast = grammar::parse_gbnf(input.substr(0, cut), "fuzz");
    walk(ast, cut == std::string_view::npos ? std::string_view() : input.substr(cut + 1));
  } catch (const grammar::ExplorerFull&) {
    return 0;  // of steps()
  } catch (const Error& error) {
    require(error.code() == ErrorCode::invalid_input || error.code() == ErrorCode::unsupported);
  }
  return 0;
}
