// Compiling, and one generation's place in a grammar, as a frontier of the explorer that all matchers of the grammar
// share. See grammar.hpp.
#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "engine/grammar/compiled_grammar.hpp"

namespace minfer::engine::grammar {
namespace {

// The only bit that is set, -1: none or several.
int32_t only_bit(std::span<const uint32_t> mask) {
  int32_t found = -1;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    if (found >= 0 || (mask[i] & (mask[i] - 1)) != 0) return -1;
    found = static_cast<int32_t>(i * 32) + __builtin_ctz(mask[i]);
  }
  return found;
}

}  // namespace

std::shared_ptr<const Grammar> compile(const Ast& ast, std::shared_ptr<const TokenTable> tokens) {
  Automaton automaton = compile_automaton(ast, *tokens);
  return std::make_shared<Grammar>(std::move(automaton), std::move(tokens));
}

bool is_spent(const Grammar& grammar) {
  return grammar.is_spent;
}

size_t vocabulary_size(const Grammar& grammar) {
  return grammar.tokens->vocabulary();
}

struct Matcher::State {
  explicit State(std::shared_ptr<const Grammar> compiled)
      : grammar(std::move(compiled)), mask(grammar->tokens->mask_words()) {}

  // Runs `act` on the grammar's places, where `now` is one of them; once more where they were full. `tokens` were drawn
  // since the last time.
  template <class Act>
  void run(size_t tokens, Act act);
  template <class Act>
  void attempt(Act act);
  void move(std::shared_ptr<Explorer> to);
  FrontierId after(int32_t token) const;
  void set_flags();

  std::shared_ptr<const Grammar> grammar;
  std::shared_ptr<Explorer> places;
  FrontierId now = kDead;
  bool may_end = false;
  bool is_over = false;
  std::vector<uint32_t> mask;
  bool has_mask = false;
  std::optional<int32_t> forced;
};

void Matcher::State::move(std::shared_ptr<Explorer> to) {
  if (places == to) return;
  if (places != nullptr) now = to->import(*places, now);
  places = std::move(to);
}

template <class Act>
void Matcher::State::attempt(Act act) {
  Explorer& explorer = *grammar->places;
  explorer.reset_work(grammar->work_left);
  // Whatever comes of it, its work is done.
  struct Count {
    ~Count() {
      grammar.work_left = of.work_left();
      if (grammar.work_left == 0) grammar.is_spent = true;
    }
    const Explorer& of;
    const Grammar& grammar;
  } const count{explorer, *grammar};
  if (places == nullptr) {
    now = explorer.start();
    places = grammar->places;
  }
  move(grammar->places);
  act();
}

template <class Act>
void Matcher::State::run(size_t tokens, Act act) {
  const std::lock_guard lock(grammar->mutex);
  grammar->work_left = std::min(kMaxExplorerWork, grammar->work_left + tokens * kTokenWork);
  try {
    return attempt(act);
  } catch (const ExplorerFull&) {
    grammar->places = std::make_shared<Explorer>(grammar->automaton);
    grammar->masks.forget_parts();
  }
  try {
    attempt(act);
  } catch (const ExplorerFull&) {
    fail(ErrorCode::invalid_input,
         "grammar: the text has brought it to a place that takes more than {} bytes to go on from; nest less, or make "
         "fewer alternatives match the same text",
         kMaxExplorerBytes);
  }
}

FrontierId Matcher::State::after(int32_t token) const {
  if (grammar->tokens->ends(token)) {
    check(may_end, "the end of a generation within a grammar's text");
    return kDead;
  }
  FrontierId frontier = now;
  const auto& controls = grammar->automaton.control_tokens;
  const auto control = std::find(controls.begin(), controls.end(), token);
  if (control != controls.end()) {
    frontier = places->step(frontier, static_cast<Symbol>(kFirstControlSymbol + (control - controls.begin())));
  } else {
    const std::string_view text = grammar->tokens->text(token);
    check(!text.empty(), "a token that no grammar allows");
    for (const char c : text) frontier = places->step(frontier, static_cast<uint8_t>(c));
  }
  check(frontier != kDead, "a token that the grammar does not allow");
  return frontier;
}

void Matcher::State::set_flags() {
  may_end = now != kDead && places->may_end(now);
  is_over = now == kDead || (may_end && places->configs(now).empty());
  has_mask = false;
  forced.reset();
}

Matcher::Matcher(std::shared_ptr<const Grammar> grammar) : state_(std::make_unique<State>(std::move(grammar))) {
  state_->run(0, [&] { state_->set_flags(); });
}

Matcher::~Matcher() = default;
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;

std::span<const uint32_t> Matcher::mask() {
  if (!state_->has_mask) {
    state_->run(0, [&] { state_->grammar->masks.find(*state_->places, state_->now, state_->mask); });
    state_->has_mask = true;
  }
  return state_->mask;
}

int32_t Matcher::forced() {
  if (!state_->forced) state_->forced = only_bit(mask());
  return *state_->forced;
}

void Matcher::accept(int32_t token) {
  check(token >= 0 && static_cast<size_t>(token) < state_->grammar->tokens->vocabulary(), "a token of the vocabulary");
  // Forced tokens come many in one step.
  const size_t drawn = state_->forced.value_or(-1) < 0 ? 1 : 0;
  state_->run(drawn, [&] {
    state_->now = state_->after(token);
    state_->set_flags();
  });
}

bool Matcher::is_complete() const {
  return state_->may_end;
}

bool Matcher::is_over() const {
  return state_->is_over;
}

}  // namespace minfer::engine::grammar
