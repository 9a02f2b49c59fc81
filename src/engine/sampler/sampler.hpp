// Draws the next token from logits, in the order: logit bias, penalties, DRY, the grammar, greedy at temperature 0,
// then top-k, typical, top-p, min-p, XTC, temperature and a draw; or temperature and Mirostat. Seeded: equal
// parameters, history and logits give equal tokens on every platform. One sampler serves one sequence; one thread calls
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/grammar/grammar.hpp"
#include "engine/sampler/params.hpp"
#include "engine/sampler/stages.hpp"

namespace minfer::engine {

class Sampler {
 public:
  // Errors: invalid_input for a parameter out of range (check_sampler_params).
  Sampler(const SamplerParams& params, int64_t vocabulary);

  // What the tokens from here on must match; of the vocabulary's size.
  void set_grammar(std::shared_ptr<const grammar::Grammar> grammar) { matcher_.emplace(std::move(grammar)); }
  // Tells the sampler of a token of the prompt: the penalties look back on it.
  void accept(int32_t token) { history_.push_back(token); }
  // Of one that follows, and that the grammar allows.
  void accept_next(int32_t token);
  // Takes back the last `count` tokens.
  void rewind(size_t count) { history_.resize(history_.size() - count); }
  // Takes back `count` tokens from the middle, as a shift of the sequence does.
  void remove(int64_t first, int64_t count) {
    history_.erase(history_.begin() + first, history_.begin() + first + count);
  }
  std::span<const int32_t> history() const { return history_; }
  // What errors say of logits that no whole model gives: "its weights are broken", where nothing else is said.
  void set_suspects(std::string suspects) { suspects_ = std::move(suspects); }
  // The next token for `logits` [vocabulary]; does not accept it. Errors: invalid_input where a logit is NaN or
  // infinity, none is finite or all are equal (a broken weight file), or bias, DRY and grammar forbid every token;
  // those of Matcher::mask().
  int32_t sample(std::span<const float> logits);
  // For a device that draws (graph/sampling.hpp): whether it can draw the next token (not beyond a number of edits),
  // for which this makes the edits;
  // what it is to do, with new random numbers; and its answer, which take() checks as sample() checks logits, and
  // accepts. `awaited` is the output at which the token before the next is being drawn, or graph::kNoOutput where the
  // sampler knows it.
  bool prepare_draw(int32_t awaited);
  graph::RowDraw row_draw();
  int32_t take(const graph::Drawn& drawn);
  // Finds now what the grammar allows next, so that its errors come here. Errors: those of Matcher::mask(); that no
  // token of the vocabulary goes on with it.
  void look_ahead();
  // The one token that the grammar allows next, where to take it undrawn changes nothing but time; else -1. Errors:
  // those of Matcher::mask().
  int32_t forced();
  // The grammar lets nothing follow but the end of the generation.
  bool is_over() const { return matcher_ && matcher_->is_over(); }
  // What the last sample() at a temperature above 0 drew from: the final candidates with their probabilities. Valid
  // until the next call.
  std::span<const Candidate> candidates() const { return candidates_; }
  // As sample(), and of the same distribution, where `drafted` was drawn from the candidates `drafted_from`: gives
  // `drafted` as often as any way of drawing can. For a temperature above 0 without Mirostat (checked: internal).
  int32_t sample_drafted(std::span<const float> logits, int32_t drafted, std::span<const Candidate> drafted_from);

 private:
  // Runs the stages on the logits; returns the index of the largest.
  int32_t shape_logits(SamplerState& state, std::span<const float> logits);
  void apply_grammar();

  SamplerParams params_;
  std::string suspects_ = "its weights are broken";
  std::vector<int32_t> history_;
  std::vector<float> logits_;  // working copy
  std::vector<Candidate> candidates_;
  std::vector<graph::LogitEdit> edits_;
  int32_t counted_ = graph::kNoOutput;
  std::mt19937_64 random_;
  float mirostat_mu_;
  std::optional<grammar::Matcher> matcher_;
};

}  // namespace minfer::engine
