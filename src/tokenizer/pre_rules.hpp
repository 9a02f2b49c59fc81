// The pre-tokenizer rules of byte-level BPE: how a text is cut into the words that merges stay within. A rule is a row
// of one table: the names by which model files call it, the steps, and flags. A step is an expression, written as the
// published tokenizer has it, or one of the splitters for numbers, whose published expressions look ahead to the end of
// a number from each of its digits and so would take quadratic time.
// Immutable; any thread. Source: the tokenizer.json files of the models; names as model files spell them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace minfer::tokenizer {

enum class Splitter : uint8_t {
  expression,
  // Every run of numbers (\p{N}) is a piece, cut into threes from its end: 1|234|567.
  number_threes,
  // Runs of digits (\d) as published by (?=(\d{3})+(?!\d)): cut before each three, counted from the run's end.
  before_threes,
  // Runs of digits as published by \d{1,3}(?=(?:\d{3})*\b): threes from the end, if no letter follows the run.
  bounded_threes,
};

struct SplitStep {
  // NOLINTNEXTLINE(google-explicit-constructor): a row lists expressions and splitters side by side
  constexpr SplitStep(std::string_view text) : expression(text) {}
  constexpr SplitStep(const char* text) : expression(text) {}  // NOLINT(google-explicit-constructor)
  constexpr SplitStep(Splitter kind) : splitter(kind) {}       // NOLINT(google-explicit-constructor)

  std::string_view expression;
  Splitter splitter = Splitter::expression;
};

struct PretokenizerRule {
  std::vector<std::string_view> names;  // the first is canonical
  std::vector<SplitStep> steps;         // each cuts the pieces that the one before left
  bool normalize_nfc = false;           // text is put into form C first
  bool ignore_merges = false;           // a word that is a token is taken whole, whatever the merges say
  bool add_bos = false;                 // where the file does not say
  // Symbols are characters, spaces are "▁", and a character without a token becomes its bytes' tokens "<0x0A>".
  bool whole_characters = false;
  bool drops_space = false;  // white space only separates; symbols are characters
};

// The row of `name`. Errors: unsupported, listing the known names.
const PretokenizerRule& find_pretokenizer_rule(std::string_view name);
// All rows, for those who check each.
const std::vector<PretokenizerRule>& pretokenizer_rules();

}  // namespace minfer::tokenizer
