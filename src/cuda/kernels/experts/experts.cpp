// How launches of experts' products are cut, which family and unit has their kernels, and where routes lie. See
// launch/experts.hpp. Pure but for the launches themselves; engine's thread.
#include "cuda/launch/experts.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cuda/kernels/experts/entry_params.hpp"
#include "cuda/kernels/experts/tile_params.hpp"
#include "cuda/kernels/linear/decode_prepare.hpp"
#include "cuda/kernels/linear/units.hpp"
#include "cuda/launch/panel_types.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;

// A unit of kernels serves one or two types.
struct EntryUnit {
  DType a, b;
  void (*launch)(const Queue&, const EntryLaunch&);
};
constexpr EntryUnit kEntryUnits[] = {
    {DType::q4_k, DType::q6_k, launch_entry_q4_k},    {DType::q5_k, DType::q6_k, launch_entry_q5_k},
    {DType::q8_0, DType::q5_0, launch_entry_q8_0},    {DType::q5_1, DType::q8_0, launch_entry_q5_1},
    {DType::q4_0, DType::q4_1, launch_entry_q4_0},    {DType::q2_k, DType::q3_k, launch_entry_q2_k},
    {DType::iq4_nl, DType::iq4_xs, launch_entry_iq4}, {DType::mxfp4, DType::mxfp4, launch_entry_mxfp4},
    {DType::bf16, DType::bf16, launch_entry_bf16},    {DType::f16, DType::f16, launch_entry_f16},
    {DType::f32, DType::f32, launch_entry_f32},
};

bool serves(const EntryUnit& unit, DType dtype) {
  return unit.a == dtype || unit.b == dtype;
}

const EntryUnit& find_unit(DType a, DType b) {
  const auto* unit = std::find_if(std::begin(kEntryUnits), std::end(kEntryUnits),
                                  [&](const EntryUnit& u) { return serves(u, a) && serves(u, b); });
  if (unit == std::end(kEntryUnits)) {
    fail(ErrorCode::unsupported, "no CUDA kernel for experts of {} and {} in one product", tensor::dtype_info(a).name,
         tensor::dtype_info(b).name);
  }
  return *unit;
}

struct TileUnit {
  DType dtype;
  void (*launch)(const Queue&, const TileLaunch&);
};
constexpr TileUnit kTileUnits[] = {
    {DType::q4_k, launch_tile_q4_k},     {DType::q5_k, launch_tile_q5_k},     {DType::q6_k, launch_tile_q6_k},
    {DType::q8_0, launch_tile_q8_0},     {DType::q5_0, launch_tile_q5_0},     {DType::q5_1, launch_tile_q5_1},
    {DType::q4_0, launch_tile_q4_0},     {DType::q4_1, launch_tile_q4_1},     {DType::q3_k, launch_tile_q3_k},
    {DType::iq4_nl, launch_tile_iq4_nl}, {DType::iq4_xs, launch_tile_iq4_xs}, {DType::mxfp4, launch_tile_mxfp4},
};

// Not with --strict: another order of sums than an entry's on its own.
bool takes_tiles(const Queue& queue, const Routes& routes) {
  return routes.grouped() && !queue.capabilities->strict;
}

const TileUnit* find_tile_unit(DType dtype) {
  const auto* unit =
      std::find_if(std::begin(kTileUnits), std::end(kTileUnits), [&](const TileUnit& u) { return u.dtype == dtype; });
  return unit == std::end(kTileUnits) ? nullptr : unit;
}

void check_rows(const Routes& routes, const Rows& x, bool by_entry, const PanelMatrix& matrix, const Rows& out) {
  check(x.rows == (by_entry ? routes.entries() : routes.rows) && out.rows == routes.entries() &&
            x.width == matrix.cols && out.width == matrix.rows && x.format == expert_format(matrix.dtype),
        "a product of experts whose input or output doesn't match its weights and routes");
}

// The parameters of single entries, but for segments and outputs. `units`: of one entry.
EntryLaunch prepare_entries(const Queue& queue, const Routes& routes, const Rows& x, bool by_entry, DType a, DType b,
                            int64_t units, bool glu) {
  // Two blocks are on a multiprocessor together.
  const int64_t blocks = int64_t{2} * queue.capabilities->multiprocessors;
  const int64_t parts = std::clamp<int64_t>(blocks / routes.entries(), 1, units);
  // Planned for as long runs as a block has here.
  const int64_t run = (units + parts - 1) / parts;
  const DecodeShape shape{{a, b}, run * queue.capabilities->multiprocessors, x.width, 1, glu};
  const DecodeLaunch decode = prepare_decode(queue, shape, x.format, {}, {});
  EntryLaunch launch{};
  launch.params.decode = decode.params;
  launch.params.decode.units = static_cast<int>(units);
  launch.params.decode.rows = 1;
  launch.params.decode.x = x.data;
  launch.params.expert = routes.expert;
  launch.params.source = by_entry ? nullptr : routes.source;
  launch.params.parts = static_cast<int>(parts);
  launch.blocks = routes.entries() * parts;
  launch.shared_bytes = decode.plan.shared_bytes;
  return launch;
}

DecodeSegment entry_segment(const ExpertMatrix& matrix, int type) {
  DecodeSegment segment{};
  segment.weights = matrix.first.data;
  segment.bias = matrix.bias;
  segment.rows = static_cast<int>(matrix.first.rows);
  segment.panels = static_cast<int>(panels_of(matrix.first));
  segment.type = type;
  return segment;
}

int64_t stride_of(const ExpertMatrix& matrix) {
  return expert_stride(matrix.first.dtype, matrix.first.rows, matrix.first.cols);
}

TileLaunch prepare_tiles(const Routes& routes, const Rows& x, bool by_entry, const ExpertMatrix& matrix,
                         const Rows& out) {
  TileLaunch launch{};
  TileParams& p = launch.params;
  p.slices = routes.slices;
  p.slice = routes.slice;
  p.source = by_entry ? nullptr : routes.source;
  p.x = x.data;
  p.x_stride = row_stride(x.format, x.width);
  p.x_scales_at = static_cast<int>(q8_quants_bytes(x.width));
  p.weights[0] = matrix.first.data;
  p.bias[0] = matrix.bias;
  p.stride = stride_of(matrix);
  p.panel_bytes = static_cast<int>(panel_bytes(matrix.first.dtype, x.width));
  p.panels = static_cast<int>(panels_of(matrix.first));
  p.rows = static_cast<int>(matrix.first.rows);
  p.blocks = static_cast<int>(x.width / kPanelBlock);
  p.out = out.data;
  p.out_stride = row_stride(out.format, out.width);
  p.format = out.format;
  launch.tokens = expert_tile_tokens(routes.rows, routes.experts, routes.used);
  launch.slices = routes.slice_capacity();
  return launch;
}

}  // namespace

ActivationFormat expert_format(DType dtype) {
  return panel_type(dtype).plain() ? ActivationFormat::f32 : ActivationFormat::q8;
}

int expert_tile_tokens(int64_t rows, int64_t experts, int64_t used) {
  return rows * used > 24 * experts ? kTileTokens : kNarrowTileTokens;
}

int64_t Routes::slice_capacity() const {
  return std::min(experts, entries()) + entries() / expert_tile_tokens(rows, experts, used);
}

int64_t routes_bytes(int64_t rows, int64_t experts, int64_t used) {
  const Routes routes{rows, experts, used};
  return (3 * routes.entries() + 1) * static_cast<int64_t>(sizeof(int32_t)) +
         routes.slice_capacity() * static_cast<int64_t>(sizeof(ExpertSlice));
}

Routes routes_at(std::byte* memory, int64_t rows, int64_t experts, int64_t used) {
  auto* at = reinterpret_cast<int32_t*>(memory);
  const int64_t entries = rows * used;
  return {rows,
          experts,
          used,
          at,
          at + entries,
          at + 2 * entries,
          at + 3 * entries,
          reinterpret_cast<ExpertSlice*>(at + 3 * entries + 1)};
}

int64_t expert_stride(DType dtype, int64_t rows, int64_t cols) {
  return panel_matrix_bytes(dtype, rows, cols);
}

void launch_expert_linear(const Queue& queue, const ExpertLinearArgs& args) {
  const PanelMatrix& first = args.matrix.first;
  check_rows(args.routes, args.x, args.by_entry, first, args.out);
  check(args.out.format == ActivationFormat::f32, "a product of experts gives f32");
  if (args.routes.rows == 0) return;
  const TileUnit* tiles = takes_tiles(queue, args.routes) ? find_tile_unit(first.dtype) : nullptr;
  if (tiles != nullptr) {
    return tiles->launch(queue, prepare_tiles(args.routes, args.x, args.by_entry, args.matrix, args.out));
  }
  const EntryUnit& unit = find_unit(first.dtype, first.dtype);
  EntryLaunch launch =
      prepare_entries(queue, args.routes, args.x, args.by_entry, first.dtype, first.dtype, panels_of(first), false);
  DecodeParams& p = launch.params.decode;
  p.segments = 1;
  p.segment[0] = entry_segment(args.matrix, first.dtype == unit.a ? 0 : 1);
  p.segment[0].out = args.out.data;
  p.segment[0].out_stride = row_stride(args.out.format, args.out.width);
  launch.params.stride[0] = stride_of(args.matrix);
  unit.launch(queue, launch);
}

void launch_expert_glu(const Queue& queue, const ExpertGluArgs& args) {
  const PanelMatrix &gate = args.gate.first, &up = args.up.first;
  check_rows(args.routes, args.x, args.by_entry, gate, args.out);
  check(gate.rows == up.rows && gate.cols == up.cols && expert_format(gate.dtype) == expert_format(up.dtype),
        "gate and up of experts differ in shape");
  if (args.routes.rows == 0) return;
  const bool alike = gate.dtype == up.dtype;
  const TileUnit* tiles = alike && takes_tiles(queue, args.routes) ? find_tile_unit(gate.dtype) : nullptr;
  if (tiles != nullptr) {
    TileLaunch launch = prepare_tiles(args.routes, args.x, args.by_entry, args.gate, args.out);
    launch.glu = true;
    launch.params.weights[1] = up.data;
    launch.params.bias[1] = args.up.bias;
    launch.params.activation = args.activation;
    return tiles->launch(queue, launch);
  }
  const EntryUnit& unit = find_unit(gate.dtype, up.dtype);
  const bool has_a = gate.dtype == unit.a || up.dtype == unit.a, has_b = gate.dtype != unit.a || up.dtype != unit.a;
  EntryLaunch launch = prepare_entries(queue, args.routes, args.x, args.by_entry, has_a ? unit.a : unit.b,
                                       has_b ? unit.b : unit.a, (panels_of(gate) + 3) / 4, true);
  DecodeParams& p = launch.params.decode;
  p.segments = 2;
  p.segment[0] = entry_segment(args.gate, gate.dtype == unit.a ? 0 : 1);
  p.segment[1] = entry_segment(args.up, up.dtype == unit.a ? 0 : 1);
  p.out = args.out.data;
  p.out_stride = row_stride(args.out.format, args.out.width);
  p.format = args.out.format;
  p.activation = args.activation;
  launch.params.stride[0] = stride_of(args.gate);
  launch.params.stride[1] = stride_of(args.up);
  unit.launch(queue, launch);
}

}  // namespace minfer::cuda
