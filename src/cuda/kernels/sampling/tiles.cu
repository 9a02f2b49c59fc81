// The sampler's first kernel: a block a tile of 4096 logits. One read of every logit gives the tile's largest, the sum
// of exponentials for the logprob, what makes an input unusable, and the largest of each group of 32. Edits whose token
// is in the tile are applied to its copy here, never in memory. See params.cuh.
#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/sampling/params.cuh"

namespace minfer::cuda::sampling {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kQuads = kTile / (4 * kThreads);  // a thread holds
constexpr uint32_t kAll = 0xFFFFFFFFU;

// One for each of the kernel's reductions: no barrier is needed between them.
struct Shared {
  uint32_t largest[kWarps];
  int32_t culprit[kWarps];
  uint32_t differs[kWarps];
  uint32_t edited[kWarps];
  float sum[kWarps];
  float edited_sum[kWarps];
  int32_t best[kWarps];
  uint32_t broken[kWarps];
  __align__(16) float values[kTile];
};

__device__ __forceinline__ float logit_of_ordered(uint32_t value) {
  return __uint_as_float((value & 0x80000000U) != 0 ? value & 0x7FFFFFFFU : ~value);
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
  return value;
}

__device__ __forceinline__ float largest_of(const float4 (&quads)[kQuads]) {
  float largest = -kInfinity;
#pragma unroll
  for (const float4& q : quads) largest = fmaxf(fmaxf(largest, fmaxf(q.x, q.y)), fmaxf(q.z, q.w));
  return largest;
}

// The largest of the block, in every thread. With a barrier.
__device__ __forceinline__ float block_largest(float value, uint32_t (&partial)[kWarps]) {
  const uint32_t of_warp = __reduce_max_sync(kAll, ordered(value));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = of_warp;
  __syncthreads();
  uint32_t largest = partial[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) largest = max(largest, partial[w]);
  return logit_of_ordered(largest);
}

// exp((x - base) / temperature) over the thread's values; base is finite.
template <bool kDivided>
__device__ __forceinline__ float exp_sum(const float4 (&quads)[kQuads], float base, float temperature) {
  float sum = 0.0F;
  const auto term = [&](float x) { return expf(kDivided ? (x - base) / temperature : x - base); };
#pragma unroll
  for (const float4& q : quads) sum += (term(q.x) + term(q.y)) + (term(q.z) + term(q.w));
  return sum;
}

// Applies the edits [first, last) to the tile. Whether one made a value NaN or +infinity.
__device__ __forceinline__ bool apply_edits(const SamplingRow& row, const LogitEdit* edits, int32_t first, int32_t last,
                                            int32_t begin, float* values, float4 (&quads)[kQuads]) {
  auto* slots = reinterpret_cast<float4*>(values);
#pragma unroll
  for (int q = 0; q < kQuads; ++q) slots[q * kThreads + threadIdx.x] = quads[q];
  __syncthreads();
  bool broken = false;
  for (int32_t at = first + static_cast<int32_t>(threadIdx.x); at < last; at += kThreads) {
    const LogitEdit edit = edits[at];
    const float value = edited_logit(values[edit.token - begin], edit, row);
    values[edit.token - begin] = value;
    broken |= !(value < kInfinity);
  }
  __syncthreads();
#pragma unroll
  for (int q = 0; q < kQuads; ++q) quads[q] = slots[q * kThreads + threadIdx.x];
  return broken;
}

// -infinity beyond the row's end.
__device__ __forceinline__ float4 load_logits(const float* logits, int32_t column, int32_t vocabulary) {
  float4 quad = make_float4(-kInfinity, -kInfinity, -kInfinity, -kInfinity);
  if (column >= vocabulary) return quad;
  quad = *reinterpret_cast<const float4*>(logits + column);  // rows are padded to 16 bytes
  if (column + 1 >= vocabulary) quad.y = -kInfinity;
  if (column + 2 >= vocabulary) quad.z = -kInfinity;
  if (column + 3 >= vocabulary) quad.w = -kInfinity;
  return quad;
}

// The first unusable token of a thread's values, and whether one differs from the row's first.
__device__ __forceinline__ void inspect(const float4 (&quads)[kQuads], int32_t begin, int32_t vocabulary, float first,
                                        int32_t& culprit, bool& differs) {
  culprit = kNone;
  differs = false;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const int32_t column = begin + (q * kThreads + static_cast<int32_t>(threadIdx.x)) * 4;
    const float x[4] = {quads[q].x, quads[q].y, quads[q].z, quads[q].w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!(x[i] < kInfinity)) culprit = min(culprit, column + i);
      differs |= x[i] != first && column + i < vocabulary;
    }
  }
}

__device__ __forceinline__ int32_t first_equal(const float4 (&quads)[kQuads], int32_t begin, float value) {
  int32_t best = kNone;
#pragma unroll
  for (int q = kQuads - 1; q >= 0; --q) {
    const int32_t column = begin + (q * kThreads + static_cast<int32_t>(threadIdx.x)) * 4;
    if (quads[q].w == value) best = column + 3;
    if (quads[q].z == value) best = column + 2;
    if (quads[q].y == value) best = column + 1;
    if (quads[q].x == value) best = column;
  }
  return best;
}

// The largest of each group: 8 lanes of a quad each.
__device__ __forceinline__ void store_maxima(const float4 (&quads)[kQuads], float* maxima, int32_t begin,
                                             int32_t groups) {
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    float largest = fmaxf(fmaxf(quads[q].x, quads[q].y), fmaxf(quads[q].z, quads[q].w));
#pragma unroll
    for (int step = 4; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, step));
    const int32_t group = (begin + (q * kThreads + static_cast<int32_t>(threadIdx.x)) * 4) / kGroup;
    if (threadIdx.x % 8 == 0 && group < groups) maxima[group] = largest;
  }
}

__device__ __forceinline__ float finite_or_zero(float x) {
  return x > -kInfinity && x < kInfinity ? x : 0.0F;
}

// Forbids what the mask does not allow.
__device__ __forceinline__ void apply_mask(const SampleParams& params, const SamplingRow& row, int32_t begin,
                                           float4 (&quads)[kQuads]) {
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const int32_t column = begin + (q * kThreads + static_cast<int32_t>(threadIdx.x)) * 4;
    if (column >= params.vocabulary) continue;
    const uint32_t allowed = mask_word(params, row, column / kGroup) >> (column % kGroup);
    if ((allowed & 1U) == 0) quads[q].x = -kInfinity;
    if ((allowed & 2U) == 0) quads[q].y = -kInfinity;
    if ((allowed & 4U) == 0) quads[q].z = -kInfinity;
    if ((allowed & 8U) == 0) quads[q].w = -kInfinity;
  }
}

// The tile after the row's edits and mask; its largest then, in every thread.
__device__ __forceinline__ float edit_tile(const SampleParams& params, const SamplingRow& row, int32_t begin,
                                           Shared& shared, float4 (&quads)[kQuads], float largest, bool& broken) {
  bool changed = row.mask >= 0;
  if (row.edits != 0) {
    const LogitEdit* edits = params.edits + row.first_edit;
    const int32_t from = first_edit_from(edits, row.edits, begin);
    const int32_t to = first_edit_from(edits, row.edits, begin + kTile);
    if (from != to) broken = apply_edits(row, edits, from, to, begin, shared.values, quads);
    changed = changed || from != to;
  }
  if (!changed) return largest;
  if (row.mask >= 0) apply_mask(params, row, begin, quads);
  return block_largest(largest_of(quads), shared.edited);
}

// Adds up what the warps left, in order.
__device__ __forceinline__ void merge_warps(const Shared& shared, TileStats& stats) {
  stats.best = kNone;
  stats.culprit = kNone;
  for (int w = 0; w < kWarps; ++w) {
    stats.sum += shared.sum[w];
    stats.edited_sum += shared.edited_sum[w];
    stats.best = min(stats.best, shared.best[w]);
    stats.culprit = min(stats.culprit, shared.culprit[w]);
    stats.differs |= static_cast<int32_t>(shared.differs[w]);
    stats.broken |= static_cast<int32_t>(shared.broken[w]);
  }
}

__global__ void __launch_bounds__(kThreads, 5) tiles_kernel(const __grid_constant__ SampleParams params) {
  __shared__ Shared shared;
  allow_dependents();
  wait_for_dependencies();
  const auto index = static_cast<int64_t>(blockIdx.y);
  const auto begin = static_cast<int32_t>(blockIdx.x) * kTile;
  const uint32_t warp = threadIdx.x / 32;
  const bool leads = threadIdx.x % 32 == 0;
  if (blockIdx.x == 0 && index == 0 && threadIdx.x <= kSlots) {
    reinterpret_cast<uint32_t*>(params.tickets)[threadIdx.x] = 0;
  }
  const auto* logits = reinterpret_cast<const float*>(params.logits + index * params.stride);
  float4 quads[kQuads];
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    quads[q] = load_logits(logits, begin + (q * kThreads + static_cast<int32_t>(threadIdx.x)) * 4, params.vocabulary);
  }
  const SamplingRow row = params.rows[index];
  int32_t culprit = 0;
  bool differs = false;
  inspect(quads, begin, params.vocabulary, logits[0], culprit, differs);
  culprit = __reduce_min_sync(kAll, culprit);
  differs = __any_sync(kAll, differs);
  TileStats stats{};
  stats.largest = block_largest(largest_of(quads), shared.largest);
  const float sum = warp_sum(exp_sum<false>(quads, finite_or_zero(stats.largest), 1.0F));

  bool broken = false;
  stats.edited = edit_tile(params, row, begin, shared, quads, stats.largest, broken);
  broken = __any_sync(kAll, broken);
  const float tail = tail_temperature(row, params.vocabulary);
  float edited_sum = 0.0F;
  if (tail != 0.0F) edited_sum = warp_sum(exp_sum<true>(quads, finite_or_zero(stats.edited), tail));
  const int32_t best = __reduce_min_sync(kAll, first_equal(quads, begin, stats.edited));
  if (leads) {
    shared.sum[warp] = sum;
    shared.edited_sum[warp] = edited_sum;
    shared.best[warp] = best;
    shared.culprit[warp] = culprit;
    shared.differs[warp] = differs ? 1 : 0;
    shared.broken[warp] = broken ? 1 : 0;
  }
  if (row.temperature != 0.0F) store_maxima(quads, params.maxima + index * params.groups, begin, params.groups);
  __syncthreads();
  if (threadIdx.x != 0) return;
  merge_warps(shared, stats);
  params.stats[index * params.tiles + blockIdx.x] = stats;
}

}  // namespace

void launch_tiles(const Queue& queue, const SampleParams& params, int64_t rows) {
  LaunchShape shape;
  shape.grid = dim3(static_cast<uint32_t>(params.tiles), static_cast<uint32_t>(rows));
  shape.block = dim3(kThreads);
  launch_kernel(queue, "sampling/tiles", shape, tiles_kernel, params);
}

}  // namespace minfer::cuda::sampling
