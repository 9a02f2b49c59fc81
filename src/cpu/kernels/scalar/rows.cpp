// The row kernels in plain loops over f32: the oracle of the vector ones, and what a machine without them runs.
// Contracts: launch/rows_kernels.hpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/kernels/scalar/vector_math.hpp"
#include "cpu/launch/activation.hpp"
#include "cpu/launch/rows_kernels.hpp"

namespace minfer::cpu::scalar {
namespace {

void quantize_block(const float* x, Q8Out q8, int64_t block) noexcept {
  int8_t* quants = q8.quants + block * kQ8BlockElements;
  float largest = 0.0f;
  bool finite = true;
  for (int64_t i = 0; i < kQ8BlockElements; ++i) {
    finite = finite && std::isfinite(x[i]);
    largest = std::max(largest, std::fabs(x[i]));
  }
  const float scale = largest / 127.0f;
  if (!finite || scale < std::numeric_limits<float>::min()) {
    std::fill_n(quants, kQ8BlockElements, int8_t{0});
    q8.scales[block] = q8.sums[block] = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    return;
  }
  int32_t sum = 0;
  for (int64_t i = 0; i < kQ8BlockElements; ++i) {
    const int32_t quant = static_cast<int32_t>(std::nearbyint(x[i] / scale));
    quants[i] = static_cast<int8_t>(quant);
    sum += quant;
  }
  q8.scales[block] = scale;
  q8.sums[block] = scale * static_cast<float>(sum);
}

void quantize(const float* x, int64_t n, Q8Out q8) noexcept {
  for (int64_t block = 0; block < n / kQ8BlockElements; ++block)
    quantize_block(x + block * kQ8BlockElements, q8, block);
}

// Stores value(i) for every i < n, as f32, in 8 bits, or both.
template <class Value>
void map_row(int64_t n, Value value, float* out, Q8Out q8) noexcept {
  if (q8.quants == nullptr) {
    for (int64_t i = 0; i < n; ++i) out[i] = value(i);
    return;
  }
  for (int64_t block = 0; block < n / kQ8BlockElements; ++block) {
    float values[kQ8BlockElements];
    const int64_t start = block * kQ8BlockElements;
    for (int64_t i = 0; i < kQ8BlockElements; ++i) values[i] = value(start + i);
    if (out != nullptr) std::copy_n(values, kQ8BlockElements, out + start);
    quantize_block(values, q8, block);
  }
}

void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* out, Q8Out q8) noexcept {
  float sum = 0.0f;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  const float factor = 1.0f / std::sqrt(sum / static_cast<float>(n) + eps);
  map_row(n, [=](int64_t i) { return x[i] * factor * weight[i]; }, out, q8);
}

void layer_norm(const float* x, const float* weight, const float* bias, int64_t n, float eps, float* out,
                Q8Out q8) noexcept {
  float sum = 0.0f;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  const float mean = sum / static_cast<float>(n);
  float squares = 0.0f;
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float factor = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
  const auto normalized = [=](int64_t i) {
    const float scaled = (x[i] - mean) * factor * weight[i];
    return bias == nullptr ? scaled : scaled + bias[i];
  };
  map_row(n, normalized, out, q8);
}

void add(const float* a, const float* b, int64_t n, float* out) noexcept {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

void scale(const float* x, float factor, int64_t n, float* out) noexcept {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * factor;
}

void softcap(const float* x, float factor, float cap, int64_t n, float* out) noexcept {
  for (int64_t i = 0; i < n; ++i) out[i] = cap * std::tanh(x[i] * factor / cap);
}

void gated(Activation activation, const float* gate, const float* up, int64_t n, float* out, Q8Out q8) noexcept {
  switch (activation) {
    case Activation::silu:
      return map_row(n, [=](int64_t i) { return silu(gate[i]) * up[i]; }, out, q8);
    case Activation::gelu_tanh:
      return map_row(n, [=](int64_t i) { return gelu_tanh(gate[i]) * up[i]; }, out, q8);
    case Activation::swiglu_oai:
      return map_row(n, [=](int64_t i) { return swiglu_oai(gate[i], up[i]); }, out, q8);
    case Activation::gelu_erf:
      break;  // of ungated layers only
  }
}

void activate(Activation activation, const float* x, int64_t n, float* out, Q8Out q8) noexcept {
  if (activation == Activation::silu) {
    map_row(n, [=](int64_t i) { return silu(x[i]); }, out, q8);
  } else if (activation == Activation::gelu_tanh) {
    map_row(n, [=](int64_t i) { return gelu_tanh(x[i]); }, out, q8);
  } else {
    map_row(n, [=](int64_t i) { return gelu_erf(x[i]); }, out, q8);
  }
}

int64_t argmax(const float* x, int64_t n) noexcept {
  int64_t best = -1;
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isnan(x[i]) && (best < 0 || x[i] > x[best])) best = i;
  }
  return best;
}

void copy_rest(const float* x, int64_t rotated, int64_t n, float* out) noexcept {
  if (out != x) std::copy(x + rotated, x + n, out + rotated);
}

void rotate(float a, float b, const float* angle, float& first, float& second) noexcept {
  first = a * angle[0] - b * angle[1];
  second = a * angle[1] + b * angle[0];
}

void rope_halves(const float* x, const float* angles, int64_t rotated, int64_t n, float* out) noexcept {
  const int64_t half = rotated / 2;
  for (int64_t i = 0; i < half; ++i) rotate(x[i], x[i + half], angles + 2 * i, out[i], out[i + half]);
  copy_rest(x, rotated, n, out);
}

void rope_pairs(const float* x, const float* angles, int64_t rotated, int64_t n, float* out) noexcept {
  for (int64_t i = 0; i < rotated; i += 2) rotate(x[i], x[i + 1], angles + i, out[i], out[i + 1]);
  copy_rest(x, rotated, n, out);
}

}  // namespace

const RowKernels& row_kernels() noexcept {
  static constexpr RowKernels kTable = {
      .rms_norm = &rms_norm,
      .layer_norm = &layer_norm,
      .quantize = &quantize,
      .add = &add,
      .scale = &scale,
      .softcap = &softcap,
      .gated = &gated,
      .activate = &activate,
      .argmax = &argmax,
      .rope_halves = &rope_halves,
      .rope_pairs = &rope_pairs,
  };
  return kTable;
}

}  // namespace minfer::cpu::scalar
