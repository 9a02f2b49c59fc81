// How far a model on a device is from exact: Kullback-Leibler divergence of its next-token distributions from the exact
// ones, which scripts/make_kl_reference.py wrote (format there: "MKLR"), how often the most likely tokens agree, and
// both perplexities. All of the reference's windows are run.
// Usage: kl_divergence MODEL.gguf REFERENCE.mklr [ISA [THREADS]]; prints one line.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file_map.hpp"
#include "devices.hpp"
#include "engine/perplexity.hpp"
#include "model/model.hpp"

namespace minfer {
namespace {

// A reference file, mapped.
class Reference {
 public:
  explicit Reference(const std::string& path) : map_(path) {
    constexpr size_t kHeaderBytes = 24;
    const auto bytes = map_.bytes();
    if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), "MKLR", 4) != 0 || word(4) != 1) {
      fail(ErrorCode::invalid_input, "{}: not a reference of version 1", path);
    }
    vocabulary = word(8), window = word(12), windows = word(16), first = word(20);
    rows_at_ = kHeaderBytes + 4 * window * windows;
    row_bytes_ = 8 + 2 * vocabulary;
    if (window < 4 || first >= window || bytes.size() != rows_at_ + windows * (window - 1 - first) * row_bytes_) {
      fail(ErrorCode::invalid_input, "{}: the header does not fit the size of {} bytes", path, bytes.size());
    }
    for (size_t i = 0; i < window * windows; ++i) ids.push_back(static_cast<int32_t>(word(kHeaderBytes + 4 * i)));
  }

  // The log-probabilities that follow `position` of window `w`, summing to 1.
  void read_row(size_t w, size_t position, std::vector<double>& out) const {
    const std::byte* row = map_.bytes().data() + rows_at_ + (w * (window - 1 - first) + position - first) * row_bytes_;
    float top_and_step[2];
    std::memcpy(top_and_step, row, sizeof top_and_step);
    out.resize(vocabulary);
    double sum = 0;
    for (size_t v = 0; v < vocabulary; ++v) {
      uint16_t code;
      std::memcpy(&code, row + 8 + 2 * v, sizeof code);
      out[v] = static_cast<double>(top_and_step[0]) - static_cast<double>(code) * static_cast<double>(top_and_step[1]);
      sum += std::exp(out[v]);
    }
    for (double& value : out) value -= std::log(sum);
  }

  size_t vocabulary, window, windows, first;
  std::vector<int32_t> ids;

 private:
  uint32_t word(size_t at) const {
    uint32_t value;
    std::memcpy(&value, map_.bytes().data() + at, sizeof value);
    return value;
  }

  FileMap map_;
  size_t rows_at_;
  size_t row_bytes_;
};

struct Sums {
  double kl = 0, kl_squares = 0, exact_nll = 0;
  int64_t agreeing = 0, rows = 0;
};

void add_row(const std::vector<double>& exact, std::span<const float> logits, int32_t target, Sums& sums) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - largest);
  const double shift = largest + std::log(total);
  double kl = 0;
  for (size_t v = 0; v < logits.size(); ++v) {
    kl += std::exp(exact[v]) * (exact[v] - (static_cast<double>(logits[v]) - shift));
  }
  sums.kl += kl;
  sums.kl_squares += kl * kl;
  sums.exact_nll -= exact[static_cast<size_t>(target)];
  const auto best = std::max_element(exact.begin(), exact.end()) - exact.begin();
  sums.agreeing += best == std::max_element(logits.begin(), logits.end()) - logits.begin();
  ++sums.rows;
}

void measure(const std::string& model_path, const std::string& reference_path, const graph::BackendOptions& device) {
  const Reference reference(reference_path);
  const model::Model model{gguf::File(model_path)};
  if (static_cast<size_t>(model.config().vocabulary) != reference.vocabulary) {
    fail(ErrorCode::invalid_input, "{} has {} tokens, {} has {}", model_path, model.config().vocabulary, reference_path,
         reference.vocabulary);
  }
  const graph::Registry registry(device_factories(), device);
  engine::RunnerOptions options;
  options.context_tokens = static_cast<int64_t>(reference.window);
  engine::Runner runner(model, registry.preferred(), options, {});
  Sums sums;
  std::vector<double> exact;
  const auto result = engine::perplexity(
      runner, reference.ids, options.context_tokens, 0, std::nullopt,
      [&](int64_t window, int64_t position, std::span<const float> logits) {
        reference.read_row(static_cast<size_t>(window), static_cast<size_t>(position), exact);
        add_row(exact, logits, reference.ids[static_cast<size_t>(window * options.context_tokens + position + 1)],
                sums);
      },
      {});
  const double n = static_cast<double>(sums.rows);
  const double mean = sums.kl / n;
  const double error = std::sqrt(std::max(0.0, sums.kl_squares / n - mean * mean) / (n - 1));
  fmt::print(
      "{}: {}\n  mean KL {:.6f} +- {:.6f}, top-1 agreement {:.2f} %, perplexity {:.4f}, exact {:.4f}, {} tokens\n",
      model_path, registry.preferred().description(), mean, error, 100.0 * static_cast<double>(sums.agreeing) / n,
      result.perplexity, std::exp(sums.exact_nll / n), sums.rows);
}

}  // namespace
}  // namespace minfer

int main(int count, char** arguments) {
  if (count < 3 || count > 5) {
    fmt::print(stderr, "usage: kl_divergence MODEL.gguf REFERENCE.mklr [ISA [THREADS]]\n");
    return 2;
  }
  try {
    minfer::graph::BackendOptions device;
    if (count > 3) device.force_isa = arguments[3];
    if (count > 4) {
      const std::string threads = arguments[4];
      std::from_chars(threads.data(), threads.data() + threads.size(), device.threads);
    }
    minfer::measure(arguments[1], arguments[2], device);
  } catch (const std::exception& error) {
    fmt::print(stderr, "kl_divergence: {}\n", error.what());
    return 1;
  }
  return 0;
}
