// The table of pre-tokenizer rules and the PCRE2 splitter. See pretokenizer.hpp.
#include "tokenizer/pretokenizer.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "base/error.hpp"
#include "tokenizer/utf8.hpp"

namespace minfer::tokenizer {
namespace {

constexpr size_t kJitStackStartBytes = size_t{32} << 10;
constexpr size_t kJitStackMaxBytes = size_t{1} << 20;

constexpr std::string_view kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::vector<PretokenizerRule>& rules() {
  static const std::vector<PretokenizerRule> table = {
      {.names = {"gpt-2", "mpt", "olmo", "phi-2"}, .patterns = {kGpt2Words}},
      {.names = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
       .patterns = {R"(\p{N})", kGpt2Words}},
      {.names = {"qwen2", "deepseek-r1-qwen"}, .patterns = {kQwen2Words}, .normalize_nfc = true},
      {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3"},
       .patterns = {kLlama3Words},
       .ignore_merges = true,
       .add_bos = true},
      {.names = {"default", ""}, .patterns = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Words, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
  };
  return table;
}

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

}  // namespace

const PretokenizerRule& find_pretokenizer_rule(std::string_view name) {
  std::string known;
  for (const PretokenizerRule& rule : rules()) {
    for (const std::string_view candidate : rule.names) {
      if (candidate == name) return rule;
      if (!candidate.empty()) known += fmt::format("{}'{}'", known.empty() ? "" : ", ", candidate);
    }
  }
  fail(ErrorCode::unsupported,
       "the pre-tokenizer rule '{}' is not known; known are {}. If the model splits text as one of these does, choose "
       "it "
       "as an override when loading",
       name, known);
}

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

struct Pretokenizer::Pattern {
  pcre2_code* code = nullptr;
  bool has_jit = false;

  explicit Pattern(std::string_view published) {
    const std::string pattern = with_unicode_space(published);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error,
                         &offset, nullptr);
    if (code == nullptr) {
      fail(ErrorCode::internal, "the pattern '{}' does not compile: {} at {}", pattern, pcre_message(error), offset);
    }
    has_jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  }
  ~Pattern() { pcre2_code_free(code); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

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

Pretokenizer::Pretokenizer(const PretokenizerRule& rule) {
  for (const std::string_view pattern : rule.patterns) patterns_.push_back(std::make_unique<Pattern>(pattern));
}
Pretokenizer::~Pretokenizer() = default;

std::span<const std::string_view> Pretokenizer::split(std::string_view text, Scratch& scratch) const {
  auto& pieces = scratch.pieces_;
  auto& next = scratch.next_pieces_;
  const Scratch::Handles& handles = *scratch.handles_;
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(handles.match);
  pieces.assign(1, text);
  for (const auto& pattern : patterns_) {
    next.clear();
    for (const std::string_view piece : pieces) {
      size_t begin = 0;
      while (begin < piece.size()) {
        if (!pattern->match(piece, begin, handles.match, handles.context) || bounds[0] == bounds[1]) {
          next.push_back(piece.substr(begin));
          break;
        }
        if (bounds[0] > begin) next.push_back(piece.substr(begin, bounds[0] - begin));
        next.push_back(piece.substr(bounds[0], bounds[1] - bounds[0]));
        begin = bounds[1];
      }
    }
    pieces.swap(next);
  }
  return pieces;
}

}  // namespace minfer::tokenizer
