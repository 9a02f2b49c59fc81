// How small-batch launches are cut, and which unit has their kernels. See linear_batch.hpp.
// Pure but for the launches themselves; engine's thread.
#include "cuda/launch/linear_batch.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cuda/kernels/linear/batch_params.hpp"
#include "cuda/kernels/linear/units.hpp"
#include "cuda/launch/panel_types.hpp"
#include "cuda/launch/strict.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;

// A unit of kernels serves one or two types.
struct BatchUnit {
  DType a, b;
  void (*launch)(const Queue&, const BatchLaunch&);
};
constexpr BatchUnit kBatchUnits[] = {
    {DType::q4_k, DType::q6_k, launch_batch_q4_k}, {DType::q5_k, DType::q6_k, launch_batch_q5_k},
    {DType::q8_0, DType::q5_0, launch_batch_q8_0}, {DType::q5_1, DType::q8_0, launch_batch_q5_1},
    {DType::q4_0, DType::q4_1, launch_batch_q4_0},
};

constexpr int64_t kChunkColumns = kPanelBlock * kPanelChunkBlocks;
// The barriers, which are not in the dynamic part.
constexpr int64_t kStaticBytes = 512;
constexpr int64_t kWarpScaleBytes = 1024;
// What is lost to the rings' alignment.
constexpr int64_t kAlignment = 1024;
// Tokens whose sums are staged at a time where a block has several tiles.
constexpr int kStagedTokens = 16;
// The rows from which the kernels for tokens in 8-bit form are left for those for bf16.
constexpr int64_t kQ8Rows = kDecodeRows;
// Costs in halves of what 64 rows by 256 columns take. Every chunk brings its tokens as well, however many rows it has;
// then what a tile costs beside its chunks, and what putting sums together does.
constexpr int64_t kChunkCost = 1;
constexpr int64_t kTileCost = 4;
constexpr int64_t kSplitCost = 4;

int64_t count_groups(const BatchShape& shape) {
  const int64_t panels = shape.glu ? 4 : 8;
  int64_t groups = 0;
  for (int s = 0; s < shape.segments; ++s) groups += (shape.panels[s] + panels - 1) / panels;
  return groups;
}

// Bytes of a stage of activations, and how many there are.
int64_t x_stage_bytes(int tokens) {
  return tokens == 8 ? 8 * (272 + 72) : int64_t{tokens} * 256;
}
int x_stages(int tokens) {
  return tokens == 8 || tokens == 64 ? 4 : 3;
}

constexpr int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

bool batch_serves(const Capabilities& capabilities, DType a, DType b, int64_t rows) {
  if (rows > kQ8Rows && capabilities.major != 9) return false;
  return find_unit(kBatchUnits, a, b) != nullptr;
}

bool prefers_batch(const Capabilities& capabilities, DType dtype, int64_t rows) {
  if (capabilities.strict) return strict_takes_batch(capabilities, dtype);
  const bool measured = dtype == DType::q4_k || dtype == DType::q6_k;
  if (rows < (measured ? kBatchFirstRows : kDecodeRows + 1) || rows > kSmallBatchRows) return false;
  return batch_serves(capabilities, dtype, dtype, rows);
}

BatchCut cut_batch(const Capabilities& capabilities, const BatchShape& shape) {
  const int64_t chunks = (shape.cols + kChunkColumns - 1) / kChunkColumns;
  const int64_t groups = count_groups(shape);
  BatchCut best;
  int64_t least = 0;
  for (int splits = 1; splits <= kBatchMaxSplits; splits *= 2) {
    if (splits > 1 && (capabilities.tier < Tier::hopper || splits > chunks)) break;
    // A cluster's blocks are neighbours: some multiprocessors are left over.
    const int64_t places = splits <= 2 ? capabilities.multiprocessors / splits * splits
                                       : capabilities.multiprocessors / kBatchMaxSplits * kBatchMaxSplits;
    for (int warpgroups = kBatchMaxWarpgroups; warpgroups >= 1; --warpgroups) {
      const int64_t tiles = (groups + warpgroups - 1) / warpgroups;
      const int64_t waves = (tiles * splits + places - 1) / std::max<int64_t>(places, 1);
      const int64_t part = (chunks + splits - 1) / splits;
      const int64_t cost = waves * (part * (2 * warpgroups + kChunkCost) + kTileCost + (splits > 1 ? kSplitCost : 0));
      if (best.splits != 0 && cost >= least) continue;
      least = cost;
      best = {warpgroups, splits, tiles};
    }
  }
  return best;
}

int batch_tokens(int64_t rows) {
  for (const int tokens : {8, 16, 32, 64, 104}) {
    if (rows <= tokens) return tokens;
  }
  return kBatchMaxTokens;
}

BatchPlan plan_batch(const Capabilities& capabilities, const BatchShape& shape, int tokens) {
  BatchPlan plan;
  plan.cut = cut_batch(capabilities, shape);
  const BatchCut& cut = plan.cut;
  const bool one_tile = cut.splits > 1 || cut.tiles <= capabilities.multiprocessors;
  plan.blocks = static_cast<int>(one_tile ? cut.tiles * cut.splits : capabilities.multiprocessors);
  for (const DType dtype : shape.types) {
    plan.slot_bytes = std::max(plan.slot_bytes, panel_type(dtype).chunk_bytes(static_cast<int>(kPanelChunkBlocks)));
  }
  const int64_t stage = int64_t{plan.slot_bytes} * cut.warpgroups * 8;
  plan.x_stages = x_stages(tokens);
  plan.weights_at = static_cast<int>(round_up(plan.x_stages * x_stage_bytes(tokens), 128));
  const int64_t scale_bytes = cut.warpgroups * 4 * kWarpScaleBytes;
  plan.staged_tokens = one_tile ? tokens : std::min(tokens, kStagedTokens);
  const int64_t staged_bytes = int64_t{plan.staged_tokens} * (cut.warpgroups * 64 + 4) * 4;
  const int64_t fixed = plan.weights_at + scale_bytes + (one_tile ? 0 : staged_bytes) + kAlignment;
  const int64_t own = capabilities.shared_bytes_per_block - kStaticBytes;
  plan.stages = static_cast<int>(std::clamp<int64_t>((own - fixed) / stage, 0, kBatchMaxStages));
  plan.scales_at = static_cast<int>(plan.weights_at + plan.stages * stage);
  const int64_t rings_end = plan.scales_at + scale_bytes;
  plan.staged_at = one_tile ? 0 : static_cast<int>(rings_end);
  plan.shared_bytes = (one_tile ? std::max(rings_end, staged_bytes) : rings_end + staged_bytes) + kAlignment;
  if (plan.shared_bytes > own) plan.stages = 0;
  return plan;
}

namespace {

// The pass's rows as tensor copies read them: boxes of 64 columns of `tokens` rows, laid as wgmma.cuh says; zeros
// beyond the matrix.
void map_tokens(BatchParams& p, int tokens) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    check_status(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
        "linear/batch");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(p.cols), static_cast<cuuint64_t>(p.rows)};
  const cuuint64_t stride = static_cast<cuuint64_t>(p.x_stride);
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(tokens)}, steps[2] = {1, 1};
  // The driver does not write through the address; its signature is older than const.
  void* data = const_cast<std::byte*>(p.x);
  if (encode == nullptr ||
      encode(&p.x_map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, sizes, &stride, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) {
    fail(ErrorCode::device, "the driver can't describe {} rows of {} columns for tensor copies", p.rows, p.cols);
  }
}

// Passes over the rows, each with the parameters of its rows.
void launch_passes(const Queue& queue, const BatchUnit& unit, const BatchShape& shape, const Rows& x,
                   const BatchParams& base) {
  for (int64_t row = 0; row < x.rows;) {
    BatchLaunch launch;
    launch.tokens = x.format == ActivationFormat::q8 ? 8 : std::max(batch_tokens(x.rows - row), 16);
    launch.plan = plan_batch(*queue.capabilities, shape, launch.tokens);
    const BatchPlan& plan = launch.plan;
    if (plan.stages < 2) {
      fail(ErrorCode::unsupported, "a small batch's tiles don't fit the shared memory of {} ({} bytes a block)",
           queue.capabilities->name, queue.capabilities->shared_bytes_per_block);
    }
    launch.params = base;
    BatchParams& p = launch.params;
    p.tiles = static_cast<int>(plan.cut.tiles);
    p.warpgroups = plan.cut.warpgroups;
    p.splits = plan.cut.splits;
    p.stages = plan.stages;
    p.slot_bytes = plan.slot_bytes;
    p.x_stages = plan.x_stages;
    p.weights_at = plan.weights_at;
    p.scales_at = plan.scales_at;
    p.staged_at = plan.staged_at;
    p.staged_tokens = plan.staged_tokens;
    p.cols = static_cast<int>(x.width);
    p.chunks = static_cast<int>((x.width + kChunkColumns - 1) / kChunkColumns);
    p.x_stride = row_stride(x.format, x.width);
    p.x_scales_at = static_cast<int>(q8_quants_bytes(x.width));
    p.x = x.data + row * p.x_stride;
    p.rows = static_cast<int>(std::min<int64_t>(launch.tokens, x.rows - row));
    if (x.format == ActivationFormat::bf16) map_tokens(p, launch.tokens);
    int first = 0;
    for (int s = 0; s < p.segments; ++s) {
      BatchSegment& segment = p.segment[s];
      if (segment.out != nullptr) segment.out += row * segment.out_stride;
      segment.first_group = p.glu ? 0 : first;
      first += (segment.panels + 7) / 8;
    }
    if (p.residual != nullptr) p.residual += row * (p.segment[0].out_stride / static_cast<int64_t>(sizeof(float)));
    if (p.out != nullptr) p.out += row * p.out_stride;
    unit.launch(queue, launch);
    row += launch.tokens;
  }
}

void check_input(const Rows& x, const PanelMatrix& weight) {
  const bool strict = x.format == ActivationFormat::bf16;  // or beyond kDecodeRows
  check((strict || x.format == activation_format(weight.dtype, x.rows)) && x.width == weight.cols && x.rows > 0 &&
            weight.rows > 0 && x.width % kPanelBlock == 0,
        "a small-batch product's input doesn't match its weights");
}

BatchSegment segment_of(const PanelMatrix& weight, const float* bias, const BatchUnit& unit) {
  BatchSegment segment{};
  segment.weights = weight.data;
  segment.bias = bias;
  segment.rows = static_cast<int>(weight.rows);
  segment.panels = static_cast<int>(panels_of(weight));
  segment.type = weight.dtype == unit.a ? 0 : 1;
  return segment;
}

const BatchUnit& unit_of(DType a, DType b) {
  const BatchUnit* unit = find_unit(kBatchUnits, a, b);
  if (unit == nullptr) {
    fail(ErrorCode::unsupported, "no CUDA small-batch kernel for weights of {} and {} in one product",
         tensor::dtype_info(a).name, tensor::dtype_info(b).name);
  }
  return *unit;
}

// Of both types of a launch. `used`: which of the unit's it has.
void set_types(const BatchUnit& unit, const bool (&used)[2], int64_t cols, BatchShape& shape, BatchParams& p) {
  shape.types[0] = used[0] ? unit.a : unit.b;
  shape.types[1] = used[1] ? unit.b : unit.a;
  p.panel_bytes[0] = static_cast<int>(panel_bytes(unit.a, cols));
  p.panel_bytes[1] = static_cast<int>(panel_bytes(unit.b, cols));
}

}  // namespace

void launch_linear_batch(const Queue& queue, const LinearArgs& args) {
  check(args.segments >= 1 && args.segments <= kMaxSegments && (args.residual == nullptr || args.segments == 1),
        "a linear product of too many segments, or with a residual for more than one");
  bool done[kMaxSegments] = {};
  for (int first = 0; first < args.segments; ++first) {
    check_input(args.x, args.segment[first].weight);
    if (done[first]) continue;
    const DType dtype = args.segment[first].weight.dtype;
    const BatchUnit* chosen = choose_unit(kBatchUnits, args, done, first);
    const BatchUnit& unit = chosen != nullptr ? *chosen : unit_of(dtype, dtype);
    BatchShape shape;
    shape.cols = args.x.width;
    BatchParams p{};
    bool used[2] = {};
    for (int s = first; s < args.segments; ++s) {
      const LinearSegment& from = args.segment[s];
      if (done[s] || !serves(unit, from.weight.dtype)) continue;
      done[s] = true;
      BatchSegment& to = p.segment[p.segments++];
      to = segment_of(from.weight, from.bias, unit);
      to.out = from.out.data;
      to.out_stride = row_stride(from.out.format, from.out.width);
      shape.panels[shape.segments++] = to.panels;
      used[to.type] = true;
    }
    p.residual = args.residual;
    set_types(unit, used, args.x.width, shape, p);
    launch_passes(queue, unit, shape, args.x, p);
  }
}

void launch_linear_glu_batch(const Queue& queue, const LinearGluArgs& args) {
  check_input(args.x, args.gate);
  check_input(args.x, args.up);
  check(args.gate.rows == args.up.rows && args.gate.dtype == args.up.dtype,
        "gate and up of a small batch have one shape and type");
  const BatchUnit& unit = unit_of(args.gate.dtype, args.up.dtype);
  BatchShape shape;
  shape.cols = args.x.width;
  shape.glu = true;
  shape.segments = 1;
  shape.panels[0] = panels_of(args.gate);
  BatchParams p{};
  p.glu = true;
  p.segments = 2;
  p.segment[0] = segment_of(args.gate, args.gate_bias, unit);
  p.segment[1] = segment_of(args.up, args.up_bias, unit);
  p.out = args.out.data;
  p.out_stride = row_stride(args.out.format, args.out.width);
  p.format = args.out.format;
  p.activation = args.activation;
  const bool used[2] = {args.gate.dtype == unit.a, args.gate.dtype != unit.a};
  set_types(unit, used, args.x.width, shape, p);
  launch_passes(queue, unit, shape, args.x, p);
}

}  // namespace minfer::cuda
