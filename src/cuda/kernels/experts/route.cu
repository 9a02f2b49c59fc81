// Routing on the card: a warp chooses a row's experts; one block brings the entries of an expert together (counts, sums
// of counts, places), where there are many rows. The order of an expert's entries may differ from run to run; no result
// depends on it. Also the weighted sum of a row's entries. See launch/experts.hpp.
#include "cuda/kernels/common/map_rows.cuh"
#include "cuda/launch/experts.hpp"

namespace minfer::cuda {
namespace {

constexpr int kRouteWarps = 4;
constexpr int kGroupThreads = 1024;  // a thread an expert
constexpr int kChosenPerLane = 2;    // of a row's choices

struct RouteParams {
  const std::byte* logits;
  int64_t logits_stride;
  std::byte* weights;
  int64_t weights_stride;
  Routes routes;
  const float* biases;  // null: scores are logits
  graph::RouteAttributes choice;
  bool grouped;  // then `place` gets the experts, for group_kernel
};

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0U, value, step);
  return value;
}

constexpr uint32_t kNone = 0;  // a key below all: chosen already, or no expert
constexpr uint32_t kNan = 1;

// A logit as a number that orders as it does; a NaN is below all others.
__device__ __forceinline__ uint32_t order_key(float logit) {
  if (isnan(logit)) return kNan;
  const uint32_t bits = __float_as_uint(logit + 0.0F);  // no negative zero
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}

// The two largest keys of a warp's lanes, where each has its own two, the larger first.
__device__ __forceinline__ uint2 warp_two_largest(uint2 own) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const uint32_t first = __shfl_xor_sync(~0U, own.x, step), second = __shfl_xor_sync(~0U, own.y, step);
    own = first > own.x ? make_uint2(first, max(own.x, second)) : make_uint2(own.x, max(first, own.y));
  }
  return own;
}

// The number that a key of order_key was made of.
__device__ __forceinline__ float key_value(uint32_t key) {
  if (key <= kNan) return key == kNan ? NAN : -INFINITY;
  return __uint_as_float(key >> 31 != 0 ? key & 0x7FFFFFFFU : ~key);
}

// Takes the experts of all but the best groups out of the choice: their keys become kNone. Lane g has group g's score.
template <int kPerLane>
__device__ __forceinline__ void keep_best_groups(const graph::RouteAttributes& choice, int experts,
                                                 uint32_t (&keys)[kPerLane]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int groups = static_cast<int>(choice.groups), size = experts / groups;
  uint32_t score = kNone;
  for (int g = 0; g < groups; ++g) {
    uint2 best = make_uint2(kNone, kNone);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if ((lane + i * 32) / size != g) continue;
      best = keys[i] > best.x ? make_uint2(keys[i], best.x) : make_uint2(best.x, max(best.y, keys[i]));
    }
    best = warp_two_largest(best);
    const bool two = choice.group_score == graph::GroupScore::two_largest && size > 1;
    const uint32_t group = two ? order_key(key_value(best.x) + key_value(best.y)) : best.x;
    if (lane == g) score = group;
  }
  uint32_t kept = 0;  // a bit a group
  for (int n = 0; n < static_cast<int>(choice.groups_used); ++n) {
    const uint32_t best = __reduce_max_sync(~0U, score);
    const uint32_t first = static_cast<uint32_t>(__ffs(static_cast<int>(__ballot_sync(~0U, score == best)))) - 1;
    kept |= 1U << first;
    if (lane == static_cast<int>(first)) score = kNone;
  }
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    if (lane + i * 32 < experts && (kept >> ((lane + i * 32) / size) & 1U) == 0) keys[i] = kNone;
  }
}

// A row's choice by one warp; a lane has experts lane, lane + 32, .., and keeps the row's choices lane, lane + 32.
template <int kPerLane>
__global__ void __launch_bounds__(kRouteWarps * 32) route_kernel(const __grid_constant__ RouteParams p) {
  allow_dependents();
  wait_for_dependencies();
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRouteWarps + threadIdx.x / 32;
  if (row >= p.routes.rows) return;
  const int experts = static_cast<int>(p.routes.experts), used = static_cast<int>(p.routes.used);
  const auto* logits = reinterpret_cast<const float*>(p.logits + row * p.logits_stride);
  float own[kPerLane];
  uint32_t keys[kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int expert = lane + i * 32;
    own[i] = expert < experts ? logits[expert] : -INFINITY;
    const bool biased = p.biases != nullptr && expert < experts;
    keys[i] = expert < experts ? order_key(biased ? 1.0F / (1.0F + expf(-own[i])) + p.biases[expert] : own[i]) : kNone;
  }
  if (p.choice.groups > 1) keep_best_groups(p.choice, experts, keys);
  int chosen[kChosenPerLane] = {};
  float chosen_logit[kChosenPerLane] = {};
  for (int n = 0; n < used; ++n) {
    uint32_t best = kNone;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) best = max(best, keys[i]);
    best = __reduce_max_sync(~0U, best);
    // The first expert of that key, and its logit.
    uint32_t expert = ~0U;
    float logit = 0;
#pragma unroll
    for (int i = kPerLane - 1; i >= 0; --i) {
      if (keys[i] != best) continue;
      expert = static_cast<uint32_t>(lane + i * 32);
      logit = own[i];
    }
    const uint32_t first = __reduce_min_sync(~0U, expert);
    logit = __shfl_sync(~0U, logit, static_cast<int>(first % 32));
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (first == static_cast<uint32_t>(lane + i * 32)) keys[i] = kNone;
    }
#pragma unroll
    for (int i = 0; i < kChosenPerLane; ++i) {
      if (n != lane + i * 32) continue;
      chosen[i] = static_cast<int>(first);
      chosen_logit[i] = logit;
    }
  }
  const float largest = __shfl_sync(~0U, chosen_logit[0], 0);
  float all = 0;
  if (p.choice.gating == graph::Gating::softmax) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) all += lane + i * 32 < experts ? expf(own[i] - largest) : 0.0F;
    all = warp_sum(all);
  }
  float weights[kChosenPerLane], sum = 0;
#pragma unroll
  for (int i = 0; i < kChosenPerLane; ++i) {
    const float logit = chosen_logit[i];
    weights[i] = p.choice.gating == graph::Gating::sigmoid ? 1.0F / (1.0F + expf(-logit)) : expf(logit - largest);
    if (p.choice.gating == graph::Gating::softmax) weights[i] /= all;
    if (lane + i * 32 < used) sum += weights[i];
  }
  sum = warp_sum(sum);
  const float factor =
      p.choice.normalised || p.choice.gating == graph::Gating::softmax_chosen ? p.choice.scale / sum : p.choice.scale;
#pragma unroll
  for (int i = 0; i < kChosenPerLane; ++i) {
    const int n = lane + i * 32;
    if (n >= used) continue;
    const int64_t at = row * used + n;
    reinterpret_cast<float*>(p.weights + row * p.weights_stride)[n] = weights[i] * factor;
    p.routes.expert[at] = chosen[i];
    p.routes.source[at] = static_cast<int32_t>(row);
    p.routes.place[at] = p.grouped ? chosen[i] : static_cast<int32_t>(at);
  }
}

// Sums of a value over the threads before this one.
__device__ __forceinline__ int block_sum_before(int value, int* warp_totals) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  int sum = value;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0U, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == 31) warp_totals[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    int total = warp_totals[lane];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(~0U, total, step);
      if (lane >= step) total += other;
    }
    warp_totals[lane] = total;
  }
  __syncthreads();
  const int before = (warp == 0 ? 0 : warp_totals[warp - 1]) + sum - value;
  __syncthreads();
  return before;
}

// Entries by expert, and the slices. `place` has the chosen experts.
__global__ void __launch_bounds__(kGroupThreads) group_kernel(const __grid_constant__ Routes routes, int tokens) {
  __shared__ int counts[kGroupThreads];
  __shared__ int warp_totals[32];
  allow_dependents();
  wait_for_dependencies();
  const int thread = static_cast<int>(threadIdx.x), entries = static_cast<int>(routes.rows * routes.used);
  const int used = static_cast<int>(routes.used);
  counts[thread] = 0;
  __syncthreads();
  for (int i = thread; i < entries; i += kGroupThreads) atomicAdd(&counts[routes.place[i]], 1);
  __syncthreads();
  const int count = counts[thread], slices = (count + tokens - 1) / tokens;
  const int first = block_sum_before(count, warp_totals), slice = block_sum_before(slices, warp_totals);
  for (int s = 0; s < slices; ++s) {
    routes.slice[slice + s] = {thread, first + s * tokens, min(tokens, count - s * tokens)};
  }
  if (thread == kGroupThreads - 1) *routes.slices = slice + slices;
  counts[thread] = first;
  __syncthreads();
  for (int i = thread; i < entries; i += kGroupThreads) {
    const int expert = routes.place[i], at = atomicAdd(&counts[expert], 1);
    routes.expert[at] = expert;
    routes.source[at] = i / used;
    routes.place[i] = at;
  }
}

struct SumOp {
  const std::byte* y;
  int64_t y_stride;
  int64_t width;
  const int32_t* place;  // null: y has the rows
  const std::byte* weights;
  int64_t weights_stride;
  int used;
  const std::byte* residual;
  int64_t residual_stride;

  __device__ __forceinline__ float4 operator()(int64_t row, int64_t column) const {
    float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    const auto* weight = reinterpret_cast<const float*>(weights + row * weights_stride);
    for (int i = 0; i < used; ++i) {
      const int64_t from = place == nullptr ? row : place[row * used + i];
      const float4 x = load_quad(reinterpret_cast<const float*>(y + from * y_stride), column, width);
      const float w = weight[i];
      sum.x += w * x.x;
      sum.y += w * x.y;
      sum.z += w * x.z;
      sum.w += w * x.w;
    }
    if (residual == nullptr) return sum;
    const float4 x = load_quad(reinterpret_cast<const float*>(residual + row * residual_stride), column, width);
    return make_float4(x.x + sum.x, x.y + sum.y, x.z + sum.z, x.w + sum.w);
  }
};

bool is_f32(const Rows& rows, int64_t count, int64_t width) {
  return rows.format == ActivationFormat::f32 && rows.rows == count && rows.width == width;
}

}  // namespace

void launch_route(const Queue& queue, const RouteArgs& args) {
  const Routes& routes = args.routes;
  require(is_f32(args.logits, routes.rows, routes.experts) && is_f32(args.weights, routes.rows, routes.used) &&
              routes.experts <= kGroupThreads && routes.used >= 1 && routes.used <= routes.experts &&
              routes.used <= kChosenPerLane * 32 && routes.used == args.choice.used && args.choice.groups <= 32 &&
              routes.experts % args.choice.groups == 0,
          "router logits and weights match their routes");
  if (routes.rows == 0) return;
  const RouteParams params = {args.logits.data,
                              row_stride(ActivationFormat::f32, routes.experts),
                              args.weights.data,
                              row_stride(ActivationFormat::f32, routes.used),
                              routes,
                              args.biases,
                              args.choice,
                              routes.grouped()};
  LaunchShape shape;
  shape.grid = dim3(static_cast<uint32_t>((routes.rows + kRouteWarps - 1) / kRouteWarps));
  shape.block = dim3(kRouteWarps * 32);
  if (routes.experts <= 128) {
    launch_kernel(queue, "experts/route", shape, route_kernel<4>, params);
  } else if (routes.experts <= 512) {
    launch_kernel(queue, "experts/route", shape, route_kernel<16>, params);
  } else {
    launch_kernel(queue, "experts/route", shape, route_kernel<32>, params);
  }
  if (!routes.grouped()) return;
  LaunchShape group;
  group.grid = dim3(1);
  group.block = dim3(kGroupThreads);
  launch_kernel(queue, "experts/group", group, group_kernel, routes,
                expert_tile_tokens(routes.rows, routes.experts, routes.used));
}

void launch_expert_sum(const Queue& queue, const ExpertSumArgs& args) {
  const Routes& routes = args.routes;
  require(is_f32(args.y, args.by_row ? routes.rows : routes.entries(), args.out.width) &&
              is_f32(args.weights, routes.rows, routes.used) && is_f32(args.out, routes.rows, args.out.width) &&
              (!args.by_row || routes.used == 1),
          "summed entries match their routes");
  const int64_t stride = row_stride(ActivationFormat::f32, args.out.width);
  const SumOp op = {args.y.data,
                    stride,
                    args.out.width,
                    args.by_row ? nullptr : routes.place,
                    args.weights.data,
                    row_stride(ActivationFormat::f32, routes.used),
                    static_cast<int>(routes.used),
                    reinterpret_cast<const std::byte*>(args.residual),
                    stride};
  launch_map_rows(queue, "experts/sum", op, args.out);
}

}  // namespace minfer::cuda
