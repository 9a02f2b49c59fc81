// JSON text. See json_writer.hpp.
// Runs of plain bytes are copied whole: an answer's text is mostly that.
#include "server/json_writer.hpp"

#include <charconv>
#include <cmath>

#include "base/error.hpp"
#include "base/utf8.hpp"

namespace minfer::server {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_plain(unsigned char byte) {
  return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

void append_escape(std::string& out, char byte) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (byte) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(byte) >> 4];
      out += kHex[static_cast<unsigned char>(byte) & 15];
  }
}

template <class Number>
void append_number(std::string& out, Number value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value);
  out.append(text, end.ptr);
}

}  // namespace

void append_json_escaped(std::string& out, std::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    size_t end = offset;
    while (end < text.size() && is_plain(static_cast<unsigned char>(text[end]))) ++end;
    out.append(text, offset, end - offset);
    offset = end;
    if (offset == text.size()) return;
    if (static_cast<unsigned char>(text[offset]) < 0x80) {
      append_escape(out, text[offset++]);
      continue;
    }
    const Utf8Step step = utf8_step(text, offset);
    if (step.status == Utf8Status::whole) {
      out.append(text, offset, step.size_bytes);
    } else {
      out += kReplacement;
    }
    offset += step.size_bytes;
  }
}

void JsonWriter::separate() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

void JsonWriter::close(char bracket) {
  text_ += bracket;
  needs_comma_ = true;
}

JsonWriter& JsonWriter::begin_object() {
  separate();
  text_ += '{';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::end_object() {
  close('}');
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  separate();
  text_ += '[';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  close(']');
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  string(name);
  text_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::string(std::string_view text) {
  separate();
  text_ += '"';
  append_json_escaped(text_, text);
  text_ += '"';
  return *this;
}

JsonWriter& JsonWriter::integer(int64_t value) {
  separate();
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, value);
  text_.append(text, end.ptr);
  return *this;
}

JsonWriter& JsonWriter::number(double value) {
  separate();
  append_number(text_, value);
  return *this;
}

JsonWriter& JsonWriter::number(float value) {
  separate();
  append_number(text_, value);
  return *this;
}

JsonWriter& JsonWriter::boolean(bool value) {
  return raw(value ? "true" : "false");
}

JsonWriter& JsonWriter::null() {
  return raw("null");
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

JsonWriter& JsonWriter::value(const chat::Value& value) {
  switch (value.kind()) {
    case chat::Kind::none:
      return null();
    case chat::Kind::boolean:
      return boolean(value.as_bool());
    case chat::Kind::integer:
      return integer(value.as_int());
    case chat::Kind::floating:
      return number(value.as_double());
    case chat::Kind::string:
      return string(value.as_string());
    case chat::Kind::list:
    case chat::Kind::tuple:
      begin_array();
      for (const chat::Value& item : value.items()) this->value(item);
      return end_array();
    case chat::Kind::dict:
      begin_object();
      for (const auto& [name, item] : value.as_dict().entries()) key(name.as_string()).value(item);
      return end_object();
    case chat::Kind::undefined:
    case chat::Kind::object:
      break;
  }
  check(false, "a JSON value is none, a boolean, a number, a string, a list or a dict");
  return *this;
}

}  // namespace minfer::server
