// Parsing of targets and hosts. See target.hpp.
// Every character class is written out: the C library's depend on the locale.
#include "server/http/target.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/utf8.hpp"

namespace minfer::server {
namespace {

constexpr std::string_view kSchemes[] = {"http://", "https://"};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool starts_with_word(std::string_view text, std::string_view word) {
  return text.size() >= word.size() &&
         std::equal(word.begin(), word.end(), text.begin(), [](char a, char b) { return lower(a) == lower(b); });
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

bool is_control(unsigned char c) {
  return c < 0x20 || c == 0x7F;
}

// What may stand in a target as it is. The query's text is passed on as it came.
void check_characters(std::string_view target) {
  for (const char c : target) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_control(byte) || byte >= 0x80 || c == ' ' || c == '#' || c == '\\') {
      fail(ErrorCode::invalid_input,
           "the request's target has the byte 0x{:02X} in it, which has to be written as %{:02X}", byte, byte);
    }
  }
}

std::string decode_path(std::string_view path) {
  std::string decoded;
  decoded.reserve(path.size());
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      decoded += path[i];
      continue;
    }
    const int high = i + 2 < path.size() ? hex_digit(path[i + 1]) : -1;
    const int low = i + 2 < path.size() ? hex_digit(path[i + 2]) : -1;
    if (high < 0 || low < 0) {
      fail(ErrorCode::invalid_input, "the request's path has a '%' that two hexadecimal digits don't follow");
    }
    const auto byte = static_cast<unsigned char>(high * 16 + low);
    if (is_control(byte)) fail(ErrorCode::invalid_input, "the request's path has the control character %{:02X}", byte);
    decoded += static_cast<char>(byte);
    i += 2;
  }
  if (find_malformed_utf8(decoded) != std::string::npos)
    fail(ErrorCode::invalid_input, "the request's path is not UTF-8");
  return decoded;
}

}  // namespace

Target parse_target(std::string_view target) {
  check_characters(target);
  if (target == "*") return {"*", ""};
  for (const std::string_view scheme : kSchemes) {
    if (!starts_with_word(target, scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::string_view authority = target.substr(0, target.find_first_of("/?"));
    if (authority.empty() || !is_valid_host(authority)) {
      fail(ErrorCode::invalid_input, "the request's target names no valid host");
    }
    target.remove_prefix(authority.size());
    break;
  }
  const size_t mark = std::min(target.find('?'), target.size());
  const std::string_view path = target.substr(0, mark);
  Target parsed;
  if (mark < target.size()) parsed.query = target.substr(mark + 1);
  // "http://host" without a path is its root.
  parsed.path = path.empty() ? "/" : decode_path(path);
  if (parsed.path[0] != '/') {
    fail(ErrorCode::invalid_input, "the request's target does not begin with '/'; expected a path");
  }
  return parsed;
}

bool is_valid_host(std::string_view host) {
  return std::all_of(host.begin(), host.end(), [](char c) {
    const char l = lower(c);
    return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view("-._~:[]%").find(c) != std::string_view::npos;
  });
}

}  // namespace minfer::server
