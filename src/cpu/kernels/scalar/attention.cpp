// Attention for one query vector in plain C++: the oracle of the vector kernels. Two passes over the visible positions,
// everything in double: all scores first, then softmax and the weighted sum of values.
#include <cmath>

#include "cpu/launch/attention_kernels.hpp"
#include "cpu/launch/kv_kernels.hpp"

namespace minfer::cpu::scalar {
namespace {

double score(const AttentionJob& job, int64_t position) {
  const std::byte* page = job.k + job.pages[position / kKvPageTokens] * job.k_page_stride;
  const int64_t token = position % kKvPageTokens;
  const int64_t size = kv_element_bytes(job.k_format);
  double sum = 0.0;
  for (int64_t d = 0; d < job.head_dim_k; ++d) {
    const std::byte* at = page + (d * kKvPageTokens + token) * size;
    const std::byte* scale = page + job.k_scales + (d / kKvBlockElements * kKvPageTokens + token) * kKvScaleBytes;
    sum += static_cast<double>(job.q[d]) * kv_value(job.k_format, at, scale);
  }
  sum *= job.scale;
  return job.softcap > 0.0F ? job.softcap * std::tanh(sum / job.softcap) : sum;
}

}  // namespace

void attend(const AttentionJob& job, const float* sink, double* scores, float* out) {
  const int64_t end = job.positions[0] + 1;
  const int64_t begin = job.window > 0 && end > job.window ? end - job.window : 0;
  double maximum = sink != nullptr ? *sink : -HUGE_VAL;
  for (int64_t p = begin; p < end; ++p) {
    scores[p - begin] = score(job, p);
    maximum = scores[p - begin] > maximum ? scores[p - begin] : maximum;
  }
  double sum = sink != nullptr ? std::exp(*sink - maximum) : 0.0;
  for (int64_t p = begin; p < end; ++p) {
    scores[p - begin] = std::exp(scores[p - begin] - maximum);
    sum += scores[p - begin];
  }
  const int64_t size = kv_element_bytes(job.v_format);
  const int64_t blocks = job.head_dim_v / kKvBlockElements;
  for (int64_t d = 0; d < job.head_dim_v; ++d) {
    double value = 0.0;
    for (int64_t p = begin; p < end; ++p) {
      const std::byte* page = job.v + job.pages[p / kKvPageTokens] * job.v_page_stride;
      const std::byte* at = page + (p % kKvPageTokens * job.head_dim_v + d) * size;
      const std::byte* scale =
          page + job.v_scales + (p % kKvPageTokens * blocks + d / kKvBlockElements) * kKvScaleBytes;
      value += scores[p - begin] * kv_value(job.v_format, at, scale);
    }
    out[d] = static_cast<float>(value / sum);
  }
}

}  // namespace minfer::cpu::scalar
