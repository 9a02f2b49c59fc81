// The splitters: PCRE2, and threes of digits. See pretokenizer.hpp.
// ICU says what a number is; UTF-8 is read by steps of base.
#include "tokenizer/pretokenizer.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "base/error.hpp"
#include "tokenizer/utf8.hpp"

namespace minfer::tokenizer {
namespace {

constexpr size_t kJitStackStartBytes = size_t{32} << 10;
constexpr size_t kJitStackMaxBytes = size_t{1} << 20;

// PCRE2's \s has U+180E, which is no white space in Unicode since 6.3; the White_Space property is what is published.
std::string with_unicode_space(std::string_view pattern) {
  std::string out;
  for (size_t index = 0; index < pattern.size(); ++index) {
    const char next = index + 1 < pattern.size() ? pattern[index + 1] : '\0';
    if (pattern[index] != '\\' || next == '\0') {
      out += pattern[index];
      continue;
    }
    ++index;
    if (next == 's') {
      out += R"(\p{wspace})";
    } else if (next == 'S') {
      out += R"(\P{wspace})";
    } else {
      out += '\\';
      out += next;
    }
  }
  return out;
}

std::string pcre_message(int code) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

constexpr uint32_t kAsciiEnd = 0x80;

bool is_digit(char32_t character) {
  if (character < kAsciiEnd) return character >= '0' && character <= '9';
  return u_charType(static_cast<UChar32>(character)) == U_DECIMAL_DIGIT_NUMBER;
}

bool is_number(char32_t character) {
  if (character < kAsciiEnd) return character >= '0' && character <= '9';
  return (U_GET_GC_MASK(static_cast<UChar32>(character)) & U_GC_N_MASK) != 0;
}

// What \w is in the published expressions.
bool is_word_character(char32_t character) {
  const auto code = static_cast<UChar32>(character);
  return u_isUAlphabetic(code) || (U_GET_GC_MASK(code) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

// A run of digits: where each begins, and where the run ends.
struct DigitRun {
  std::vector<size_t> begins;
  size_t end = 0;
  bool word_follows = false;
};

// Reads the run at `offset`, which holds a digit.
void read_run(std::string_view text, size_t offset, bool (*is_member)(char32_t), DigitRun& run) {
  run.begins.clear();
  run.word_follows = false;
  while (offset < text.size()) {
    const Utf8Step step = utf8_step(text, offset);
    if (!is_member(step.character)) {
      run.word_follows = is_word_character(step.character);
      break;
    }
    run.begins.push_back(offset);
    offset += step.size_bytes;
  }
  run.end = offset;
}

// Cuts `text` at the runs of digits as `kind` says.
void cut_threes(std::string_view text, Splitter kind, std::vector<std::string_view>& out) {
  const auto is_member = kind == Splitter::number_threes ? is_number : is_digit;
  DigitRun run;
  size_t begin = 0;  // of the piece that is not yet in `out`
  const auto cut = [&](size_t end) {
    if (end > begin) out.push_back(text.substr(begin, end - begin));
    begin = end;
  };
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Step step = utf8_step(text, offset);
    if (!is_member(step.character)) {
      offset += step.size_bytes;
      continue;
    }
    read_run(text, offset, is_member, run);
    offset = run.end;
    if (kind == Splitter::bounded_threes && run.word_follows) continue;
    const size_t count = run.begins.size();
    const bool is_own_piece = kind != Splitter::before_threes;
    if (is_own_piece) cut(run.begins.front());
    for (size_t index = count % 3; index < count; index += 3) cut(run.begins[index]);
    if (is_own_piece) cut(run.end);
  }
  cut(text.size());
}

}  // namespace

struct Pretokenizer::Scratch::Handles {
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kJitStackStartBytes, kJitStackMaxBytes, nullptr);

  Handles() {
    if (match == nullptr || context == nullptr) {
      release();
      fail(ErrorCode::out_of_memory, "no memory for the pre-tokenizer's match data");
    }
    // The interpreter counts every step back over a long run; the patterns bound the work themselves.
    pcre2_set_match_limit(context, UINT32_MAX);
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Handles() { release(); }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  void release() const {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

Pretokenizer::Scratch::Scratch() : handles_(std::make_unique<Handles>()) {}
Pretokenizer::Scratch::~Scratch() = default;

struct Pretokenizer::Step {
  pcre2_code* code = nullptr;
  bool has_jit = false;
  Splitter splitter;

  explicit Step(const SplitStep& step) : splitter(step.splitter) {
    if (splitter != Splitter::expression) return;
    const std::string pattern = with_unicode_space(step.expression);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error,
                         &offset, nullptr);
    if (code == nullptr) {
      fail(ErrorCode::internal, "the pattern '{}' does not compile: {} at {}", pattern, pcre_message(error), offset);
    }
    has_jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  }
  ~Step() { pcre2_code_free(code); }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  // Finds the next match at or after `offset` and fills the match data; false where there is none.
  bool match(std::string_view text, size_t offset, pcre2_match_data* data, pcre2_match_context* context) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const int result = has_jit ? pcre2_jit_match(code, subject, text.size(), offset, 0, data, context)
                               : pcre2_match(code, subject, text.size(), offset, PCRE2_NO_UTF_CHECK, data, context);
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0)
      fail(ErrorCode::internal, "splitting a text of {} bytes failed: {}", text.size(), pcre_message(result));
    return true;
  }
};

Pretokenizer::Pretokenizer(const PretokenizerRule& rule) : drops_gaps_(rule.drops_space) {
  for (const SplitStep& step : rule.steps) steps_.push_back(std::make_unique<Step>(step));
}
Pretokenizer::~Pretokenizer() = default;

std::span<const std::string_view> Pretokenizer::split(std::string_view text, Scratch& scratch) const {
  auto& pieces = scratch.pieces_;
  auto& next = scratch.next_pieces_;
  const Scratch::Handles& handles = *scratch.handles_;
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(handles.match);
  pieces.assign(1, text);
  for (const auto& step : steps_) {
    next.clear();
    for (const std::string_view piece : pieces) {
      if (step->splitter != Splitter::expression) {
        cut_threes(piece, step->splitter, next);
        continue;
      }
      size_t begin = 0;
      while (begin < piece.size()) {
        if (!step->match(piece, begin, handles.match, handles.context)) {
          if (!drops_gaps_) next.push_back(piece.substr(begin));
          break;
        }
        if (bounds[0] > begin && !drops_gaps_) next.push_back(piece.substr(begin, bounds[0] - begin));
        next.push_back(piece.substr(bounds[0], bounds[1] - bounds[0]));
        begin = bounds[1];
      }
    }
    pieces.swap(next);
  }
  return pieces;
}

}  // namespace minfer::tokenizer
