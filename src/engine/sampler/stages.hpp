// The stages of the sampler, each a function on one of two states: all logits of the vocabulary (early stages), then
// the candidates that are left (later ones). sampler.cpp lists them in order; a stage that is off by its parameters
// changes nothing. Internal to engine/sampler/.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "engine/sampler/params.hpp"
#include "graph/sampling.hpp"

namespace minfer::engine {

struct Candidate {
  int32_t id;
  float logit;
  float p;  // softmax over the candidates, where a stage has computed it
};

// What one draw works on. History holds the tokens so far, oldest first.
struct SamplerState {
  const SamplerParams& params;
  std::span<const int32_t> history;
  std::vector<float>& logits;
  std::vector<Candidate>& candidates;  // descending by logit, ties by id, once made; before, working space
  std::mt19937_64& random;
  float& mirostat_mu;
};

// In [0, 1), 53 bits; the same on every platform.
double uniform(std::mt19937_64& random);

// Whether apply_penalties has one to apply.
bool has_penalties(const SamplerParams& params);

// On logits.
void apply_logit_bias(SamplerState& state);
void apply_penalties(SamplerState& state);
void apply_dry(SamplerState& state);

// What DRY takes from which tokens (as p), ascending by token: in `working`, which is overwritten.
std::span<const Candidate> dry_penalties(const SamplerParams& params, std::span<const int32_t> history,
                                         std::vector<Candidate>& working);

// What bias (ascending by token), penalties and DRY do, as edits of single logits, ascending by token: `edits` is
// overwritten. The penalties look back on the history and on `unknown` tokens behind it, which are left out. `working`
// keeps its memory between calls.
void collect_edits(const SamplerParams& params, std::span<const int32_t> history, int32_t unknown,
                   std::vector<Candidate>& working, std::vector<graph::LogitEdit>& edits);

// Logits to candidates: the top k, or all where k is 0.
void select_top_k(SamplerState& state, int32_t k);
// Fills p of every candidate.
void softmax(std::vector<Candidate>& candidates);

// On candidates. Each keeps at least one.
void apply_typical(SamplerState& state);
void apply_top_p(SamplerState& state);
void apply_min_p(SamplerState& state);
void apply_xtc(SamplerState& state);
void apply_temperature(SamplerState& state);

// Draws from the candidates.
int32_t draw(SamplerState& state);
// Draws from the candidates by a token that was drawn from others: rejection.cpp. Overwrites the logits.
int32_t draw_drafted(SamplerState& state, int32_t drafted, std::span<const Candidate> drafted_from);
// Moves Mirostat's bound by the surprise, in bits, of a drawn token.
void learn_surprise(const SamplerParams& params, float surprise, float& mu);
int32_t draw_mirostat_1(SamplerState& state);
int32_t draw_mirostat_2(SamplerState& state);

}  // namespace minfer::engine
