// The failures inside the interpreter, before Template turns them into minfer::Error with the template's name, the line
// and the construct. They never leave the room.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace minfer::chat::jinja {

// The template text is wrong.
struct SyntaxError {
  int line;
  std::string message;
};

// Rendering failed; the interpreter knows the line.
struct RenderFailure {
  std::string message;
  std::string construct;     // "filter 'join'", ...; empty: the statement at the line
  bool by_template = false;  // raise_exception: `message` is the template's own
};

template <class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw RenderFailure{fmt::format(format, std::forward<Args>(args)...), {}};
}

template <class... Args>
[[noreturn]] void syntax_error(int line, fmt::format_string<Args...> format, Args&&... args) {
  throw SyntaxError{line, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace minfer::chat::jinja
