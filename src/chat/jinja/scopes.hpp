// The interpreter's guards for recursion, scopes and output buffers. Included by the interpreter's own sources alone.
#pragma once

#include <utility>

#include "chat/jinja/interpreter.hpp"

namespace minfer::chat::jinja {

class Interpreter::Level {
 public:
  explicit Level(Interpreter& in) : in_(in) {
    if (in_.level_ >= in_.options_.limits.max_depth) {
      raise("the template nests or recurses more than {} levels deep", in_.options_.limits.max_depth);
    }
    ++in_.level_;
  }
  ~Level() { --in_.level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Interpreter& in_;
};

// Puts an existing scope in place and the old one back.
class Enter {
 public:
  Enter(std::shared_ptr<Scope>& place, std::shared_ptr<Scope> scope)
      : place_(place), outer_(std::exchange(place, std::move(scope))) {}
  ~Enter() { place_ = std::move(outer_); }
  Enter(const Enter&) = delete;
  Enter& operator=(const Enter&) = delete;

 private:
  std::shared_ptr<Scope>& place_;
  std::shared_ptr<Scope> outer_;
};

class Interpreter::Inside {
 public:
  Inside(Interpreter& in, std::shared_ptr<Scope> parent)
      : in_(in), enter_(in.scope_, std::make_shared<Scope>(std::move(parent))) {}
  // An empty scope with the same parent: each round of a loop has its own, since a macro may have captured the last.
  void renew() {
    if (in_.scope_.use_count() == 1) {
      in_.scope_->variables.clear();
    } else {
      in_.scope_ = std::make_shared<Scope>(in_.scope_->parent);
    }
  }

 private:
  Interpreter& in_;
  Enter enter_;
};

class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& in) : in_(in), outer_(std::exchange(in.out_, &buffer_)) {}
  ~Capture() { close(); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Ends the capture.
  std::string take() {
    close();
    return std::move(buffer_);
  }

 private:
  void close() {
    if (outer_ == nullptr) return;
    in_.out_ = std::exchange(outer_, nullptr);
    in_.written_bytes_ -= buffer_.size();
  }

  Interpreter& in_;
  std::string buffer_;
  std::string* outer_;
};

}  // namespace minfer::chat::jinja
