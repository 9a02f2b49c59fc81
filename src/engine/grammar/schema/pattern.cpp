// Reading `pattern`: a recursive descent over ECMA 262's regular expressions as far as they are regular. Where Python's
// `re` and JavaScript differ, each construct has two meanings, the texts on which both agree and those that either
// takes, so that what is generated is valid by every validator (regex.hpp). Limits: kMaxPatternBytes, kMaxGroupDepth.
#include <algorithm>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/utf8.hpp"
#include "engine/grammar/code_ranges.hpp"
#include "engine/grammar/schema/regex.hpp"

namespace minfer::engine::grammar::schema {
namespace {

using Ranges = std::vector<CodeRange>;

constexpr size_t kMaxPatternBytes = 4096;
constexpr uint32_t kMaxGroupDepth = 100;

// What both dialects have in the class.
const Ranges kDigits = {{'0', '9'}};
const Ranges kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Ranges kSpace = {{'\t', '\r'}, {' ', ' '}};
// And what both have outside it: Python counts the digits and letters of all scripts, and each has spaces of its own.
// Of the characters that no table here tells apart, those that may be in the class are left out.
const Ranges kNoDigits = {{0, '/'},         {':', 0x65F},     {0x2000, 0xA61F},
                          {0xAC00, 0xFF0F}, {0xFF1A, 0xFFFF}, {0x1F000, 0x1FAFF}};
const Ranges kNoWord = {{0, '/'},         {':', '@'},       {'[', '^'},       {'`', '`'},       {'{', 0xA9},
                        {0xAB, 0xB1},     {0xB4, 0xB4},     {0xB6, 0xB8},     {0xBB, 0xBB},     {0xBF, 0xBF},
                        {0xD7, 0xD7},     {0xF7, 0xF7},     {0x2010, 0x205E}, {0x20A0, 0x20BF}, {0x2190, 0x23FF},
                        {0x2500, 0x2775}, {0x2794, 0x27BF}, {0x3001, 0x3003}, {0x3008, 0x3011}, {0x1F300, 0x1F6FF}};
const Ranges kAnySpace = {{'\t', '\r'},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                          {0x1680, 0x1680}, {0x180E, 0x180E}, {0x2000, 0x200B}, {0x2028, 0x2029},
                          {0x202F, 0x202F}, {0x205F, 0x2060}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

class PatternParser {
 public:
  PatternParser(RegexPool& pool, std::string_view text, bool widest, std::string_view where)
      : pool_(pool), text_(text), widest_(widest), where_(where) {}

  RegexId parse() {
    if (text_.size() > kMaxPatternBytes) {
      fail(ErrorCode::invalid_input, "{}: a regular expression of {} bytes; the limit is {}", where_, text_.size(),
           kMaxPatternBytes);
    }
    const RegexId regex = alternation(0);
    if (at_ < text_.size()) {
      wrong("a ')' without its '('");
    }
    return regex;
  }

 private:
  [[noreturn]] void wrong(std::string_view what) const {
    fail(ErrorCode::invalid_input, "{}: the regular expression '{}' has {} at byte {}; ECMA 262's syntax is expected",
         where_, text_, what, at_);
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::unsupported,
         "{}: the regular expression '{}' has {} at byte {}, which a grammar can't hold to; say it with classes, "
         "groups, alternatives "
         "and repetitions",
         where_, text_, what, at_);
  }

  bool take(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) {
      return false;
    }
    at_ += expected.size();
    return true;
  }

  bool done() const { return at_ >= text_.size(); }

  uint32_t next_code() {
    const Utf8Step step = utf8_step(text_, at_);
    at_ += step.size_bytes;
    return step.character;
  }

  RegexId alternation(uint32_t depth) {
    if (depth > kMaxGroupDepth) {
      fail(ErrorCode::invalid_input, "{}: a regular expression with more than {} groups inside each other", where_,
           kMaxGroupDepth);
    }
    std::vector<RegexId> branches = {branch(depth)};
    while (take("|")) {
      branches.push_back(branch(depth));
    }
    return pool_.either(branches);
  }

  RegexId branch(uint32_t depth) {
    std::vector<RegexId> parts;
    while (!done() && text_[at_] != '|' && text_[at_] != ')') {
      parts.push_back(quantified(depth));
    }
    RegexId out = pool_.empty();
    for (size_t i = parts.size(); i-- > 0;) {
      out = pool_.concat(parts[i], out);
    }
    return out;
  }

  RegexId quantified(uint32_t depth) {
    const RegexId item = atom(depth);
    uint32_t least = 1;
    std::optional<uint32_t> most = 1;
    if (take("*")) {
      least = 0;
      most = std::nullopt;
    } else if (take("+")) {
      most = std::nullopt;
    } else if (take("?")) {
      least = 0;
    } else if (take("{")) {
      std::tie(least, most) = counts();
    } else {
      return item;
    }
    take("?");  // lazy: the same texts
    if (!done() && std::string_view("*+?{").find(text_[at_]) != std::string_view::npos) {
      wrong("a quantifier after a quantifier");
    }
    return pool_.repeat(item, least, most);
  }

  std::pair<uint32_t, std::optional<uint32_t>> counts() {
    const uint32_t least = count();
    uint32_t most = least;
    bool bounded = true;
    if (take(",")) {
      bounded = done() || text_[at_] != '}';
      most = bounded ? count() : 0;
    }
    if (!take("}")) {
      wrong("a '{' that is no repetition such as {2} or {2,5} (write \\{ for the character)");
    }
    if (bounded && most < least) {
      wrong("a repetition whose second number is the smaller one");
    }
    return {least, bounded ? std::optional(most) : std::nullopt};
  }

  uint32_t count() {
    uint32_t value = 0;
    const size_t start = at_;
    while (!done() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = value * 10 + static_cast<uint32_t>(text_[at_++] - '0');
      if (value > kMaxRepeat) {
        fail(ErrorCode::invalid_input, "{}: the regular expression '{}' repeats more than {} times, the limit", where_,
             text_, kMaxRepeat);
      }
    }
    if (at_ == start) {
      wrong("a '{' that is no repetition such as {2} or {2,5} (write \\{ for the character)");
    }
    return value;
  }

  RegexId atom(uint32_t depth) {
    if (take("(")) {
      return group(depth);
    }
    if (take("[")) {
      return pool_.chars(char_class());
    }
    if (take("^")) {
      return pool_.start();
    }
    if (take("$")) {
      // Python's $ is also true before a last line feed.
      const RegexId line_feed = pool_.repeat(pool_.chars({{'\n', '\n'}}), 0, 1);
      return widest_ ? pool_.concat(line_feed, pool_.end()) : pool_.end();
    }
    if (take(".")) {
      return pool_.chars(
          inverted(widest_ ? Ranges{{'\n', '\n'}} : Ranges{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    }
    if (take("\\")) {
      return pool_.chars(escape(widest_, false));
    }
    if (std::string_view("*+?{").find(text_[at_]) != std::string_view::npos) {
      wrong("a quantifier with nothing to repeat (write a backslash before the character)");
    }
    const uint32_t code = next_code();
    return pool_.chars({{code, code}});
  }

  RegexId group(uint32_t depth) {
    if (text_.substr(at_).starts_with("?=") || text_.substr(at_).starts_with("?!")) {
      refuse("a lookahead");
    }
    if (text_.substr(at_).starts_with("?<=") || text_.substr(at_).starts_with("?<!")) {
      refuse("a lookbehind");
    }
    if (take("?<") || take("?P<")) {
      const size_t close = text_.find('>', at_);
      if (close == std::string_view::npos) {
        wrong("a group's name without its '>'");
      }
      at_ = close + 1;
    } else if (!take("?:") && text_.substr(at_).starts_with("?")) {
      refuse("a group with flags or of an unknown kind");
    }
    const RegexId inner = alternation(depth + 1);
    if (!take(")")) {
      wrong("a '(' without its ')'");
    }
    return inner;
  }

  // After the '['.
  Ranges char_class() {
    const bool negated = take("^");
    const bool widest = negated ? !widest_ : widest_;
    Ranges all;
    if (!done() && text_[at_] == ']') {
      wrong("an empty character class");
    }
    while (!take("]")) {
      if (done()) {
        wrong("a '[' without its ']'");
      }
      const Ranges first = class_item(widest);
      const bool is_range = text_.substr(at_).starts_with("-") && !text_.substr(at_).starts_with("-]");
      if (!is_range) {
        all.insert(all.end(), first.begin(), first.end());
        continue;
      }
      ++at_;
      if (done()) {
        wrong("a '[' without its ']'");
      }
      const Ranges last = class_item(widest);
      if (first.size() != 1 || first[0].first != first[0].last || last.size() != 1 || last[0].first != last[0].last ||
          first[0].first > last[0].first) {
        wrong("a range of characters that does not rise");
      }
      all.push_back({first[0].first, last[0].first});
    }
    const Ranges ranges = normalized(std::move(all));
    return negated ? inverted(ranges) : ranges;
  }

  Ranges class_item(bool widest) {
    if (take("\\")) {
      return escape(widest, true);
    }
    const uint32_t code = next_code();
    return {{code, code}};
  }

  // After the backslash.
  Ranges escape(bool widest, bool in_class) {
    if (done()) {
      wrong("a backslash with nothing after it");
    }
    const char letter = text_[at_];
    switch (letter) {
      case 'd':
        return named(kDigits, kNoDigits, widest);
      case 'D':
        return named(kNoDigits, kDigits, widest);
      case 'w':
        return named(kWord, kNoWord, widest);
      case 'W':
        return named(kNoWord, kWord, widest);
      case 's':
        return named(kSpace, inverted(kAnySpace), widest);
      case 'S':
        return named(inverted(kAnySpace), kSpace, widest);
      default:
        break;
    }
    if (letter == 'b' && in_class) {
      ++at_;
      return {{'\b', '\b'}};
    }
    if (letter == 'b' || letter == 'B') {
      refuse("a word boundary");
    }
    if ((letter >= '1' && letter <= '9') || letter == 'k') {
      refuse("a backreference");
    }
    if (letter == 'p' || letter == 'P') {
      refuse("a Unicode property");
    }
    const uint32_t code = escaped_code(letter);
    return {{code, code}};
  }

  Ranges named(const Ranges& inside, const Ranges& outside, bool widest) {
    ++at_;
    return widest ? inverted(outside) : inside;
  }

  uint32_t escaped_code(char letter) {
    static constexpr std::string_view kLetters = "tnrfv0";
    static constexpr std::string_view kCodes("\t\n\r\f\v\0", 6);
    if (const size_t i = kLetters.find(letter); i != std::string_view::npos) {
      ++at_;
      if (letter == '0' && !done() && text_[at_] >= '0' && text_[at_] <= '9') {
        refuse("an octal escape");
      }
      return static_cast<uint32_t>(kCodes[i]);
    }
    if (letter == 'x' || letter == 'u') {
      ++at_;
      return hex(letter == 'x' ? 2 : 4);
    }
    if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')) {
      refuse("an unknown escape");
    }
    return next_code();
  }

  uint32_t hex(size_t digits) {
    const std::string_view text = text_.substr(at_, digits);
    uint32_t value = 0;
    for (const char digit : text) {
      const auto place = std::string_view("0123456789abcdefABCDEF").find(digit);
      if (place == std::string_view::npos) {
        wrong("an escape without its hexadecimal digits");
      }
      value = value * 16 + static_cast<uint32_t>(place < 16 ? place : place - 6);
    }
    if (text.size() < digits) {
      wrong("an escape without its hexadecimal digits");
    }
    if (value >= 0xD800 && value <= 0xDFFF) {
      refuse("half of a surrogate pair (write the character itself)");
    }
    at_ += digits;
    return value;
  }

  RegexPool& pool_;
  std::string_view text_;
  bool widest_;
  std::string_view where_;
  size_t at_ = 0;
};

}  // namespace

RegexId parse_pattern(RegexPool& pool, std::string_view pattern, bool widest, std::string_view where) {
  return PatternParser(pool, pattern, widest, where).parse();
}

}  // namespace minfer::engine::grammar::schema
