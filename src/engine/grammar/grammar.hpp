// A compiled grammar: a pushdown automaton over bytes, and for one vocabulary what each of its states lets through.
// Compiling and masks are bounded in steps and bytes (automaton.hpp, explorer.hpp: below a second and 64 MB): a hostile
// grammar is an error, not a hang. Immutable but for a cache of masks that is filled as states are met; any number of
// threads and matchers share one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/ast.hpp"
#include "tokenizer/tokenizer.hpp"

namespace minfer::engine::grammar {

// The bytes of a model's tokens, sorted and in a form in which all can be matched at once. Made once a model; shared by
// all its grammars. Control and unknown tokens are never matched by a grammar, with two exceptions: where it may end,
// those that end a generation; and a control token (not such a one) by a literal that is exactly its text.
class TokenTable;
std::shared_ptr<const TokenTable> make_token_table(const tokenizer::Tokenizer& tokenizer);

class Grammar;
// Begins the message of every error of a grammar that is compiled, or brings a matcher to a limit.
inline constexpr std::string_view kErrorPrefix = "grammar: ";
// Errors: invalid_input for a grammar that can't be compiled: a rule that begins with itself (left recursion), by name;
// limits; that no text matches.
std::shared_ptr<const Grammar> compile(const Ast& ast, std::shared_ptr<const TokenTable> tokens);

// An answer has used its allowance of steps up (Matcher::mask): no other goes on, nor begins. Compiled anew, it has a
// new one. Any thread.
bool is_spent(const Grammar& grammar);

// Tokens of the vocabulary that it was compiled for.
size_t vocabulary_size(const Grammar& grammar);

// Where one generation stands in its grammar. One thread. The sampler asks for the mask, then tells the token.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const Grammar> grammar);
  ~Matcher();
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;

  // Bit t % 32 of word t / 32: whether token t may come next; [ceil(vocabulary / 32)]. Valid until the next call.
  // Errors: invalid_input where the grammar is too ambiguous: its answers share an allowance of steps, which grows with
  // the tokens that are drawn (explorer.hpp).
  std::span<const uint32_t> mask();
  // The only token that may come next, or -1 where there are several. Errors: those of mask().
  int32_t forced();
  // `token` is one that mask() allows (checked: internal). Errors: those of mask().
  void accept(int32_t token);
  // The text so far is a whole match (it may still go on).
  bool is_complete() const;
  // Nothing may follow but the end of generation.
  bool is_over() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace minfer::engine::grammar
