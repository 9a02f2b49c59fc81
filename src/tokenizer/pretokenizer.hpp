// Splits text into the words that byte-level BPE merges within. A rule is a row of one table: names, a list of regular
// expressions, and flags. Each expression is applied to the pieces that the one before left; matches and the gaps
// between them become pieces of their own. The engine is PCRE2 with JIT, compiled once a tokenizer. Expressions are
// written as published; \s and \S are rewritten to the Unicode White_Space property, which PCRE2's own \s is not. Every
// expression consists of single-character repeats: matching needs constant stack, and time linear in the text.
// Immutable; scratch belongs to the caller, one thread at a time.
// Source: the published tokenizer.json files of the models; names as model files spell them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minfer::tokenizer {

struct PretokenizerRule {
  std::vector<std::string_view> names;  // the first is canonical
  std::vector<std::string_view> patterns;
  bool normalize_nfc = false;  // text is put into form C first
  bool ignore_merges = false;  // a word that is a token is taken whole, whatever the merges say
  bool add_bos = false;        // where the file does not say
};

// The row of `name`. Errors: unsupported, listing the known names.
const PretokenizerRule& find_pretokenizer_rule(std::string_view name);

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
  struct Pattern;
  std::vector<std::unique_ptr<Pattern>> patterns_;
};

}  // namespace minfer::tokenizer
