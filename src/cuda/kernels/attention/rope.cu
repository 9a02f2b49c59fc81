// What precedes attention: norm over each head, rotation, and the append to the cache. One warp takes one head of one
// row through shared memory, so that any head size, rotation and format goes the same way. launch_rope and
// launch_kv_append are the same kernel with parts left out. See launch/attention.hpp.
#include <algorithm>

#include "cuda/kernels/attention/cache.cuh"
#include "cuda/kernels/common/chain.cuh"
#include "cuda/launch/attention.hpp"
#include "cuda/launch/attention_limits.hpp"

namespace minfer::cuda {
namespace {

using attention::CachePart;
using attention::head_place;
using attention::key_part;
using attention::kWarp;
using attention::rotate_pair;
using attention::value_part;
using attention::warp_sum;
using attention::write_head;

constexpr int kHeadsPerBlock = 4;

// Heads of a row that are handled alike.
struct HeadRows {
  const float* x = nullptr;
  int64_t stride = 0;  // floats
  int heads = 0;
  int size = 0;
  const float* norm = nullptr;
};

struct RopeParams {
  HeadRows q, k, v;
  float* q_out = nullptr;
  int64_t q_out_stride = 0;
  const float* angles = nullptr;
  int64_t angles_stride = 0;
  int rotated = 0;
  bool halves = false;
  float eps = 0;
  CachePart key_cache{}, value_cache{};
  const int32_t* slots = nullptr;
  int64_t tasks = 0;  // heads of all rows
};

// Head `head` of `row` to shared memory, with its norm.
__device__ void load_head(const HeadRows& rows, int64_t row, int head, float eps, float* values) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const float* x = rows.x + row * rows.stride + static_cast<int64_t>(head) * rows.size;
  float squares = 0;
  for (int i = lane; i < rows.size; i += kWarp) {
    values[i] = x[i];
    squares += x[i] * x[i];
  }
  if (rows.norm != nullptr) {
    const float factor = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(rows.size) + eps);
    for (int i = lane; i < rows.size; i += kWarp) values[i] = values[i] * factor * rows.norm[i];
  }
  __syncwarp();
}

__device__ void rotate_head(const RopeParams& p, int64_t row, float* values) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const float* angles = p.angles + row * p.angles_stride;
  for (int i = lane; i < p.rotated / 2; i += kWarp) {
    rotate_pair(values, i, p.rotated, p.halves, angles[2 * i], angles[2 * i + 1]);
  }
  __syncwarp();
}

__global__ void __launch_bounds__(kHeadsPerBlock* kWarp) rope_append_kernel(const __grid_constant__ RopeParams p) {
  extern __shared__ float heads_shared[];
  allow_dependents();
  wait_for_dependencies();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t task = static_cast<int64_t>(blockIdx.x) * kHeadsPerBlock + warp;
  if (task >= p.tasks) return;
  const int per_row = p.q.heads + p.k.heads + p.v.heads;
  const int64_t row = task / per_row;
  int head = static_cast<int>(task % per_row);
  float* values = heads_shared + warp * max(max(p.q.size, p.k.size), p.v.size);
  if (head < p.q.heads) {
    load_head(p.q, row, head, p.eps, values);
    rotate_head(p, row, values);
    float* out = p.q_out + row * p.q_out_stride + static_cast<int64_t>(head) * p.q.size;
    for (int i = lane; i < p.q.size; i += kWarp) out[i] = values[i];
    return;
  }
  const int slot = p.slots[row];
  if (slot < 0) return;
  head -= p.q.heads;
  const bool is_key = head < p.k.heads;
  if (!is_key) head -= p.k.heads;
  const CachePart& cache = is_key ? p.key_cache : p.value_cache;
  load_head(is_key ? p.k : p.v, row, head, p.eps, values);
  if (is_key) rotate_head(p, row, values);
  const int64_t page = slot / static_cast<int>(kKvPageTokens);
  write_head(cache.format, head_place(cache, page, slot % static_cast<int>(kKvPageTokens), head), values, cache.size);
}

HeadRows head_rows(const Rows& rows, int64_t heads, const float* norm) {
  return {reinterpret_cast<const float*>(rows.data), row_stride(rows.format, rows.width) / 4, static_cast<int>(heads),
          static_cast<int>(rows.width / heads), norm};
}

void set_angles(RopeParams& params, const Rows& angles, graph::RopeStyle style) {
  params.angles = reinterpret_cast<const float*>(angles.data);
  params.angles_stride = row_stride(angles.format, angles.width) / 4;
  params.rotated = static_cast<int>(angles.width);
  params.halves = style == graph::RopeStyle::halves;
}

void set_query_out(RopeParams& params, const Rows& out) {
  params.q_out = reinterpret_cast<float*>(out.data);
  params.q_out_stride = row_stride(out.format, out.width) / 4;
}

void set_cache(RopeParams& params, const KvLayerView& kv, const StepView& step) {
  params.key_cache = key_part(kv);
  params.value_cache = value_part(kv);
  params.slots = step.slots;
}

void launch(const Queue& queue, const char* site, RopeParams& params, int64_t rows) {
  params.tasks = rows * (params.q.heads + params.k.heads + params.v.heads);
  if (params.tasks == 0) return;
  const int size = std::max(std::max(params.q.size, params.k.size), params.v.size);
  const auto blocks = static_cast<unsigned>((params.tasks + kHeadsPerBlock - 1) / kHeadsPerBlock);
  launch_kernel(
      queue, site,
      {dim3(blocks), dim3(kHeadsPerBlock * kWarp), kHeadsPerBlock * size * static_cast<int64_t>(sizeof(float))},
      rope_append_kernel, params);
}

}  // namespace

void launch_rope_append(const Queue& queue, const RopeAppendArgs& args) {
  RopeParams params;
  params.q = head_rows(args.q, args.heads, args.q_norm);
  params.k = head_rows(args.k, args.kv.kv_heads, args.k_norm);
  params.v = head_rows(args.v, args.kv.kv_heads, nullptr);
  params.eps = args.eps;
  set_angles(params, args.angles, args.style);
  set_query_out(params, args.q_out);
  set_cache(params, args.kv, args.step);
  launch(queue, "attention/rope_append", params, args.q.rows);
}

void launch_rope(const Queue& queue, const RopeArgs& args) {
  RopeParams params;
  params.q = head_rows(args.x, args.heads, nullptr);
  set_angles(params, args.angles, args.style);
  set_query_out(params, args.out);
  launch(queue, "attention/rope", params, args.x.rows);
}

void launch_kv_append(const Queue& queue, const Rows& k, const Rows& v, const KvLayerView& kv, const StepView& step) {
  RopeParams params;
  params.k = head_rows(k, kv.kv_heads, nullptr);
  params.v = head_rows(v, kv.kv_heads, nullptr);
  set_cache(params, kv, step);
  launch(queue, "attention/kv_append", params, k.rows);
}

}  // namespace minfer::cuda
