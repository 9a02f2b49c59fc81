// Drafts of what a sequence will say next, and who makes them. In a step the engine runs a sequence's last token and a
// draft behind it, and keeps of the draft what the model would have said itself (verify.hpp): several tokens for the
// time of little more than one. A proposer serves one sequence; the engine's thread makes all calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampler/stages.hpp"

namespace minfer::engine {

// Guessed tokens, and for those that were drawn, the distribution that each was drawn from. A guess without one is
// compared with what the model draws by itself. Reused from step to step, so that nothing is allocated.
struct Draft {
  std::vector<int32_t> tokens;
  std::vector<Candidate> candidates;  // of all tokens, one after the other; empty where guesses were not drawn
  std::vector<size_t> ends;           // of each token's candidates

  void clear() {
    tokens.clear();
    candidates.clear();
    ends.clear();
  }
  bool is_drawn() const { return !ends.empty(); }
  std::span<const Candidate> drawn_from(size_t index) const {
    const size_t begin = index == 0 ? 0 : ends[index - 1];
    return std::span(candidates).subspan(begin, ends[index] - begin);
  }
};

// How far a proposer's own model has read a sequence, in tokens: those at the beginning that it left out, those that it
// holds, and those behind them that it has to run before the last one.
struct Lag {
  int64_t left_out = 0;
  int64_t held = 0;
  int64_t behind = 0;
};

class Proposer {
 public:
  virtual ~Proposer() = default;
  // Of `tokens`, as for propose(). Without a model of its own a proposer never lags.
  virtual Lag lag(std::span<const int32_t> /*tokens*/) { return {}; }
  // Runs `rows` tokens, those before the last: where it is behind by as many, it has read what it had and those; else
  // it begins anew with them and leaves out what is before. False where it has no room for them.
  virtual bool catch_up(std::span<const int32_t> /*tokens*/, int64_t /*rows*/) { return true; }
  // Replaces `draft` by at most `most` guesses, perhaps none, of what follows `tokens`: all of the sequence, the last
  // drawn one included. They extend those of the call before, unless reset() came between: whatever of the last draft
  // was accepted is seen from them.
  virtual void propose(std::span<const int32_t> tokens, int64_t most, Draft& draft) = 0;
  // Forgets the sequence, and gives back what it held.
  virtual void reset() = 0;
};

}  // namespace minfer::engine
