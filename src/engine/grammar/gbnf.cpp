// A parser of GBNF by recursive descent, with a limit on the depth of groups. See gbnf.hpp.
// What is read follows the notation's published description: names of letters, digits, '-' and '_'; escapes \n \r \t
// \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH, each one code point; a newline ends a rule outside of groups, except after
// "::=" and '|'.
#include "engine/grammar/gbnf.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/utf8.hpp"

namespace minfer::engine::grammar {
namespace {

constexpr int kMaxGroupDepth = 256;
constexpr uint32_t kMaxCodePoint = 0x10FFFF;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  Ast parse();

 private:
  struct Known {
    RuleId id;
    size_t defined_at = 0;  // a line; 0: not yet
    size_t first_used = 0;
  };

  [[noreturn]] void fail_at(size_t offset, std::string_view expected) const;
  [[noreturn]] void fail_line(size_t line, const std::string& what) const {
    fail(ErrorCode::invalid_input, "{}, line {}: {}", name_, line, what);
  }
  // Cheap going forward.
  size_t line_of(size_t offset) const;
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view what);
  void expect(std::string_view what, std::string_view expected);
  void skip(bool newlines);
  std::string_view take_name(std::string_view expected);
  Known& rule(std::string_view name);

  void parse_rule();
  NodeId parse_alternatives(int depth);
  NodeId parse_sequence(int depth);
  std::optional<NodeId> parse_item(int depth);
  NodeId parse_repeats(NodeId item);
  std::pair<uint32_t, std::optional<uint32_t>> parse_counts();
  uint32_t parse_count();
  NodeId parse_literal();
  NodeId parse_class();
  uint32_t parse_character();
  uint32_t parse_escape();

  std::string_view text_;
  std::string_view name_;
  size_t at_ = 0;
  mutable size_t counted_ = 0;  // bytes whose newlines are counted
  mutable size_t newlines_ = 0;
  AstBuilder builder_;
  std::map<std::string, Known, std::less<>> rules_;
};

size_t Parser::line_of(size_t offset) const {
  offset = std::min(offset, text_.size());
  if (offset < counted_) counted_ = newlines_ = 0;
  newlines_ += static_cast<size_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_),
                                              text_.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
  counted_ = offset;
  return newlines_ + 1;
}

void Parser::fail_at(size_t offset, std::string_view expected) const {
  std::string found = "the end of the text";
  if (offset < text_.size() && text_[offset] == '\n') {
    found = "the end of the line";
  } else if (offset < text_.size()) {
    constexpr size_t kShown = 20;
    std::string_view rest = text_.substr(offset, kShown);
    rest = rest.substr(0, rest.find('\n'));
    if (const size_t cut = find_malformed_utf8(rest); cut != std::string_view::npos) rest = rest.substr(0, cut);
    found = fmt::format("'{}'", rest);
  }
  fail_line(line_of(offset), fmt::format("found {}; expected {}", found, expected));
}

bool Parser::take(std::string_view what) {
  if (!text_.substr(at_).starts_with(what)) return false;
  at_ += what.size();
  return true;
}

void Parser::expect(std::string_view what, std::string_view expected) {
  if (!take(what)) fail_at(at_, expected);
}

void Parser::skip(bool newlines) {
  while (!at_end()) {
    const char c = text_[at_];
    if (c == '#') {
      while (!at_end() && text_[at_] != '\n') ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || (newlines && c == '\n')) {
      ++at_;
    } else {
      return;
    }
  }
}

std::string_view Parser::take_name(std::string_view expected) {
  const size_t begin = at_;
  while (!at_end() && is_name_character(text_[at_])) ++at_;
  if (at_ == begin) fail_at(at_, expected);
  return text_.substr(begin, at_ - begin);
}

Parser::Known& Parser::rule(std::string_view name) {
  auto found = rules_.find(name);
  if (found == rules_.end()) {
    found = rules_.emplace(name, Known{builder_.declare(std::string(name))}).first;
  }
  return found->second;
}

Ast Parser::parse() {
  if (const size_t offset = find_malformed_utf8(text_); offset != std::string_view::npos) {
    fail_line(line_of(offset), "the text is not UTF-8");
  }
  for (skip(true); !at_end(); skip(true)) parse_rule();
  for (const auto& [name, known] : rules_) {
    if (known.defined_at == 0) {
      fail_line(known.first_used, fmt::format("the rule '{}' is not defined; write {} ::= ...", name, name));
    }
  }
  const auto root = rules_.find("root");
  if (root == rules_.end()) {
    fail(ErrorCode::invalid_input, "{}: there is no rule 'root', where a grammar begins; write root ::= ...", name_);
  }
  return std::move(builder_).finish(root->second.id);
}

void Parser::parse_rule() {
  const size_t begin = at_;
  const std::string_view name = take_name("a rule: a name, then ::=");
  skip(false);
  expect("::=", "::= behind the name of a rule");
  skip(true);
  Known& known = rule(name);
  if (known.defined_at != 0) {
    fail_line(line_of(begin),
              fmt::format("the rule '{}' is defined already, in line {}; join both by '|', or rename one", name,
                          known.defined_at));
  }
  known.defined_at = line_of(begin);
  const RuleId id = known.id;
  builder_.define(id, parse_alternatives(0));
  if (!at_end() && !take("\n")) fail_at(at_, "the end of the rule, or another part of it");
}

NodeId Parser::parse_alternatives(int depth) {
  if (depth > kMaxGroupDepth) {
    fail_line(line_of(at_), fmt::format("groups are nested more than {} deep; use rules", kMaxGroupDepth));
  }
  std::vector<NodeId> all = {parse_sequence(depth)};
  while (take("|")) {
    skip(true);
    all.push_back(parse_sequence(depth));
  }
  return all.size() == 1 ? all[0] : builder_.alternatives(std::move(all));
}

NodeId Parser::parse_sequence(int depth) {
  std::vector<NodeId> items;
  while (const auto item = parse_item(depth)) {
    items.push_back(parse_repeats(*item));
    skip(depth > 0);
  }
  return items.size() == 1 ? items[0] : builder_.sequence(std::move(items));
}

// None where something else begins.
std::optional<NodeId> Parser::parse_item(int depth) {
  const char c = peek();
  if (c == '"') return parse_literal();
  if (c == '[') return parse_class();
  if (take(".")) return builder_.code_class({}, true);
  if (take("(")) {
    skip(true);
    const NodeId inner = parse_alternatives(depth + 1);
    expect(")", "')' at the end of the group");
    return inner;
  }
  if (c == '<' || c == '!') {
    fail(ErrorCode::unsupported, "{}, line {}: tokens by their number or name are not supported; write their text",
         name_, line_of(at_));
  }
  if (!is_name_character(c)) return std::nullopt;
  const size_t begin = at_;
  Known& known = rule(take_name("a name"));
  if (known.first_used == 0) known.first_used = line_of(begin);
  return builder_.reference(known.id);
}

NodeId Parser::parse_repeats(NodeId item) {
  for (int count = 0;; ++count) {
    skip(false);
    if (count > kMaxGroupDepth) {
      fail_line(line_of(at_), fmt::format("more than {} repetitions of repetitions", kMaxGroupDepth));
    }
    if (take("*")) {
      item = builder_.repeat(item, 0, std::nullopt);
    } else if (take("+")) {
      item = builder_.repeat(item, 1, std::nullopt);
    } else if (take("?")) {
      item = builder_.optional(item);
    } else if (take("{")) {
      const auto [least, most] = parse_counts();
      item = builder_.repeat(item, least, most);
    } else {
      return item;
    }
  }
}

std::pair<uint32_t, std::optional<uint32_t>> Parser::parse_counts() {
  const size_t begin = at_;
  skip(false);
  // {,n} is 0 to n.
  const uint32_t least = peek() == ',' ? 0 : parse_count();
  skip(false);
  std::optional<uint32_t> most = least;
  if (take(",")) {
    skip(false);
    most = peek() == '}' ? std::nullopt : std::optional(parse_count());
    skip(false);
  }
  expect("}", "'}' behind the numbers of a repetition");
  if (most && *most < least) {
    fail_line(line_of(begin),
              fmt::format("a repetition of {} to {} times; the first number is the smaller one", least, *most));
  }
  return {least, most};
}

uint32_t Parser::parse_count() {
  const size_t begin = at_;
  uint64_t value = 0;
  while (peek() >= '0' && peek() <= '9') {
    value = value * 10 + static_cast<uint64_t>(peek() - '0');
    ++at_;
    if (value > kMaxRepeat) {
      fail_line(line_of(begin), fmt::format("a repetition of more than {} times; that is the limit", kMaxRepeat));
    }
  }
  if (at_ == begin) fail_at(at_, "a number of repetitions");
  return static_cast<uint32_t>(value);
}

NodeId Parser::parse_literal() {
  const size_t begin = at_++;
  std::string text;
  while (!take("\"")) {
    if (at_end() || peek() == '\n') {
      fail_line(line_of(begin), "a literal has no end; close it by '\"', and write line breaks as \\n");
    }
    append_utf8(text, static_cast<char32_t>(parse_character()));
  }
  return builder_.literal(text);
}

NodeId Parser::parse_class() {
  const size_t begin = at_++;
  const bool negated = take("^");
  std::vector<CodeRange> ranges;
  while (!take("]")) {
    if (at_end() || peek() == '\n') {
      fail_line(line_of(begin), "a character class has no end; close it by ']'");
    }
    const uint32_t first = parse_character();
    uint32_t last = first;
    if (peek() == '-' && text_.substr(at_, 2) != "-]") {
      ++at_;
      if (at_end() || peek() == '\n') continue;  // which has no end
      last = parse_character();
    }
    if (last < first) {
      fail_line(line_of(begin),
                fmt::format("the range U+{:04X} to U+{:04X} of a character class falls; turn it around", first, last));
    }
    ranges.push_back({first, last});
  }
  if (ranges.empty() && !negated) {
    fail_line(line_of(begin), "an empty character class matches nothing; name a character, or write [^] for any");
  }
  return builder_.code_class(std::move(ranges), negated);
}

uint32_t Parser::parse_character() {
  if (peek() == '\\') return parse_escape();
  const Utf8Step step = utf8_step(text_, at_);
  at_ += step.size_bytes;
  return static_cast<uint32_t>(step.character);
}

uint32_t Parser::parse_escape() {
  const size_t begin = at_++;
  const char kind = peek();
  ++at_;
  int digits = 0;
  switch (kind) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
      return static_cast<uint32_t>(kind);
    case 'x':
      digits = 2;
      break;
    case 'u':
      digits = 4;
      break;
    case 'U':
      digits = 8;
      break;
    default:
      fail_at(begin, "an escape: \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH \\UHHHHHHHH");
  }
  uint32_t code = 0;
  for (int i = 0; i < digits; ++i, ++at_) {
    const int digit = hex_digit(peek());
    if (digit < 0) fail_at(begin, fmt::format("{} hexadecimal digits behind \\{}", digits, kind));
    code = code << 4 | static_cast<uint32_t>(digit);
  }
  if (code > kMaxCodePoint || (code >= 0xD800 && code <= 0xDFFF)) fail_at(begin, "the number of a character");
  return code;
}

}  // namespace

Ast parse_gbnf(std::string_view text, std::string_view name) {
  return Parser(text, name).parse();
}

}  // namespace minfer::engine::grammar
