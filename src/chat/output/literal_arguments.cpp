// Arguments written as key:value pairs of Gemma 4 or key=value pairs of Python: words, numbers, quoted text, lists and
// dictionaries, turned into JSON while they come. Escapes inside Python's quotes are Python's.
#include <algorithm>
#include <utility>

#include "base/utf8.hpp"
#include "chat/output/argument_readers.hpp"
#include "chat/output/json_scanner.hpp"

namespace minfer::chat::output {

namespace {

constexpr std::string_view kGemmaQuote = "<|\"|>";
constexpr std::string_view kWordEnds = ",:=]}) \n\t\r";
constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
constexpr size_t kMostWordBytes = 4096;
constexpr size_t kNone = std::string_view::npos;

class LiteralReader final : public ArgumentReader {
 public:
  explicit LiteralReader(ArgumentStyle style) : python_(style == ArgumentStyle::python) {}

  Match read(std::string_view text, bool final, std::string& out) override {
    (void) final;  // the arguments have a mark of their end
    if (brackets_.empty()) {
      brackets_ = python_ ? "(" : "{";
      out += '{';
    }
    for (size_t at = 0;;) {
      const Match match = step(text.substr(at), out);
      at += match.size;
      if (match.fit != Fit::yes || place_ == Place::over) return {match.fit, at};
    }
  }

 private:
  enum class Place : uint8_t { key, colon, value, next, over };

  bool in_dict() const { return brackets_.size() == 1 || brackets_.back() == '{'; }

  Match step(std::string_view text, std::string& out) {
    if (!quote_.empty()) return quote_ == kGemmaQuote ? read_marked_text(text, out) : read_quoted_text(text, out);
    const size_t space = after_space(text);
    const std::string_view rest = text.substr(space);
    if (rest.empty()) return {Fit::more, space};
    Match match;
    switch (place_) {
      case Place::key:
        match = rest.front() == end_bracket() ? close(out) : read_item(rest, out);
        break;
      case Place::colon:
        match = read_colon(rest, out);
        break;
      case Place::value:
        match = !in_dict() && rest.front() == end_bracket() ? close(out) : read_item(rest, out);
        break;
      default:
        match = read_next(rest, out);
    }
    match.size += space;
    return match;
  }

  char end_bracket() const {
    if (brackets_.back() == '(') return ')';
    return brackets_.back() == '{' ? '}' : ']';
  }

  Match close(std::string& out) {
    const bool dict = in_dict();
    const bool last = brackets_.size() == 1;
    out += dict ? '}' : ']';
    item_follows_ = true;
    if (last) {
      place_ = Place::over;
      return {Fit::yes, 0};  // the bracket belongs to what follows the arguments
    }
    brackets_.pop_back();
    place_ = Place::next;
    return {Fit::yes, 1};
  }

  Match read_colon(std::string_view rest, std::string& out) {
    if (rest.front() != (python_ && brackets_.size() == 1 ? '=' : ':')) return {Fit::no};
    out += ": ";
    place_ = Place::value;
    return {Fit::yes, 1};
  }

  Match read_next(std::string_view rest, std::string& out) {
    if (rest.front() == end_bracket()) return close(out);
    if (rest.front() != ',') return {Fit::no};
    place_ = in_dict() ? Place::key : Place::value;
    return {Fit::yes, 1};
  }

  // A key or a value begins.
  Match read_item(std::string_view rest, std::string& out) {
    const bool key = place_ == Place::key;
    const char first = rest.front();
    if (!python_) {
      const Match mark = match_exact(rest, kGemmaQuote, false);
      if (mark.fit == Fit::more) return mark;
      if (mark.fit == Fit::yes) return open_quote(kGemmaQuote, out);
    }
    if (first == '"' || first == '\'') return open_quote(rest.substr(0, 1), out);
    if (!key && (first == '{' || first == '[' || (first == '(' && python_))) return open_bracket(first, out);
    const size_t size = rest.find_first_of(kWordEnds);
    if (std::min(size, rest.size()) > kMostWordBytes || size == 0) return {Fit::no};
    if (size == std::string_view::npos) return {Fit::more};
    const std::string_view word = rest.substr(0, size);
    std::string json;
    if (key || !read_json(word, 1, json)) {
      if (python_ && (!key || brackets_.size() > 1)) return {Fit::no};
      json = "\"";
      append_escaped(json, word);
      json += '"';
    }
    begin_item(out);
    out += json;
    end_item();
    return {Fit::yes, size};
  }

  void begin_item(std::string& out) {
    const bool behind_colon = place_ == Place::value && in_dict();
    if (!behind_colon && item_follows_) out += ", ";
    item_follows_ = false;
  }

  void end_item() {
    item_follows_ = true;
    place_ = place_ == Place::key ? Place::colon : Place::next;
  }

  Match open_quote(std::string_view quote, std::string& out) {
    begin_item(out);
    out += '"';
    quote_ = quote;
    return {Fit::yes, quote.size()};
  }

  Match open_bracket(char bracket, std::string& out) {
    if (brackets_.size() >= kMaxArgumentDepth) return {Fit::no};
    begin_item(out);
    brackets_ += bracket;
    out += bracket == '{' ? '{' : '[';
    place_ = bracket == '{' ? Place::key : Place::value;
    return {Fit::yes, 1};
  }

  Match end_quote(size_t size, std::string& out) {
    out += '"';
    quote_.clear();
    end_item();
    return {Fit::yes, size};
  }

  Match read_marked_text(std::string_view text, std::string& out) {
    const size_t end = text.find(kGemmaQuote);
    const bool whole = end != std::string_view::npos;
    const std::string_view mark = kGemmaQuote;
    const size_t size = whole ? end : certain_bytes(text, {&mark, 1});
    append_escaped(out, text.substr(0, size));
    if (!whole) return {Fit::more, size};
    return end_quote(end + kGemmaQuote.size(), out);
  }

  Match read_quoted_text(std::string_view text, std::string& out) {
    for (size_t at = 0; at < text.size();) {
      const size_t plain = std::min(text.find_first_of(quote_ + "\\", at), text.size());
      append_escaped(out, text.substr(at, plain - at));
      at = plain;
      if (at == text.size()) break;
      if (text[at] != '\\') return end_quote(at + 1, out);
      const Match escape = read_escape(text.substr(at), out);
      if (escape.fit != Fit::yes) return {escape.fit, at};
      at += escape.size;
    }
    return {Fit::more, text.size()};
  }

  // A backslash and what belongs to it. An escape that Python does not know stands for itself.
  Match read_escape(std::string_view text, std::string& out) {
    if (text.size() < 2) return {Fit::more};
    constexpr std::string_view kNames = "\\'\"nrtbf0/";
    constexpr std::string_view kMeanings{"\\'\"\n\r\t\b\f\0/", 10};
    if (text[1] == '\n') return {Fit::yes, 2};
    if (const size_t i = kNames.find(text[1]); i != std::string_view::npos) {
      append_escaped(out, kMeanings.substr(i, 1));
      return {Fit::yes, 2};
    }
    const size_t digits = text[1] == 'x' ? 2 : text[1] == 'u' ? 4 : text[1] == 'U' ? 8 : 0;
    if (text.size() < 2 + digits) return {Fit::more};
    const std::string_view number = text.substr(2, digits);
    const bool hex = number.find_first_not_of(kHexDigits) == kNone;
    if (digits == 0 || !hex) {
      append_escaped(out, text.substr(0, 1));
      return {Fit::yes, 1};
    }
    return write_code(text, digits, out);
  }

  Match write_code(std::string_view text, size_t digits, std::string& out) {
    const std::string_view number = text.substr(2, digits);
    const auto code = static_cast<uint32_t>(std::stoul(std::string(number), nullptr, 16));
    if (code >= 0xD800 && code < 0xDC00 && digits == 4) {  // half of a character: with the other half
      constexpr size_t kBoth = 12;
      if (text.size() < kBoth) return {Fit::more};
      const std::string_view other = text.substr(8, 4);
      const bool low = (other[0] == 'd' || other[0] == 'D') && std::string_view("cdefCDEF").find(other[1]) != kNone;
      if (text.substr(6, 2) != "\\u" || !low || other.find_first_not_of(kHexDigits) != kNone) return {Fit::no};
      out += text.substr(0, kBoth);
      return {Fit::yes, kBoth};
    }
    std::string character;
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {Fit::no};
    append_utf8(character, code);
    append_escaped(out, character);
    return {Fit::yes, 2 + digits};
  }

  const bool python_;
  Place place_ = Place::key;
  std::string brackets_;       // those that are open, the call's own first
  std::string quote_;          // of the text that is being read
  bool item_follows_ = false;  // an item stands before, in the same brackets
};

}  // namespace

std::unique_ptr<ArgumentReader> make_literal_reader(ArgumentStyle style) {
  return std::make_unique<LiteralReader>(style);
}

}  // namespace minfer::chat::output
