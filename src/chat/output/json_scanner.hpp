// Reads one JSON value that is still being written, and writes it on as it comes, in pieces that never cut an escape.
// Two things that models write and JSON forbids are put right: control characters inside strings are escaped, and
// Python's True, False and None become true, false and null. Anything else that is no JSON ends the reading.
// Source: https://www.rfc-editor.org/rfc/rfc8259. One value, one thread. Limit: the depth given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "chat/output/text_match.hpp"

namespace minfer::chat::output {

class JsonScanner {
 public:
  explicit JsonScanner(uint32_t max_depth) : max_depth_(max_depth) {}

  // Reads from the front of `text`, appends what is certain to `out`. The result: yes: the value is whole, `size` bytes
  // were read; more: all of `text` was read; no: `size` bytes were read, what follows is no JSON. A value that has no
  // mark of its end (a number, a word) is whole where something else follows, or with `final`.
  Match read(std::string_view text, bool final, std::string& out);

 private:
  enum class Place : uint8_t { value, first_item, first_key, key, colon, next, string, word, number, over };

  bool take(char byte, std::string& out);
  bool take_value(char byte, std::string& out);
  bool take_string(char byte, std::string& out);
  bool take_escape(char byte, std::string& out);
  bool take_next(char byte, std::string& out);
  bool open(char bracket, std::string& out);
  bool close(char bracket, std::string& out);
  bool end_word(std::string& out);
  bool end_number(std::string& out);
  void end_value();

  uint32_t max_depth_;
  Place place_ = Place::value;
  bool in_key_ = false;
  std::string brackets_;  // those that are open
  std::string held_;      // an escape, a word or a number so far
};

// Whether `text` is one JSON value and nothing else; `json` is it, put right as above.
bool read_json(std::string_view text, uint32_t max_depth, std::string& json);

}  // namespace minfer::chat::output
