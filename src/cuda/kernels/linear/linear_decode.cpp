// How decode launches are cut, and which unit has their kernels. See linear_decode.hpp.
// Pure but for the launches themselves; engine's thread.
#include "cuda/launch/linear_decode.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cuda/kernels/linear/decode_prepare.hpp"
#include "cuda/kernels/linear/units.hpp"
#include "cuda/launch/panel_types.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;

// A unit of kernels serves one or two types.
struct DecodeUnit {
  DType a, b;
  void (*launch)(const Queue&, const DecodeLaunch&);
};
constexpr DecodeUnit kDecodeUnits[] = {
    {DType::q4_k, DType::q6_k, launch_decode_q4_k},    {DType::q5_k, DType::q6_k, launch_decode_q5_k},
    {DType::q8_0, DType::q5_0, launch_decode_q8_0},    {DType::q5_1, DType::q8_0, launch_decode_q5_1},
    {DType::q4_0, DType::q4_1, launch_decode_q4_0},    {DType::q2_k, DType::q3_k, launch_decode_q2_k},
    {DType::iq4_nl, DType::iq4_xs, launch_decode_iq4}, {DType::mxfp4, DType::mxfp4, launch_decode_mxfp4},
    {DType::bf16, DType::bf16, launch_decode_bf16},    {DType::f16, DType::f16, launch_decode_f16},
    {DType::f32, DType::f32, launch_decode_f32},
};

const DecodeUnit& unit_of(DType a, DType b) {
  if (!decode_pairs(a, b)) {
    fail(ErrorCode::unsupported, "no CUDA decode kernel for weights of {} and {} in one product",
         tensor::dtype_info(a).name, tensor::dtype_info(b).name);
  }
  return *find_unit(kDecodeUnits, a, b);
}

// Of 512 columns.
int unit_bytes(DType dtype) {
  const PanelType type = panel_type(dtype);
  return type.plain() ? 128 * type.quant_bytes() : 2 * type.chunk_bytes(8);
}

// What a multiprocessor keeps for itself, for each block.
constexpr int64_t kReservedBytes = 1024;
// The barriers, which are not in the dynamic part.
constexpr int64_t kStaticBytes = 512;

// Tiles of plain types at most: they leave a short ring, whose tiles must not be few. Measured: 2% at Qwen3-8B BF16.
constexpr int64_t kPlainTileBytes = 16 * 1024;

// Units of 512 columns a panel.
int64_t panel_units(const DecodeShape& shape) {
  return (shape.cols + 511) / 512;
}

// Activations in f32 are large: those of a part of wide rows at most, else they leave too short a ring. Qwen3-8B BF16:
// 12,288 columns.
constexpr int64_t kPartUnits = 16;

// Equal parts, of whole tiles. By the weights alone: a row's sum is made of its parts'.
int column_parts(const DecodeShape& shape) {
  const int64_t units = panel_units(shape);
  if (!panel_type(shape.types[0]).plain() || shape.cols % 512 != 0) return 1;
  for (int64_t parts = 1; 2 * parts <= units; ++parts) {
    if (units <= kPartUnits * parts && units % (2 * parts) == 0) return static_cast<int>(parts);
  }
  return 1;
}

// Shared memory beside the ring.
int64_t fixed_bytes(const DecodePlan& plan) {
  return plan.tokens * plan.act_bytes + int64_t{plan.parts} * plan.slots * kDecodeWarps * plan.tokens * 8 * 4;
}

// The ring within `bytes`; false where there are not two stages.
bool cut_ring(const DecodeShape& shape, int64_t bytes, int64_t tile_bytes, DecodePlan& plan) {
  int largest = 0;
  for (int t = 0; t < 2; ++t) {
    const int unit = unit_bytes(shape.types[t]);
    if (bytes / 2 < unit) return false;
    const int units = static_cast<int>(std::max<int64_t>(1, std::min(tile_bytes, bytes / 2) / unit));
    plan.tile_units[t] = units >= kDecodeWarps ? units / kDecodeWarps * kDecodeWarps : units;
    largest = std::max(largest, plan.tile_units[t] * unit);
  }
  plan.stage_bytes = (largest + 127) / 128 * 128;
  plan.stages = static_cast<int>(std::min<int64_t>(bytes / plan.stage_bytes, kDecodeMaxStages));
  return plan.stages >= 2;
}

}  // namespace

DecodePlan plan_decode(const Capabilities& capabilities, const DecodeShape& shape, const DecodeTuning& tuning) {
  const int64_t own = capabilities.shared_bytes_per_block - kStaticBytes;
  const int64_t both = capabilities.shared_bytes_per_multiprocessor / (2 * tuning.blocks_per_multiprocessor) -
                       kReservedBytes - kStaticBytes;
  DecodePlan plan;
  plan.parts = column_parts(shape);
  plan.act_bytes = panel_type(shape.types[0]).plain() ? (shape.cols / plan.parts + 7) / 8 * 32
                                                      : row_stride(ActivationFormat::q8, shape.cols);
  const int64_t blocks = int64_t{capabilities.multiprocessors} * tuning.blocks_per_multiprocessor;
  plan.blocks = static_cast<int>(std::min(blocks, shape.units));
  // Panels of the longest run.
  const int64_t run = (shape.units + plan.blocks - 1) / plan.blocks * (shape.glu ? 8 : 1);
  for (int tokens : {8, 4, 2, 1}) {
    if (tokens > 1 && tokens / 2 >= shape.rows) continue;
    plan.tokens = tokens;
    plan.slots = static_cast<int>(std::min<int64_t>(run, std::max(8, kDecodeMaxSlots / std::max(tokens / 2, 1))));
    const int64_t fixed = fixed_bytes(plan);
    int64_t tile = tuning.tile_bytes;
    if (panel_type(shape.types[0]).plain()) tile = std::min(tile, kPlainTileBytes);
    int64_t ring = std::min(tuning.ring_bytes, both - fixed);
    if (ring < tuning.ring_bytes / 2) ring = std::min(tuning.ring_bytes, own - fixed);
    // Weights that are streamed again with a whole ring are faster than once with a short one.
    if (tokens > 1 && ring < tuning.ring_bytes / 2) continue;
    if (ring <= 0 || !cut_ring(shape, ring, tile, plan)) continue;
    plan.shared_bytes = fixed + int64_t{plan.stages} * plan.stage_bytes;
    return plan;
  }
  plan.tokens = 0;
  return plan;
}

bool decode_pairs(DType a, DType b) {
  return find_unit(kDecodeUnits, a, b) != nullptr;
}

DecodeLaunch prepare_decode(const Queue& queue, const DecodeShape& shape, ActivationFormat format,
                            const InputNorm& norm, const DecodeTuning& tuning) {
  DecodeLaunch launch{};
  launch.plan = plan_decode(*queue.capabilities, shape, tuning);
  if (launch.plan.tokens == 0) {
    fail(ErrorCode::unsupported, "a row of {} activations doesn't fit the shared memory of {} ({} bytes a block)",
         shape.cols, queue.capabilities->name, queue.capabilities->shared_bytes_per_block);
  }
  const PanelType type = panel_type(shape.types[0]);
  const int64_t piece = type.plain() ? 128 / type.bits : kPanelBlock;
  const int64_t pieces = (shape.cols + piece - 1) / piece, units = panel_units(shape);
  DecodeParams& p = launch.params;
  p.glu = shape.glu;
  p.units = static_cast<int>(shape.units);
  p.x_stride = row_stride(format, shape.cols);
  p.cols = static_cast<int>(shape.cols);
  p.parts = launch.plan.parts;
  p.part_units = static_cast<int>(units / p.parts);
  p.part_bytes = p.part_units * unit_bytes(shape.types[0]);
  p.last_pieces = static_cast<int>(pieces - (units - 1) * (512 / piece));
  for (int t = 0; t < 2; ++t) {
    p.panel_bytes[t] = static_cast<int>(panel_bytes(shape.types[t], shape.cols));
    p.tile_units[t] = launch.plan.tile_units[t];
    p.tile_panels[t] = p.tile_units[t] / p.part_units;
    p.tile_rest[t] = p.tile_units[t] % p.part_units;
  }
  p.stages = launch.plan.stages;
  p.stage_bytes = launch.plan.stage_bytes;
  p.act_bytes = static_cast<int>(launch.plan.act_bytes);
  p.scales_at = static_cast<int>(q8_quants_bytes(shape.cols));
  p.slots = launch.plan.slots;
  p.norm = norm.weight;
  p.norm_eps = norm.eps;
  return launch;
}

namespace {

// `used`: which of the unit's types the launch has.
DecodeLaunch prepare(const Queue& queue, const DecodeUnit& unit, const bool (&used)[2], const Rows& x,
                     const InputNorm& norm, int64_t units, bool glu, const DecodeTuning& tuning) {
  const DType types[2] = {used[0] ? unit.a : unit.b, used[1] ? unit.b : unit.a};
  return prepare_decode(queue, {{types[0], types[1]}, units, x.width, x.rows, glu}, x.format, norm, tuning);
}

void check_input(const Rows& x, const InputNorm& norm, const PanelMatrix& weight) {
  const bool normed = norm.weight != nullptr;
  // More than kDecodeRows: --strict.
  const ActivationFormat format =
      normed ? ActivationFormat::f32 : activation_format(weight.dtype, std::min(x.rows, kDecodeRows));
  check(x.format == format && x.width == weight.cols && x.rows > 0 && weight.rows > 0,
        "a decode product's input doesn't match its weights");
  check(!normed || (x.rows <= kNormRows && x.width <= kNormColumns), "a norm in a product that is too large for it");
}

// One launch a pass: the segments that `unit` serves.
void launch_unit(const Queue& queue, const LinearArgs& args, const DecodeUnit& unit, const bool (&chosen)[kMaxSegments],
                 const DecodeTuning& tuning) {
  int64_t panels = 0;
  bool used[2] = {};
  for (int s = 0; s < args.segments; ++s) {
    if (!chosen[s]) continue;
    panels += panels_of(args.segment[s].weight);
    used[args.segment[s].weight.dtype == unit.a ? 0 : 1] = true;
  }
  DecodeLaunch launch = prepare(queue, unit, used, args.x, args.norm, panels, false, tuning);
  DecodeParams& p = launch.params;
  for (int64_t row = 0; row < args.x.rows; row += launch.plan.tokens) {
    p.rows = static_cast<int>(std::min<int64_t>(launch.plan.tokens, args.x.rows - row));
    p.x = args.x.data + row * p.x_stride;
    p.segments = 0;
    int first = 0;
    for (int s = 0; s < args.segments; ++s) {
      if (!chosen[s]) continue;
      const LinearSegment& from = args.segment[s];
      DecodeSegment& to = p.segment[p.segments++];
      to.weights = from.weight.data;
      to.bias = from.bias;
      to.out_stride = row_stride(from.out.format, from.out.width);
      to.out = from.out.data + row * to.out_stride;
      to.rows = static_cast<int>(from.weight.rows);
      to.first_panel = first;
      to.panels = static_cast<int>(panels_of(from.weight));
      to.type = from.weight.dtype == unit.a ? 0 : 1;
      first += to.panels;
    }
    if (args.residual != nullptr) {
      p.residual = args.residual + row * (p.segment[0].out_stride / static_cast<int64_t>(sizeof(float)));
    }
    unit.launch(queue, launch);
  }
}

}  // namespace

void launch_linear_decode(const Queue& queue, const LinearArgs& args, const DecodeTuning& tuning) {
  check(args.segments >= 1 && args.segments <= kMaxSegments && (args.residual == nullptr || args.segments == 1),
        "a linear product of too many segments, or with a residual for more than one");
  bool done[kMaxSegments] = {};
  for (int first = 0; first < args.segments; ++first) {
    check_input(args.x, args.norm, args.segment[first].weight);
    if (done[first]) continue;
    const DType dtype = args.segment[first].weight.dtype;
    const DecodeUnit* best = choose_unit(kDecodeUnits, args, done, first);
    const DecodeUnit& unit = best != nullptr ? *best : unit_of(dtype, dtype);
    bool chosen[kMaxSegments] = {};
    for (int s = first; s < args.segments; ++s) {
      chosen[s] = !done[s] && serves(unit, args.segment[s].weight.dtype);
      done[s] = done[s] || chosen[s];
    }
    launch_unit(queue, args, unit, chosen, tuning);
  }
}

void launch_linear_glu_decode(const Queue& queue, const LinearGluArgs& args, const DecodeTuning& tuning) {
  check_input(args.x, args.norm, args.gate);
  check_input(args.x, args.norm, args.up);
  check(args.gate.rows == args.up.rows, "gate and up have different numbers of rows");
  const DecodeUnit& unit = unit_of(args.gate.dtype, args.up.dtype);
  const int64_t panels = panels_of(args.gate);
  const bool used[2] = {args.gate.dtype == unit.a || args.up.dtype == unit.a,
                        args.gate.dtype != unit.a || args.up.dtype != unit.a};
  DecodeLaunch launch = prepare(queue, unit, used, args.x, args.norm, (panels + 3) / 4, true, tuning);
  DecodeParams& p = launch.params;
  p.segments = 2;
  for (int s = 0; s < 2; ++s) {
    const PanelMatrix& matrix = s == 0 ? args.gate : args.up;
    DecodeSegment& to = p.segment[s];
    to.weights = matrix.data;
    to.bias = s == 0 ? args.gate_bias : args.up_bias;
    to.rows = static_cast<int>(matrix.rows);
    to.panels = static_cast<int>(panels);
    to.type = matrix.dtype == unit.a ? 0 : 1;
  }
  p.out_stride = row_stride(args.out.format, args.out.width);
  p.format = args.out.format;
  p.activation = args.activation;
  for (int64_t row = 0; row < args.x.rows; row += launch.plan.tokens) {
    p.rows = static_cast<int>(std::min<int64_t>(launch.plan.tokens, args.x.rows - row));
    p.x = args.x.data + row * p.x_stride;
    p.out = args.out.data + row * p.out_stride;
    unit.launch(queue, launch);
  }
}

}  // namespace minfer::cuda
