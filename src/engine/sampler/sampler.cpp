// The sampler's order of stages. See sampler.hpp.
#include "engine/sampler/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "engine/broken_logits.hpp"

namespace minfer::engine {
namespace {

using Stage = void (*)(SamplerState&);

constexpr Stage kLogitStages[] = {apply_logit_bias, apply_penalties, apply_dry};
constexpr Stage kCandidateStages[] = {apply_typical, apply_top_p, apply_min_p, apply_xtc, apply_temperature};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Bias, and a repeat penalty under 1, can take a logit of a broken model beyond f32; a DRY penalty of infinity then
// makes NaN of it.
void check_stages(std::span<const float> logits, const SamplerParams& params) {
  if (params.logit_bias.empty() && params.repeat_penalty >= 1.0F) return;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == kInfinity) {
      fail(ErrorCode::invalid_input, "the logit of token {} is beyond the range of f32 after bias and penalties", i);
    }
  }
}

// Tokens that a sampler takes without allocating: most contexts.
constexpr size_t kReservedHistory = 1 << 16;

// How many tokens the penalties and DRY look back on at most, which need as many candidates as working space.
size_t look_back(const SamplerParams& params) {
  const auto tokens = [](int32_t last_n) {
    return last_n < 0 ? kReservedHistory : std::min(kReservedHistory, static_cast<size_t>(last_n));
  };
  return std::max(has_penalties(params) ? tokens(params.penalty_last_n) : 0,
                  params.dry_multiplier != 0.0F ? tokens(params.dry_penalty_last_n) : 0);
}

// The index of the largest logit, the lowest on ties.
int32_t argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void choose_candidates(SamplerState& state) {
  select_top_k(state, state.params.top_k);
  for (const Stage stage : kCandidateStages) stage(state);
}

[[noreturn]] void fail_no_finite(const std::string& suspects) {
  fail_broken("the model gave no finite logit; {}", suspects);
}

[[noreturn]] void fail_forbidden() {
  fail(ErrorCode::invalid_input,
       "every token is forbidden by logit_bias, the DRY penalty and the grammar; allow one at least");
}

void check_logits(std::span<const float> logits, const std::string& suspects) {
  bool any_finite = false;
  bool any_other = logits.size() == 1;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    if (std::isnan(logit) || logit == kInfinity) {
      fail_broken("the model gave {} as the logit of token {}; {}", std::isnan(logit) ? "NaN" : "infinity", i,
                  suspects);
    }
    any_finite |= logit != -kInfinity;
    any_other |= logit != logits[0];
  }
  if (!any_finite) fail_no_finite(suspects);
  // As of a file whose download left zeros: the answer would be nothing but chance.
  if (!any_other) {
    fail(ErrorCode::invalid_input, "the model gave {} as the logit of every token; {}", logits[0], suspects);
  }
}

}  // namespace

Sampler::Sampler(const SamplerParams& params, int64_t vocabulary)
    : params_(params), random_(params.seed), mirostat_mu_(2.0F * params.mirostat_tau) {
  check_sampler_params(params, vocabulary);
  // Those of one token stay in their order: their sum depends on it.
  std::stable_sort(params_.logit_bias.begin(), params_.logit_bias.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  history_.reserve(kReservedHistory);
  candidates_.reserve(look_back(params));
  // Penalties and DRY have one each for a token.
  edits_.reserve(params.logit_bias.size() + 2 * std::min(look_back(params), static_cast<size_t>(graph::kEditsPerRow)));
}

int32_t Sampler::shape_logits(SamplerState& state, std::span<const float> logits) {
  check_logits(logits, suspects_);
  logits_.assign(logits.begin(), logits.end());
  for (const Stage stage : kLogitStages) stage(state);
  check_stages(logits_, params_);
  apply_grammar();
  const int32_t best = argmax(logits_);
  if (logits_[static_cast<size_t>(best)] == -kInfinity) fail_forbidden();
  return best;
}

void Sampler::accept_next(int32_t token) {
  if (matcher_) matcher_->accept(token);
  history_.push_back(token);
}

void Sampler::look_ahead() {
  if (!matcher_) return;
  const auto mask = matcher_->mask();
  if (std::any_of(mask.begin(), mask.end(), [](uint32_t word) { return word != 0; })) return;
  fail(ErrorCode::unsupported,
       "no token of the model's vocabulary goes on with the grammar: it has no token for each byte");
}

int32_t Sampler::forced() {
  const bool is_exact = params_.logit_bias.empty() && params_.dry_multiplier == 0.0F && params_.mirostat == 0;
  return matcher_ && is_exact ? matcher_->forced() : -1;
}

void Sampler::apply_grammar() {
  if (!matcher_) return;
  look_ahead();
  constexpr size_t kBits = 32;
  const auto mask = matcher_->mask();
  for (size_t first = 0; first < logits_.size(); first += kBits) {
    const uint32_t allowed = mask[first / kBits];
    if (allowed == UINT32_MAX) continue;
    const size_t count = std::min(kBits, logits_.size() - first);
    for (size_t bit = 0; bit < count; ++bit) {
      if ((allowed >> bit & 1) == 0) logits_[first + bit] = -kInfinity;
    }
  }
}

int32_t Sampler::sample(std::span<const float> logits) {
  SamplerState state{params_, history_, logits_, candidates_, random_, mirostat_mu_};
  const int32_t best = shape_logits(state, logits);
  // A forced token takes no random number, whoever asks for it.
  if (params_.temperature == 0.0F || forced() >= 0) return best;
  if (params_.mirostat != 0) {
    select_top_k(state, 0);
    apply_temperature(state);
    return params_.mirostat == 1 ? draw_mirostat_1(state) : draw_mirostat_2(state);
  }
  choose_candidates(state);
  return draw(state);
}

int32_t Sampler::sample_drafted(std::span<const float> logits, int32_t drafted,
                                std::span<const Candidate> drafted_from) {
  check(params_.temperature > 0 && params_.mirostat == 0, "a draft with a distribution for a sampler without one");
  SamplerState state{params_, history_, logits_, candidates_, random_, mirostat_mu_};
  const int32_t best = shape_logits(state, logits);
  if (forced() >= 0) return best;
  choose_candidates(state);
  return draw_drafted(state, drafted, drafted_from);
}

bool Sampler::prepare_draw(int32_t awaited) {
  const bool is_unknown = awaited != graph::kNoOutput;
  if (is_unknown && (params_.mirostat != 0 || params_.dry_multiplier != 0.0F || matcher_)) return false;
  collect_edits(params_, history_, is_unknown ? 1 : 0, candidates_, edits_);
  counted_ = has_penalties(params_) && params_.penalty_last_n != 0 ? awaited : graph::kNoOutput;
  const int64_t most = counted_ == graph::kNoOutput ? graph::kEditsPerRow : graph::kEditsPerRow - 1;
  return static_cast<int64_t>(edits_.size()) <= most;
}

graph::RowDraw Sampler::row_draw() {
  graph::RowDraw draw;
  draw.edits = edits_;
  draw.repeat = params_.repeat_penalty;
  draw.frequency = params_.frequency_penalty;
  draw.presence = params_.presence_penalty;
  draw.counted = counted_;
  if (matcher_) draw.mask = matcher_->mask();
  if (params_.temperature == 0.0F || forced() >= 0) return draw;
  draw.temperature = params_.temperature;
  if (params_.mirostat != 0) {
    draw.mirostat = params_.mirostat;
    draw.mirostat_mu = mirostat_mu_;
    draw.uniform = uniform(random_);
    return draw;
  }
  draw.top_k = params_.top_k;
  draw.typical_p = params_.typical_p;
  draw.top_p = params_.top_p;
  draw.min_p = params_.min_p;
  draw.xtc_probability = params_.xtc_probability;
  draw.xtc_threshold = params_.xtc_threshold;
  if (params_.xtc_probability > 0) draw.xtc_uniform = static_cast<float>(uniform(random_));
  draw.uniform = uniform(random_);
  return draw;
}

int32_t Sampler::take(const graph::Drawn& drawn) {
  using Status = graph::DrawStatus;
  switch (drawn.status) {
    case Status::ok:
      accept_next(drawn.id);
      if (params_.mirostat != 0 && params_.temperature != 0.0F) learn_surprise(params_, drawn.surprise, mirostat_mu_);
      return drawn.id;
    case Status::not_finite:
      fail_broken("the model gave NaN or infinity as the logit of token {}; {}", drawn.culprit, suspects_);
    case Status::no_finite:
      fail_no_finite(suspects_);
    case Status::all_equal:
      fail(ErrorCode::invalid_input, "the model gave one value as the logit of every token; {}", suspects_);
    case Status::forbidden:
      fail_forbidden();
  }
  fail(ErrorCode::internal, "internal error: an unknown status of a draw");
}

}  // namespace minfer::engine
