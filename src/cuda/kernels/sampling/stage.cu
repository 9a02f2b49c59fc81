// A step's data from pinned memory to the card. See launch/stage.hpp. The data is some kilobytes: every thread asks for
// one unit, so that all is on its way at once. A block also brings the edits of the row of its index, a thread an edit.
#include <algorithm>

#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/require.hpp"
#include "cuda/launch/stage.hpp"

namespace minfer::cuda {
namespace {

constexpr int kThreads = 256;
static_assert(kThreads >= kMostRowEdits, "a thread an edit");

// Where `id` names an output of the step before, the token that was drawn there.
__device__ __forceinline__ int32_t known_id(int32_t id, const Drawn* drawn) {
  return id < 0 ? drawn[-1 - id].id : id;
}

__device__ __forceinline__ void fetch_unit(const StageArgs& args, int64_t unit) {
  int4 four = reinterpret_cast<const int4*>(args.host)[unit];
  if (unit * 4 < args.tokens) {
    four.x = known_id(four.x, args.drawn);
    if (unit * 4 + 1 < args.tokens) four.y = known_id(four.y, args.drawn);
    if (unit * 4 + 2 < args.tokens) four.z = known_id(four.z, args.drawn);
    if (unit * 4 + 3 < args.tokens) four.w = known_id(four.w, args.drawn);
  }
  reinterpret_cast<int4*>(args.device)[unit] = four;
}

// The row and its edits, which stay in ascending order of tokens. Called by all threads of the block.
__device__ __forceinline__ void fetch_row(const StageArgs& args, int64_t index) {
  SamplingRow row = reinterpret_cast<const SamplingRow*>(args.host + args.draws_offset)[index];
  const auto* from = reinterpret_cast<const LogitEdit*>(args.host + args.edits_offset) + row.first_edit;
  auto* to = reinterpret_cast<LogitEdit*>(args.device + args.edits_offset) + row.first_edit;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const bool mine = thread < row.edits;
  LogitEdit edit = mine ? from[thread] : LogitEdit{};
  int32_t place = thread;
  if (row.counted >= 0) {
    const int32_t token = args.drawn[row.counted].id;
    const bool same = mine && edit.token == token;
    if (same) ++edit.count;
    const bool found = __syncthreads_or(same ? 1 : 0) != 0;
    const int32_t before = __syncthreads_count(mine && edit.token < token ? 1 : 0);
    if (!found) {
      if (place >= before) ++place;
      if (thread == 0) to[before] = {token, 0.0F, 1, 0.0F};
      ++row.edits;
    }
  }
  if (mine) to[place] = edit;
  if (thread == 0) reinterpret_cast<SamplingRow*>(args.device + args.draws_offset)[index] = row;
}

__global__ void __launch_bounds__(kThreads) stage_kernel(const __grid_constant__ StageArgs args) {
  allow_dependents();
  wait_for_dependencies();
  const int64_t block = blockIdx.x;
  const int64_t unit = block * kThreads + threadIdx.x;
  if (unit * 16 < args.bytes) fetch_unit(args, unit);
  if (block < args.draws) fetch_row(args, block);
}

}  // namespace

void launch_stage(const Queue& queue, const StageArgs& args) {
  require(args.bytes % 16 == 0 && args.tokens * 4 <= args.bytes, "stage's bytes");
  require(args.draws <= kMaxSampledRows, "stage's rows");
  constexpr int64_t kBlockBytes = kThreads * 16;
  LaunchShape shape;
  shape.grid = dim3(static_cast<uint32_t>(std::max((args.bytes + kBlockBytes - 1) / kBlockBytes, args.draws)));
  shape.block = dim3(kThreads);
  launch_kernel(queue, "sampling/stage", shape, stage_kernel, args);
}

}  // namespace minfer::cuda
