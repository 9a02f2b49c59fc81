// The scanner: one byte at a time, a stack of open brackets and a place in the grammar.
#include "chat/output/json_scanner.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace minfer::chat::output {

namespace {

constexpr size_t kMostWordBytes = 5;
constexpr size_t kMostNumberBytes = 512;
constexpr size_t kEscapeBytes = 6;  // \uXXXX

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}
bool is_letter(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}
bool is_hex(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}
bool is_number_byte(char byte) {
  return is_digit(byte) || byte == '-' || byte == '+' || byte == '.' || byte == 'e' || byte == 'E';
}

// \uD800 to \uDBFF: half of a character.
bool is_high_surrogate(std::string_view escape) {
  if (escape.size() != kEscapeBytes || (escape[2] != 'd' && escape[2] != 'D')) return false;
  return escape[3] == '8' || escape[3] == '9' || escape[3] == 'a' || escape[3] == 'b' || escape[3] == 'A' ||
         escape[3] == 'B';
}

bool is_number(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t start = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at > start;
  };
  const auto at_one_of = [&](std::string_view bytes) {
    return at < text.size() && bytes.find(text[at]) != std::string_view::npos;
  };
  if (at_one_of("-")) ++at;
  const bool zero = at_one_of("0");
  const size_t start = at;
  if (!digits() || (zero && at > start + 1)) return false;
  if (at_one_of(".")) {
    ++at;
    if (!digits()) return false;
  }
  if (at_one_of("eE")) {
    ++at;
    if (at_one_of("+-")) ++at;
    if (!digits()) return false;
  }
  return at == text.size();
}

}  // namespace

Match JsonScanner::read(std::string_view text, bool final, std::string& out) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (!take(text[at], out)) return {Fit::no, at};
    if (place_ != Place::over) continue;
    // A word or a number is over at the byte behind it, which is not its own.
    const bool own = text[at] == '}' || text[at] == ']' || text[at] == '"';
    const bool bracket_or_quote = own && std::exchange(held_, {}).empty();
    return {Fit::yes, bracket_or_quote ? at + 1 : at};
  }
  if (final && place_ == Place::word && end_word(out)) return {Fit::yes, text.size()};
  if (final && place_ == Place::number && end_number(out)) return {Fit::yes, text.size()};
  return {final ? Fit::no : Fit::more, text.size()};
}

bool JsonScanner::take(char byte, std::string& out) {
  switch (place_) {
    case Place::string:
      return take_string(byte, out);
    case Place::word:
      if (is_letter(byte)) {
        held_ += byte;
        return held_.size() <= kMostWordBytes;
      }
      if (!end_word(out)) return false;
      return place_ == Place::over || take_next(byte, out);
    case Place::number:
      if (is_number_byte(byte)) {
        held_ += byte;
        return held_.size() <= kMostNumberBytes;
      }
      if (!end_number(out)) return false;
      return place_ == Place::over || take_next(byte, out);
    case Place::over:
      return false;
    default:
      break;
  }
  if (is_space(byte)) {
    out += byte;
    return true;
  }
  switch (place_) {
    case Place::first_key:
      if (byte == '}') return close(byte, out);
      [[fallthrough]];
    case Place::key:
      if (byte != '"') return false;
      in_key_ = true;
      place_ = Place::string;
      out += byte;
      return true;
    case Place::colon:
      if (byte != ':') return false;
      place_ = Place::value;
      out += byte;
      return true;
    case Place::next:
      return take_next(byte, out);
    case Place::first_item:
      if (byte == ']') return close(byte, out);
      [[fallthrough]];
    default:
      return take_value(byte, out);
  }
}

bool JsonScanner::take_value(char byte, std::string& out) {
  if (byte == '{' || byte == '[') return open(byte, out);
  if (byte == '"') {
    in_key_ = false;
    place_ = Place::string;
    out += byte;
    return true;
  }
  if (is_letter(byte)) {
    place_ = Place::word;
  } else if (byte == '-' || is_digit(byte)) {
    place_ = Place::number;
  } else {
    return false;
  }
  held_ = byte;
  return true;
}

bool JsonScanner::take_string(char byte, std::string& out) {
  const size_t part = held_.size() % kEscapeBytes;  // of the escape that is being written
  if (part > 0) return take_escape(byte, out);
  if (byte == '\\') {
    if (!is_high_surrogate(held_)) out += std::exchange(held_, {});
    held_ += byte;
    return true;
  }
  out += std::exchange(held_, {});
  if (byte != '"') {
    append_escaped(out, {&byte, 1});
    return true;
  }
  out += byte;
  if (in_key_) {
    place_ = Place::colon;
  } else {
    end_value();
  }
  return true;
}

// held_ is [half a character's escape] and the beginning of an escape.
bool JsonScanner::take_escape(char byte, std::string& out) {
  held_ += byte;
  const size_t size = held_.size() % kEscapeBytes;
  if (size == 2 && byte != 'u') {
    if (std::string_view("\"\\/bfnrt").find(byte) == std::string_view::npos) return false;
    out += std::exchange(held_, {});
  } else if (size != 2 && !is_hex(byte)) {
    return false;
  } else if (size == 0 && !is_high_surrogate(held_)) {
    out += std::exchange(held_, {});
  }
  return true;
}

bool JsonScanner::take_next(char byte, std::string& out) {
  if (is_space(byte)) {
    out += byte;
    return true;
  }
  if (byte == '}' || byte == ']') return close(byte, out);
  if (byte != ',') return false;
  out += byte;
  place_ = brackets_.back() == '{' ? Place::key : Place::value;
  return true;
}

bool JsonScanner::open(char bracket, std::string& out) {
  if (brackets_.size() >= max_depth_) return false;
  brackets_ += bracket;
  out += bracket;
  place_ = bracket == '{' ? Place::first_key : Place::first_item;
  return true;
}

bool JsonScanner::close(char bracket, std::string& out) {
  if (brackets_.empty() || brackets_.back() != (bracket == '}' ? '{' : '[')) return false;
  brackets_.pop_back();
  out += bracket;
  end_value();
  return true;
}

bool JsonScanner::end_word(std::string& out) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kWords = {
      {{"true", "true"}, {"false", "false"}, {"null", "null"}, {"True", "true"}, {"False", "false"}, {"None", "null"}}};
  const auto* word = std::find_if(kWords.begin(), kWords.end(), [&](const auto& row) { return row.first == held_; });
  if (word == kWords.end()) return false;
  out += word->second;
  end_value();
  if (place_ != Place::over) held_.clear();
  return true;
}

bool JsonScanner::end_number(std::string& out) {
  if (!is_number(held_)) return false;
  out += held_;
  end_value();
  if (place_ != Place::over) held_.clear();
  return true;
}

void JsonScanner::end_value() {
  place_ = brackets_.empty() ? Place::over : Place::next;
}

bool read_json(std::string_view text, uint32_t max_depth, std::string& json) {
  JsonScanner scanner(max_depth);
  const Match match = scanner.read(text, true, json);
  return match.fit == Fit::yes && after_space(text, match.size) == text.size();
}

}  // namespace minfer::chat::output
