// Walks over JSON text that may not be complete yet, without keeping anything: for the few fields in front of a call's
// arguments. Once a step fails, fit() tells whether more text could have helped. Recursion is limited by
// kMaxArgumentDepth.
#pragma once

#include <string>
#include <string_view>

#include "chat/output/text_match.hpp"

namespace minfer::chat::output {

class JsonCursor {
 public:
  JsonCursor(std::string_view text, size_t at, bool final) : text_(text), at_(at), final_(final) {}

  size_t at() const { return at_; }
  Fit fit() const { return fit_; }
  // The next byte behind whitespace; 0 (and a failure) at the end of the text.
  char peek();
  bool eat(char byte);
  // What was read is not what is looked for.
  bool refuse() { return fails(Fit::no); }
  // A string; `value` is its meaning (escapes of half characters stay as they are).
  bool string(std::string& value);
  // Any value; its text is `value`.
  bool skip(std::string_view& value);

 private:
  bool fails(Fit fit) {
    fit_ = fit;
    return false;
  }

  std::string_view text_;
  size_t at_;
  bool final_;
  Fit fit_ = Fit::yes;
};

}  // namespace minfer::chat::output
