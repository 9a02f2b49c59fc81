// A plain scalar sampler, written again from the order of stages (launch/sampling.hpp), for the device tests. It tells
// how near each decision was to another (its margin): decisions that hang on the rounding of a sum may differ.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "cuda/launch/sampling.hpp"

namespace minfer::cuda {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Candidate {
  int32_t id;
  float logit;
  float p;
};
inline bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

class Reference {
 public:
  Reference(std::span<const float> logits, const SamplingRow& row, std::span<const LogitEdit> edits,
            std::span<const uint32_t> mask)
      : logits_(logits), row_(row), edits_(edits), mask_(mask) {}

  Drawn sample() {
    Drawn out{0, check(), -1, 0.0F, 0.0F};
    if (out.status == DrawStatus::not_finite) out.culprit = culprit_;
    if (out.status != DrawStatus::ok) return out;
    out.id = row_.temperature == 0.0F ? best() : choose();
    out.surprise = surprise_;
    double sum = 0;
    const double largest = *std::max_element(logits_.begin(), logits_.end());
    for (const float x : logits_) sum += std::exp(x - largest);
    out.logprob = static_cast<float>(logits_[static_cast<size_t>(out.id)] - largest - std::log(sum));
    return out;
  }
  double margin() const { return margin_; }

 private:
  DrawStatus check() {
    bool finite = false;
    bool differs = logits_.size() == 1;
    for (size_t i = 0; i < logits_.size(); ++i) {
      if (std::isnan(logits_[i]) || logits_[i] == kInfinity) {
        culprit_ = static_cast<int32_t>(i);
        return DrawStatus::not_finite;
      }
      finite |= logits_[i] != -kInfinity;
      differs |= logits_[i] != logits_[0];
    }
    if (!finite) return DrawStatus::no_finite;
    if (!differs) return DrawStatus::all_equal;
    edited_.assign(logits_.begin(), logits_.end());
    for (const LogitEdit& edit : edits_) {
      float& logit = edited_[static_cast<size_t>(edit.token)];
      logit += edit.bias;
      if (edit.count > 0) {
        if (row_.repeat != 1.0F) logit = logit > 0 ? logit / row_.repeat : logit * row_.repeat;
        logit -= static_cast<float>(edit.count) * row_.frequency + row_.presence;
      }
      logit -= edit.dry;
    }
    for (size_t i = 0; i < edited_.size() && !mask_.empty(); ++i) {
      if ((mask_[i / 32] >> i % 32 & 1U) == 0 && !(std::isnan(edited_[i]) || edited_[i] == kInfinity)) {
        edited_[i] = -kInfinity;
      }
    }
    finite = false;
    for (const float logit : edited_) {
      if (std::isnan(logit) || logit == kInfinity) return DrawStatus::forbidden;
      finite |= logit != -kInfinity;
    }
    return finite ? DrawStatus::ok : DrawStatus::forbidden;
  }
  int32_t best() const {
    return static_cast<int32_t>(std::max_element(edited_.begin(), edited_.end()) - edited_.begin());
  }
  int32_t choose() {
    for (size_t i = 0; i < edited_.size(); ++i) list_.push_back({static_cast<int32_t>(i), edited_[i], 0.0F});
    std::sort(list_.begin(), list_.end(), ranks_before);
    if (row_.mirostat != 0) return mirostat();
    if (row_.top_k != 0) list_.resize(std::min(list_.size(), static_cast<size_t>(row_.top_k)));
    typical();
    if (row_.top_p < 1.0F) {
      softmax();
      keep(reaching(static_cast<double>(row_.top_p)));
    }
    if (row_.min_p > 0.0F) {
      const float least = list_.front().logit + std::log(row_.min_p);
      size_t count = 0;
      for (; count < list_.size() && list_[count].logit >= least; ++count) {
      }
      for (const Candidate& c : list_) near(std::fabs(static_cast<double>(c.logit) - static_cast<double>(least)));
      keep(count);
    }
    xtc();
    apply_temperature();
    return draw();
  }
  void apply_temperature() {
    const float largest = list_.front().logit;
    for (Candidate& c : list_) c.logit = (c.logit - largest) / row_.temperature;
  }
  int32_t mirostat() {
    apply_temperature();
    softmax();
    if (row_.mirostat == 1) {
      double tb = 0, tt = 0;
      for (size_t i = 0; i + 1 < std::min<size_t>(100, list_.size()) && list_[i + 1].p > 0; ++i) {
        const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
        tb += t * std::log(static_cast<double>(list_[i].p) / static_cast<double>(list_[i + 1].p));
        tt += t * t;
      }
      const double s = tt > 0 ? tb / tt : 1.0;
      const auto n = static_cast<double>(list_.size());
      const double mu = static_cast<double>(row_.mirostat_mu);
      const double k = std::pow((s - 1) * std::exp2(mu) / (1 - std::pow(n, 1 - s)), 1 / s);
      if (std::isfinite(k)) {
        near(std::fabs(k - std::nearbyint(k)) / std::max(1.0, k));
        near(std::fabs(s - 1) < 1e-5 ? 0 : 1);  // the estimate's pole
        keep(static_cast<size_t>(std::clamp(k, 1.0, n)));
      }
    } else {
      size_t count = 0;
      while (count < list_.size() && -std::log2(list_[count].p) <= row_.mirostat_mu) ++count;
      for (const Candidate& c : list_) {
        near(std::fabs(-std::log2(static_cast<double>(c.p)) - static_cast<double>(row_.mirostat_mu)));
      }
      keep(count);
    }
    const int32_t id = draw();
    for (const Candidate& c : list_) {
      if (c.id == id) surprise_ = -std::log2(c.p);
    }
    return id;
  }
  void softmax() {
    const float largest = list_.front().logit;
    double sum = 0;
    for (Candidate& c : list_) sum += c.p = std::exp(c.logit - largest);
    for (Candidate& c : list_) c.p = static_cast<float>(c.p / sum);
  }
  // How many of the first make a sum of at least `target`.
  size_t reaching(double target) {
    double sum = 0;
    size_t count = 0;
    while (count < list_.size() && sum < target) {
      sum += static_cast<double>(list_[count++].p);
      near(std::fabs(sum - target));
    }
    return count;
  }
  void keep(size_t count) { list_.resize(std::clamp<size_t>(count, 1, list_.size())); }
  void near(double distance) { margin_ = std::min(margin_, distance); }
  void typical() {
    if (row_.typical_p >= 1.0F) return;
    softmax();
    double entropy = 0;
    for (const Candidate& c : list_) {
      if (c.p > 0) entropy -= static_cast<double>(c.p) * std::log(static_cast<double>(c.p));
    }
    const auto distance = [&](const Candidate& c) { return std::fabs(-std::log(static_cast<double>(c.p)) - entropy); };
    std::sort(list_.begin(), list_.end(), [&](const Candidate& a, const Candidate& b) {
      const double of_a = distance(a);
      const double of_b = distance(b);
      return of_a < of_b || (of_a == of_b && ranks_before(a, b));
    });
    const size_t count = std::clamp<size_t>(reaching(static_cast<double>(row_.typical_p)), 1, list_.size());
    // Who is at the cut depends on two distances, of candidates at both sides of the entropy.
    for (size_t i = count == 1 ? 0 : count - 2; i < std::min(count + 1, list_.size() - 1); ++i) {
      if (list_[i].p != list_[i + 1].p) near(std::fabs(distance(list_[i]) - distance(list_[i + 1])));
    }
    keep(count);
    std::sort(list_.begin(), list_.end(), ranks_before);
  }
  void xtc() {
    if (row_.xtc_probability <= 0.0F || row_.xtc_threshold > 0.5F || list_.size() < 2) return;
    if (row_.xtc_uniform >= row_.xtc_probability) return;
    softmax();
    size_t above = 0;
    for (; above < list_.size() && list_[above].p >= row_.xtc_threshold; ++above) {
    }
    for (const Candidate& c : list_) {
      near(std::fabs(static_cast<double>(c.p) / static_cast<double>(row_.xtc_threshold) - 1));
    }
    if (above >= 2) list_.erase(list_.begin(), list_.begin() + static_cast<long>(above - 1));
  }
  int32_t draw() {
    softmax();
    double sum = 0;
    int32_t id = list_.front().id;
    for (const Candidate& c : list_) {
      if (c.p <= 0) continue;
      id = c.id;
      sum += static_cast<double>(c.p);
      near(std::fabs(sum - row_.uniform));
      if (row_.uniform < sum) break;
    }
    return id;
  }

  std::span<const float> logits_;
  const SamplingRow& row_;
  std::span<const LogitEdit> edits_;
  std::span<const uint32_t> mask_;
  float surprise_ = 0;
  int32_t culprit_ = -1;
  std::vector<float> edited_;
  std::vector<Candidate> list_;
  double margin_ = std::numeric_limits<double>::infinity();
};

}  // namespace minfer::cuda
