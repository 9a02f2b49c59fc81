// The sampler's third kernel, launched where rows ask for their likeliest tokens: a block a row, by the logits as they
// came. Each thread finds the largest of its share of the row; the threshold is the largest value that as many of those
// reach as tokens are wanted, so that no token below it is among them. Threads whose share reaches it gather what does,
// which is ordered by counting. Rows with more such logits than there is room for (thousands of equal ones) take the
// tokens one by one, each the first behind the one before. See params.cuh.
#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/sampling/params.cuh"

namespace minfer::cuda::sampling {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr uint32_t kMostGathered = 2048;
constexpr uint32_t kAll = 0xFFFFFFFFU;

struct Shared {
  uint64_t gathered[kMostGathered];
  uint64_t best[graph::kMostTopLogprobs];
  uint64_t partial[kWarps];
  uint32_t count;
};

// The thread's share of the row: every kThreads-th four logits.
template <class Each>
__device__ __forceinline__ void for_each_logit(const float* logits, int32_t vocabulary, Each each) {
#pragma unroll 4
  for (int32_t column = static_cast<int32_t>(threadIdx.x) * 4; column < vocabulary; column += kThreads * 4) {
    const float4 quad = *reinterpret_cast<const float4*>(logits + column);  // rows are padded to 16 bytes
    each(quad.x, column);
    if (column + 1 < vocabulary) each(quad.y, column + 1);
    if (column + 2 < vocabulary) each(quad.z, column + 2);
    if (column + 3 < vocabulary) each(quad.w, column + 3);
  }
}

// False where they are too many.
__device__ inline bool gather_likeliest(const float* logits, int32_t vocabulary, int32_t wanted, Shared& shared) {
  uint32_t largest = 0;
  for_each_logit(logits, vocabulary, [&](float logit, int32_t) { largest = max(largest, ordered(logit)); });
  uint32_t least = 0;  // stays 0 where the row has fewer shares than that
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t trial = least | 1U << bit;
    if (__syncthreads_count(largest >= trial) >= wanted) least = trial;
  }
  if (threadIdx.x == 0) shared.count = 0;
  __syncthreads();
  if (largest >= least) {
    for_each_logit(logits, vocabulary, [&](float logit, int32_t id) {
      if (ordered(logit) < least) return;
      const uint32_t place = atomicAdd(&shared.count, 1U);
      if (place < kMostGathered) shared.gathered[place] = rank_key(logit, id);
    });
  }
  __syncthreads();
  return shared.count <= kMostGathered;
}

__device__ inline void order_gathered(int32_t wanted, Shared& shared) {
  const uint32_t count = shared.count;
  for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
    const uint64_t key = shared.gathered[i];
    int32_t before = 0;
    for (uint32_t j = 0; j < count && before < wanted; ++j) before += shared.gathered[j] < key ? 1 : 0;
    if (before < wanted) shared.best[before] = key;
  }
  __syncthreads();
}

// The lowest key of the block, in every thread.
__device__ __forceinline__ uint64_t block_lowest(uint64_t key, Shared& shared) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const uint64_t other = __shfl_xor_sync(kAll, key, step);
    key = other < key ? other : key;
  }
  if (threadIdx.x % 32 == 0) shared.partial[threadIdx.x / 32] = key;
  __syncthreads();
  key = shared.partial[0];
  for (int w = 1; w < kWarps; ++w) key = shared.partial[w] < key ? shared.partial[w] : key;
  __syncthreads();
  return key;
}

__device__ inline void choose_one_by_one(const float* logits, int32_t vocabulary, int32_t wanted, Shared& shared) {
  uint64_t last = 0;
  for (int32_t i = 0; i < wanted; ++i) {
    uint64_t lowest = UINT64_MAX;
    for_each_logit(logits, vocabulary, [&](float logit, int32_t id) {
      const uint64_t key = rank_key(logit, id);
      if (key < lowest && (i == 0 || key > last)) lowest = key;
    });
    last = block_lowest(lowest, shared);
    if (threadIdx.x == 0) shared.best[i] = last;
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads, 1) top_kernel(const __grid_constant__ SampleParams params) {
  __shared__ Shared shared;
  allow_dependents();
  wait_for_dependencies();
  const auto index = static_cast<int64_t>(blockIdx.x);
  const int32_t asked = params.rows[index].top_logprobs;
  if (asked <= 0 || params.out[index].status != DrawStatus::ok) return;
  const auto* logits = reinterpret_cast<const float*>(params.logits + index * params.stride);
  const int32_t wanted = min(asked, params.vocabulary);
  if (gather_likeliest(logits, params.vocabulary, wanted, shared)) {
    order_gathered(wanted, shared);
  } else {
    choose_one_by_one(logits, params.vocabulary, wanted, shared);
  }
  const auto place = static_cast<int32_t>(threadIdx.x);
  if (place >= wanted) return;
  const uint64_t key = shared.best[place];
  (*params.top)[index * graph::kMostTopLogprobs + place] = {key_id(key),
                                                            logprob_of(key_logit(key), params.softmax[index])};
}

}  // namespace

void launch_top(const Queue& queue, const SampleParams& params, int64_t rows) {
  LaunchShape shape;
  shape.grid = dim3(static_cast<uint32_t>(rows));
  shape.block = dim3(kThreads);
  launch_kernel(queue, "sampling/top", shape, top_kernel, params);
}

}  // namespace minfer::cuda::sampling
