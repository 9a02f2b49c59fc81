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

class Proposer {
 public:
  virtual ~Proposer() = default;
  // Replaces `draft` by at most `most` guesses, perhaps none, of what follows `tokens`: all of the sequence, the last
  // drawn one included. They extend those of the call before, unless reset() came between: whatever of the last draft
  // was accepted is seen from them.
  virtual void propose(std::span<const int32_t> tokens, int64_t most, Draft& draft) = 0;
  // Forgets the sequence, and gives back what it held.
  virtual void reset() = 0;
};

}  // namespace minfer::engine
