// Guesses by a smaller model of the same vocabulary. It runs the sequence in a KV cache of its own and drafts one token
// after the other: the likeliest, or drawn by the same sampler parameters with a seed of its own (not by Mirostat,
// whose state belongs to the target's draws alone). More of what is drawn is accepted, but then the tokens of a seed
// depend on where drafts began and ended; with the likeliest they are those of plain decoding whatever is drafted. Only
// tokens that the target has accepted become part of the draft model's sequence; drafts lie in pages that are reserved
// behind them. So a rejection takes nothing back, and models with window attention need no special care.
//
// Limits: a call runs at most the runner's batch_tokens beside the drafts: after a long prompt it takes several calls,
// without a guess, to catch up. It need not read all of the text: catch_up() begins with its end, and costs less. No
// guesses where the draft model's context or its free pages end.
#pragma once

#include "engine/kv/sequence.hpp"
#include "engine/runner.hpp"
#include "engine/sampler/sampler.hpp"
#include "engine/speculation/proposer.hpp"

namespace minfer::engine {

// Errors: unsupported, naming the first difference, where token ids of the two models don't mean the same.
void check_same_vocabulary(const model::Model& target, const model::Model& draft);

enum class Guess { likeliest, drawn };

class DraftModelProposer : public Proposer {
 public:
  // The draft model's runner, which may serve the proposers of several sequences and outlives them; `params` are those
  // of the target's sampler.
  DraftModelProposer(Runner& runner, const SamplerParams& params, Guess guess);
  // Errors: those of Sampler::sample and Runner::step.
  void propose(std::span<const int32_t> tokens, int64_t most, Draft& draft) override;
  void reset() override;
  Lag lag(std::span<const int32_t> tokens) override;
  bool catch_up(std::span<const int32_t> tokens, int64_t rows) override;

 private:
  // What it reads of them.
  std::span<const int32_t> read(std::span<const int32_t> tokens) const {
    return tokens.subspan(static_cast<size_t>(left_out_));
  }
  void follow(std::span<const int32_t> tokens);
  std::span<const float> step(std::span<const int32_t> ids, int64_t first_position, bool output);

  Runner& runner_;
  bool draws_;
  Sampler sampler_;
  int64_t left_out_ = 0;  // tokens of the target's sequence before this one
  Sequence sequence_;
  std::vector<int32_t> run_;  // drafts in the pages behind the sequence
};

}  // namespace minfer::engine
