// Splits text into the words that byte-level BPE merges within, by the steps of a rule (pre_rules.hpp). Each step is
// applied to the pieces that the one before left; matches and the gaps between them become pieces of their own. The
// engine for expressions is PCRE2 with JIT, compiled once a tokenizer. \s and \S are rewritten to the Unicode
// White_Space property, which PCRE2's own \s is not. Matching needs constant stack, and time linear in the text,
// whatever the text: the rules are written so (pretokenizer_test.cpp). Immutable; scratch belongs to the caller, one
// thread at a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/pre_rules.hpp"

namespace minfer::tokenizer {

class Pretokenizer {
 public:
  // What one thread needs to match: match data and the JIT's stack.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class Pretokenizer;
    struct Handles;
    std::unique_ptr<Handles> handles_;
    std::vector<std::string_view> pieces_;
    std::vector<std::string_view> next_pieces_;
  };

  explicit Pretokenizer(const PretokenizerRule& rule);
  ~Pretokenizer();
  Pretokenizer(const Pretokenizer&) = delete;
  Pretokenizer& operator=(const Pretokenizer&) = delete;

  // The words of well-formed UTF-8 `text`, in order and without gaps; valid until the next call with `scratch`.
  std::span<const std::string_view> split(std::string_view text, Scratch& scratch) const;

 private:
  struct Step;
  std::vector<std::unique_ptr<Step>> steps_;
  bool drops_gaps_;  // what no expression matches is left out
};

}  // namespace minfer::tokenizer
