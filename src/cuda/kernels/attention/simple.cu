// Attention for any head sizes, groups and formats: what the split and tile kernels leave out (f32 caches, unlike
// formats, sizes that tensor cores don't divide, tiny models). One block takes one query head of one row; its warps
// share the positions, each with its own running softmax in f32, and are merged in ascending order.
#include "cuda/kernels/attention/output.cuh"
#include "cuda/kernels/common/chain.cuh"
#include "cuda/launch/attention_limits.hpp"

namespace minfer::cuda::attention {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kLaneElements = static_cast<int>(kMaxHeadSize) / kWarp;
constexpr int kBatch = 4;  // positions whose scores a warp computes side by side

struct alignas(16) Shared {
  float values[kWarps][kMaxHeadSize];
  float maximum[kWarps];
  float sum[kWarps];
};

struct Running {
  float maximum = -INFINITY;
  float sum = 0;
  float o[kLaneElements] = {};  // element lane + 32 i
};

__device__ HeadPlace place_of(const CachePart& cache, const int32_t* table, int position, int head) {
  constexpr int kPage = static_cast<int>(kKvPageTokens);
  return head_place(cache, table[position / kPage], position % kPage, head);
}

// Scores of the positions from `first`, kWarps apart; -infinity from `end` on.
__device__ void score_batch(const AttentionParams& p, const CachePart& keys, const int32_t* table, int kv_head,
                            int first, int end, const float (&q)[kLaneElements], float (&scores)[kBatch]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    const int position = first + b * kWarps;
    scores[b] = 0;
    if (position >= end) continue;
    const HeadPlace place = place_of(keys, table, position, kv_head);
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      if (lane + i * kWarp < keys.size) scores[b] += q[i] * read_element(keys.format, place, lane + i * kWarp);
    }
  }
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    scores[b] = warp_sum(scores[b]);
    if (p.cap_factor != 0) scores[b] = capped(scores[b], p.cap_factor);
    if (first + b * kWarps >= end) scores[b] = -INFINITY;
  }
}

__device__ void attend(const AttentionParams& p, const int32_t* table, int kv_head, int begin, int end,
                       const float (&q)[kLaneElements], Running& r) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const CachePart keys = key_part(p.kv);
  const CachePart values = value_part(p.kv);
  for (int first = begin; first < end; first += kWarps * kBatch) {
    float scores[kBatch];
    score_batch(p, keys, table, kv_head, first, end, q, scores);
    float maximum = r.maximum;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) maximum = fmaxf(maximum, scores[b]);
    const float correction = exp2f(r.maximum - maximum);
    r.maximum = maximum;
    r.sum *= correction;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) r.o[i] *= correction;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int position = first + b * kWarps;
      if (position >= end) continue;
      const float weight = exp2f(scores[b] - maximum);
      r.sum += weight;
      const HeadPlace place = place_of(values, table, position, kv_head);
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) {
        if (lane + i * kWarp < values.size) r.o[i] += weight * read_element(values.format, place, lane + i * kWarp);
      }
    }
  }
}

// A head of any size; q8: of whole blocks.
__device__ void write_head_out(const AttentionParams& p, int row, int first, const float* values) {
  const int thread = static_cast<int>(threadIdx.x);
  if (p.out_format == ActivationFormat::q8) {
    for (int i = 0; i < p.value_size; i += kThreads * 4) {
      const int d = i + thread * 4;
      const bool exists = d < p.value_size;
      const float4 x = exists ? *reinterpret_cast<const float4*>(values + d) : make_float4(0, 0, 0, 0);
      write_output(p, exists, row, first + d, x);
    }
    return;
  }
  std::byte* at = p.out + row * p.out_stride;
  for (int d = thread; d < p.value_size; d += kThreads) {
    if (p.out_format == ActivationFormat::f32) {
      reinterpret_cast<float*>(at)[first + d] = values[d];
    } else {
      reinterpret_cast<__nv_bfloat16*>(at)[first + d] = __float2bfloat16_rn(values[d]);
    }
  }
}

__global__ void __launch_bounds__(kThreads) simple_kernel(const __grid_constant__ AttentionParams p) {
  __shared__ Shared shared;
  allow_dependents();
  wait_for_dependencies();
  const int row = static_cast<int>(blockIdx.y);
  const int head = static_cast<int>(blockIdx.x);
  const int kv_head = head / p.group;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int sequence = p.row_sequence == nullptr ? row : p.row_sequence[row];
  if (sequence < 0) return;
  const SequenceInfo info = p.sequences[sequence];
  if (row - info.first_row >= info.rows) return;
  const int end = info.first_position + (p.causal ? row - info.first_row + 1 : info.rows);
  const int begin = p.window > 0 ? max(0, end - p.window) : 0;
  float q[kLaneElements];
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) {
    const int d = lane + i * kWarp;
    q[i] = d < p.key_size ? p.q[row * p.q_stride + static_cast<int64_t>(head) * p.key_size + d] * p.query_factor : 0;
  }
  Running r;
  if (begin + warp < end) attend(p, p.pages + info.first_page, kv_head, begin + warp, end, q, r);
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) {
    if (lane + i * kWarp < p.value_size) shared.values[warp][lane + i * kWarp] = r.o[i];
  }
  if (lane == 0) {
    shared.maximum[warp] = r.maximum;
    shared.sum[warp] = r.sum;
  }
  __syncthreads();
  float maximum = -INFINITY;
  float sum = 0;
  for (int i = 0; i < kWarps; ++i) maximum = fmaxf(maximum, shared.maximum[i]);
  for (int i = 0; i < kWarps; ++i) sum += exp2f(shared.maximum[i] - maximum) * shared.sum[i];
  const float factor = softmax_factor(p, head, maximum, sum);
  for (int d = static_cast<int>(threadIdx.x); d < p.value_size; d += kThreads) {
    float value = 0;
    for (int i = 0; i < kWarps; ++i) value += exp2f(shared.maximum[i] - maximum) * shared.values[i][d];
    shared.values[0][d] = value * factor;
  }
  __syncthreads();
  write_head_out(p, row, head * p.value_size, shared.values[0]);
}

}  // namespace

void launch_simple(const Queue& queue, const AttentionParams& params, int64_t rows) {
  launch_kernel(queue, "attention/simple",
                {dim3(static_cast<unsigned>(params.heads), static_cast<unsigned>(rows)), dim3(kThreads)}, simple_kernel,
                params);
}

}  // namespace minfer::cuda::attention
