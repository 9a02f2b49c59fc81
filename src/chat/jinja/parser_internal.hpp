// The two guards that both halves of the parser use. See parser.hpp.
#pragma once

#include "chat/jinja/failure.hpp"
#include "chat/jinja/parser.hpp"

namespace minfer::chat::jinja {

class Parser::Nested {
 public:
  explicit Nested(Parser& parser) : parser_(parser) {
    if (++parser_.nesting_ > kMaxNesting) {
      syntax_error(parser_.current().line, "the template nests more than {} levels", kMaxNesting);
    }
  }
  ~Nested() { --parser_.nesting_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Parser& parser_;
};

class Parser::Isolated {
 public:
  Isolated(Parser& parser, bool is_function)
      : parser_(parser), conditional_(parser.conditional_), loops_(parser.loops_) {
    parser_.conditional_ = false;
    if (is_function) parser_.loops_ = 0;
    parser_.open_frame();
  }
  ~Isolated() {
    parser_.close_frame();
    parser_.conditional_ = conditional_;
    parser_.loops_ = loops_;
  }
  Isolated(const Isolated&) = delete;
  Isolated& operator=(const Isolated&) = delete;

 private:
  Parser& parser_;
  bool conditional_;
  int loops_;
};

}  // namespace minfer::chat::jinja
