// What stands behind Grammar (grammar.hpp): the automaton, and what was found while running it, shared by all matchers
// under one mutex, held for the length of a mask or a token. Internal to engine/grammar.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/grammar/automaton.hpp"
#include "engine/grammar/explorer.hpp"
#include "engine/grammar/grammar.hpp"
#include "engine/grammar/masks.hpp"
#include "engine/grammar/token_table.hpp"

namespace minfer::engine::grammar {

class Grammar {
 public:
  Grammar(Automaton compiled, std::shared_ptr<const TokenTable> table)
      : tokens(std::move(table)),
        automaton(std::move(compiled)),
        places(std::make_shared<Explorer>(automaton)),
        masks(automaton, *tokens) {}

  const std::shared_ptr<const TokenTable> tokens;
  const Automaton automaton;

  mutable std::mutex mutex;
  // Of this: where the matchers are. One that is full is replaced; matchers move as they come by.
  mutable std::shared_ptr<Explorer> places;
  mutable Masks masks;
  mutable size_t work_left = kMaxExplorerWork;  // see there; all matchers share it
  mutable std::atomic<bool> is_spent = false;   // an answer has needed more; any thread
};

}  // namespace minfer::engine::grammar
