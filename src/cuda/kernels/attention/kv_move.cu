// Moves cached tokens within and between pages. One block takes one head of K or of V and goes through the tokens in
// ascending order, so that a move down inside a page reads each token before it is overwritten. Bytes are copied as
// they are but for the dimensions that rotate: those are read as floats, turned and written again (q8_0: in whole
// blocks of 32). Rare (a context shift, a page copied on write): simple rather than fast.
#include "cuda/kernels/attention/cache.cuh"
#include "cuda/kernels/common/chain.cuh"
#include "cuda/launch/attention.hpp"
#include "cuda/launch/attention_limits.hpp"

namespace minfer::cuda {
namespace {

using attention::CachePart;
using attention::element_bytes;
using attention::head_place;
using attention::HeadPlace;
using attention::key_part;
using attention::kMaxHeadSize;
using attention::kWarp;
using attention::read_element;
using attention::rotate_pair;
using attention::value_part;
using attention::write_head;

constexpr int kThreads = 128;

struct MoveParams {
  CachePart key_cache, value_cache;
  int from_page, from_token, to_page, to_token, tokens;
  const float* inverse_frequencies;
  int pairs;
  double rotate_by;
  bool halves;
};

// Elements [begin, size) and the scales of their blocks, unchanged. Each thread has its own bytes of all tokens.
__device__ void copy_elements(const MoveParams& p, const CachePart& cache, int head, int begin) {
  const int bytes = element_bytes(cache.format);
  for (int i = begin * bytes + static_cast<int>(threadIdx.x); i < cache.size * bytes; i += kThreads) {
    for (int t = 0; t < p.tokens; ++t) {
      head_place(cache, p.to_page, p.to_token + t, head).elements[i] =
          head_place(cache, p.from_page, p.from_token + t, head).elements[i];
    }
  }
  if (cache.format != graph::KvFormat::q8_0) return;
  for (int block = begin / 32 + static_cast<int>(threadIdx.x); block < cache.size / 32; block += kThreads) {
    for (int t = 0; t < p.tokens; ++t) {
      head_place(cache, p.to_page, p.to_token + t, head).scales[block] =
          head_place(cache, p.from_page, p.from_token + t, head).scales[block];
    }
  }
}

// The first `turned` elements of each key, turned. The first warp writes.
__device__ void turn_keys(const MoveParams& p, int head, int turned) {
  __shared__ float values[kMaxHeadSize], cosines[kMaxHeadSize / 2], sines[kMaxHeadSize / 2];
  const CachePart& cache = p.key_cache;
  for (int i = static_cast<int>(threadIdx.x); i < p.pairs; i += kThreads) {
    const double angle = p.rotate_by * static_cast<double>(p.inverse_frequencies[i]);
    cosines[i] = static_cast<float>(cos(angle));
    sines[i] = static_cast<float>(sin(angle));
  }
  for (int t = 0; t < p.tokens; ++t) {
    const HeadPlace from = head_place(cache, p.from_page, p.from_token + t, head);
    for (int i = static_cast<int>(threadIdx.x); i < turned; i += kThreads)
      values[i] = read_element(cache.format, from, i);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < p.pairs; i += kThreads) {
      rotate_pair(values, i, 2 * p.pairs, p.halves, cosines[i], sines[i]);
    }
    __syncthreads();
    const HeadPlace to = head_place(cache, p.to_page, p.to_token + t, head);
    if (threadIdx.x < kWarp) write_head(cache.format, to, values, turned);
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads) kv_move_kernel(const __grid_constant__ MoveParams p) {
  allow_dependents();
  wait_for_dependencies();
  const int head = static_cast<int>(blockIdx.x);
  const bool in_place = p.from_page == p.to_page && p.from_token == p.to_token;
  if (blockIdx.y == 1) {
    if (!in_place) copy_elements(p, p.value_cache, head, 0);
    return;
  }
  const int rotated = 2 * p.pairs;
  const int turned = p.key_cache.format == graph::KvFormat::q8_0 ? (rotated + 31) / 32 * 32 : rotated;
  if (turned > 0) turn_keys(p, head, turned);
  if (!in_place) copy_elements(p, p.key_cache, head, turned);
}

}  // namespace

void launch_kv_move(const Queue& queue, const KvMoveArgs& args) {
  const bool turns = args.inverse_frequencies != nullptr && args.rotate_by != 0;
  const MoveParams params{key_part(args.kv),
                          value_part(args.kv),
                          args.from_page,
                          args.from_token,
                          args.to_page,
                          args.to_token,
                          args.tokens,
                          args.inverse_frequencies,
                          turns ? static_cast<int>(args.pairs) : 0,
                          static_cast<double>(args.rotate_by),
                          args.style == graph::RopeStyle::halves};
  launch_kernel(queue, "attention/kv_move", {dim3(static_cast<unsigned>(args.kv.kv_heads), 2), dim3(kThreads)},
                kv_move_kernel, params);
}

}  // namespace minfer::cuda
