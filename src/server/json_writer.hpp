// JSON text, written piece by piece: answers have fixed shapes and are made many times a second, so that a document in
// between would be built only to be walked once. Commas are the writer's business; that keys and values alternate is
// the caller's. Text that is not valid UTF-8 is written with U+FFFD in place of its malformed parts, and so is every
// text that may come out of a model; numbers that JSON can't say (NaN, infinities) are written as null. One thread a
// writer. Why not nlohmann's: no ordered document without linear lookups, and a fifth of the speed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "chat/value.hpp"

namespace minfer::server {

class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);
  JsonWriter& string(std::string_view text);
  JsonWriter& integer(int64_t value);
  // The shortest text that reads back as the same number of its type.
  JsonWriter& number(double value);
  JsonWriter& number(float value);
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  // What chat::value_from_json reads: none, booleans, numbers, strings, lists, tuples, dicts with string keys.
  // Error: internal for others.
  JsonWriter& value(const chat::Value& value);
  // JSON text that is complete already, or the first half of a text that the caller completes.
  JsonWriter& raw(std::string_view json);

  std::string take() { return std::move(text_); }

 private:
  void separate();
  void close(char bracket);

  std::string text_;
  bool needs_comma_ = false;
};

// `text` as the inside of a JSON string, added to `out`.
void append_json_escaped(std::string& out, std::string_view text);

}  // namespace minfer::server
