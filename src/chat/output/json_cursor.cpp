// The cursor; values are skipped by the scanner.
#include "chat/output/json_cursor.hpp"

#include "base/error.hpp"
#include "chat/output/json_scanner.hpp"
#include "chat/output_parser.hpp"
#include "chat/value.hpp"

namespace minfer::chat::output {

char JsonCursor::peek() {
  at_ = after_space(text_, at_);
  if (at_ < text_.size()) return text_[at_];
  fit_ = final_ ? Fit::no : Fit::more;
  return '\0';
}

bool JsonCursor::eat(char byte) {
  const char next = peek();
  if (fit_ != Fit::yes) return false;
  if (next != byte) return fails(Fit::no);
  ++at_;
  return true;
}

bool JsonCursor::string(std::string& value) {
  const char next = peek();
  if (fit_ != Fit::yes) return false;
  std::string_view text;
  if (next != '"') return fails(Fit::no);
  if (!skip(text)) return false;
  std::string json;
  if (!read_json(text, 1, json)) return fails(Fit::no);
  try {
    value = value_from_json(json).as_string();
  } catch (const Error&) {  // half a character
    return fails(Fit::no);
  }
  return true;
}

bool JsonCursor::skip(std::string_view& value) {
  (void)peek();
  if (fit_ != Fit::yes) return false;
  JsonScanner scanner(kMaxArgumentDepth);
  std::string json;
  const Match match = scanner.read(text_.substr(at_), final_, json);
  if (match.fit != Fit::yes) return fails(match.fit);
  value = text_.substr(at_, match.size);
  at_ += match.size;
  return true;
}

}  // namespace minfer::chat::output
