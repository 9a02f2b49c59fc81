// The decode kernel: y = x W^T for up to 8 rows, weights streamed once. How work is cut: launch/linear_decode.hpp.
//
// Shared memory: the ring | the tokens' activations, of a part of the columns | partial sums
// [part][slot][warp][token][8 rows]. Barriers among all consumers are met once after the activations (twice where these
// have several parts), and twice a group of slots; between them each warp runs at its own pace. Oracle:
// linear_device_test's scalar reference.
#pragma once

#include "cuda/kernels/common/activation_math.cuh"
#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/q8.cuh"
#include "cuda/kernels/common/tile_ring.cuh"
#include "cuda/kernels/linear/block_dot.cuh"
#include "cuda/kernels/linear/decode_params.hpp"
#include "cuda/kernels/linear/normed_input.cuh"
#include "cuda/kernels/linear/plain_dot.cuh"

namespace minfer::cuda {

inline constexpr int kDecodeThreads = (kDecodeWarps + 1) * 32;
inline constexpr int kConsumers = kDecodeWarps * 32;
inline constexpr int kUnitPanels = 4;  // of gate, and of up, in a glu's unit

// Panels of one matrix in a row, of one block's run; of their columns, a part.
struct Span {
  const std::byte* panels;  // the first's part
  int first;                // in its matrix
  int count;
  int slot;  // of the first
  int type;
};

// Calls f(Span) for the spans of a group of slots and a part, in the order in which they are streamed; units [begin,
// end).
template <class F>
__device__ __forceinline__ void for_each_span(const DecodeParams& p, int begin, int end, int part, F&& f) {
  if (p.glu) {
    const int first = begin * kUnitPanels, last = min(end * kUnitPanels, p.segment[0].panels);
    for (int s = 0; s < 2; ++s) {
      const DecodeSegment& segment = p.segment[s];
      f(Span{segment.weights + static_cast<int64_t>(first) * p.panel_bytes[segment.type] + part * p.part_bytes, first,
             last - first, s * (p.slots / 2), segment.type});
    }
  } else {
    for (int s = 0; s < p.segments; ++s) {
      const DecodeSegment& segment = p.segment[s];
      const int first = max(begin, segment.first_panel), last = min(end, segment.first_panel + segment.panels);
      if (first >= last) continue;
      const int in_matrix = first - segment.first_panel;
      f(Span{segment.weights + static_cast<int64_t>(in_matrix) * p.panel_bytes[segment.type] + part * p.part_bytes,
             in_matrix, last - first, first - begin, segment.type});
    }
  }
}

// Quantized types have one part; known when compiled, so that it costs them nothing.
template <DType type>
__device__ __forceinline__ int part_count(const DecodeParams& p) {
  return panel_type(type).plain() ? p.parts : 1;
}

__device__ __forceinline__ void consumer_barrier() {
  asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory");
}

// Bytes of 512 columns of a panel, and how many blocks or pieces they are.
template <DType type>
inline constexpr int kUnitBytes =
    panel_type(type).plain() ? 128 * panel_type(type).quant_bytes() : 2 * panel_type(type).chunk_bytes(8);
template <DType type>
inline constexpr int kUnitPieces = panel_type(type).plain() ? 4 * panel_type(type).bits : 16;

// The filling warp.
struct Filler {
  std::byte* ring;
  RingBarriers& barriers;
  RingPlace cursor;
};

// All tiles of the span. Parts of several panels do not lie behind one another; then no tile has units of two panels.
template <DType type>
__device__ __forceinline__ void stream_span(const DecodeParams& p, const Span& span, Filler& filler) {
  const int panel_bytes = p.panel_bytes[span.type], tile_units = p.tile_units[span.type];
  const int all = span.count * p.part_units;
  const auto place_of = [&](int unit) {
    const int panel = unit / p.part_units;
    return span.panels + static_cast<int64_t>(panel) * panel_bytes + (unit - panel * p.part_units) * kUnitBytes<type>;
  };
  const std::byte* from = span.panels;
  for (int unit = 0; unit < all;) {
    const int units = min(tile_units, all - unit);
    const std::byte* to = place_of(unit + units);
    const int bytes = part_count<type>(p) == 1 ? static_cast<int>(to - from) : units * kUnitBytes<type>;
    RingPlace& cursor = filler.cursor;
    wait_barrier(filler.barriers.empty[cursor.stage], cursor.parity ^ 1);
    fill_tile(filler.ring + cursor.stage * p.stage_bytes, from, bytes, filler.barriers.full[cursor.stage]);
    unit += units;
    from = to;
    cursor.advance(p.stages);
  }
}

// A warp's sums of one panel, over its lanes' blocks, to shared memory. See LanePart for who has which row.
template <int kTokens>
__device__ __forceinline__ void store_sums(float (&sums)[kTokens][2], float* partial, int slot, int warp) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int n = 0; n < kTokens; ++n) {
    float sum = sums[n][0] + __shfl_xor_sync(~0U, sums[n][1], 4);
    sum += __shfl_xor_sync(~0U, sum, 8);
    sum += __shfl_xor_sync(~0U, sum, 16);
    if (lane < 8) partial[((slot * kDecodeWarps + warp) * kTokens + n) * 8 + lane] = sum;
    sums[n][0] = 0;
    sums[n][1] = 0;
  }
}

// A consumer warp: its units of the span. `act`: the part's activations. A tile's bytes are counted as if the parts of
// the span's panels lay behind one another.
template <DType type, int kTokens>
__device__ __forceinline__ void consume_span(const DecodeParams& p, const Span& span, const std::byte* ring,
                                             RingBarriers& barriers, RingPlace& cursor, const std::byte* act,
                                             float* partial) {
  constexpr PanelType kType = panel_type(type);
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const LanePart part(lane);
  const int panel_bytes = part_count<type>(p) == 1 ? p.panel_bytes[span.type] : p.part_bytes;
  const int tile_units = p.tile_units[span.type];
  const int all = span.count * p.part_units;
  const int before = static_cast<int>(static_cast<int64_t>(span.first) * p.part_units % kDecodeWarps);
  int unit = (warp + kDecodeWarps - before) % kDecodeWarps;  // of the span
  int column = unit;                                         // unit of its panel
  int panel = 0;
  int tile_begin = 0, tile_column = 0;  // byte of the span, and unit of its panel, where the tile begins
  float sums[kTokens][2] = {};
  for (int end = 0; end < all;) {
    end = min(end + tile_units, all);
    wait_barrier(barriers.full[cursor.stage], cursor.parity);
    const std::byte* tile = ring + cursor.stage * p.stage_bytes - tile_begin;
    for (; unit < end; unit += kDecodeWarps, column += kDecodeWarps) {
      for (; column >= p.part_units; column -= p.part_units) store_sums(sums, partial, span.slot + panel++, warp);
      const int pieces = column + 1 < p.part_units ? kUnitPieces<type> : p.last_pieces;
      const std::byte* at = tile + panel * panel_bytes + column * kUnitBytes<type>;
      if constexpr (kType.plain()) {
        plain_dot<type>(at, pieces, lane, act + column * 2048, p.act_bytes, sums);
      } else {
        const int blocks = min(pieces - part.chunk * 8, 8), chunk = column * 2 + part.chunk;
        if (blocks > 0) {
          chunk_dot<type>(at + part.chunk * kType.chunk_bytes(8), blocks, part, act + chunk * 256,
                          act + p.scales_at + chunk * 64, p.act_bytes, sums);
        }
      }
    }
    __syncwarp();
    if (lane == 0) release_tile(barriers.empty[cursor.stage]);
    cursor.advance(p.stages);
    tile_begin += p.tile_panels[span.type] * panel_bytes + p.tile_rest[span.type] * kUnitBytes<type>;
    tile_column += p.tile_rest[span.type];
    if (tile_column >= p.part_units) {
      tile_column -= p.part_units;
      tile_begin += panel_bytes - p.part_units * kUnitBytes<type>;
    }
  }
  for (; panel < span.count; ++panel) store_sums(sums, partial, span.slot + panel, warp);
}

// A part of the pass's activations to shared memory, zeros where there are none, between barriers. All copies are under
// way at a time. `row_bytes`: of a token.
template <int kTokens>
__device__ __forceinline__ void load_activations(const DecodeParams& p, int row_bytes, int part, std::byte* act) {
  if (part > 0) consumer_barrier();
  const int first = part * p.act_bytes;
  for (int n = 0; n < kTokens; ++n) {
    for (int at = static_cast<int>(threadIdx.x) * 16; at < p.act_bytes; at += kConsumers * 16) {
      const int bytes = n < p.rows ? min(max(row_bytes - first - at, 0), 16) : 0;
      const std::byte* from = bytes > 0 ? p.x + n * p.x_stride + first + at : p.x;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(act + n * p.act_bytes + at)),
                   "l"(from), "r"(bytes)
                   : "memory");
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  consumer_barrier();
}

// One output's sum over the parts and the warps.
template <DType type, int kTokens>
__device__ __forceinline__ float reduce_slot(const DecodeParams& p, const float* partial, int slot, int token,
                                             int row) {
  float sum = 0;
  for (int part = 0; part < part_count<type>(p); ++part, slot += p.slots) {
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) sum += partial[((slot * kDecodeWarps + w) * kTokens + token) * 8 + row];
  }
  return sum;
}

// The residual of one output; 0 where there is none.
__device__ __forceinline__ float load_residual(const DecodeParams& p, int token, int out_row) {
  if (p.residual == nullptr || token >= p.rows || out_row >= p.segment[0].rows) return 0;
  const auto* row = reinterpret_cast<const std::byte*>(p.residual) + token * p.segment[0].out_stride;
  return reinterpret_cast<const float*>(row)[out_row];
}

// The outputs of panels [begin, end) of all segments: a warp 4 panels of one token, an output a lane. `factor`: the
// norm's, of the warp's token. `residual`: of this lane's first output, loaded while the sums were made.
template <DType type, int kTokens>
__device__ __forceinline__ void store_linear(const DecodeParams& p, int begin, int end, const float* partial,
                                             float factor, float residual) {
  const int lane = static_cast<int>(threadIdx.x % 32), row = lane % 8;
  const int quads = (end - begin + 3) / 4, first = static_cast<int>(threadIdx.x / 32);
  for (int item = first; item < quads * kTokens; item += kDecodeWarps) {
    const int token = item % kTokens, slot = item / kTokens * 4 + lane / 8;
    if (begin + slot >= end || token >= p.rows) continue;
    int s = 0;
    while (begin + slot >= p.segment[s].first_panel + p.segment[s].panels) ++s;
    const DecodeSegment& segment = p.segment[s];
    const int out_row = (begin + slot - segment.first_panel) * 8 + row;
    if (out_row >= segment.rows) continue;
    float value = reduce_slot<type, kTokens>(p, partial, slot, token, row) * factor;
    if (segment.bias != nullptr) value += segment.bias[out_row];
    if (p.residual != nullptr) value += item == first ? residual : load_residual(p, token, out_row);
    reinterpret_cast<float*>(segment.out + token * segment.out_stride)[out_row] = value;
  }
}

// The outputs of units [begin, end) of a glu: a warp one unit of one token.
template <DType type, int kTokens>
__device__ __forceinline__ void store_glu(const DecodeParams& p, int begin, int end, const float* partial,
                                          float factor) {
  const int lane = static_cast<int>(threadIdx.x % 32), row = lane % 8;
  const DecodeSegment &gate = p.segment[0], &up = p.segment[1];
  for (int item = static_cast<int>(threadIdx.x / 32); item < (end - begin) * kTokens; item += kDecodeWarps) {
    const int token = item % kTokens, unit = item / kTokens, slot = unit * kUnitPanels + lane / 8;
    if (token >= p.rows) continue;
    const int out_row = (begin + unit) * 32 + lane;
    float value = 0;
    if (out_row < gate.rows) {
      float g = reduce_slot<type, kTokens>(p, partial, slot, token, row) * factor;
      float u = reduce_slot<type, kTokens>(p, partial, p.slots / 2 + slot, token, row) * factor;
      if (gate.bias != nullptr) g += gate.bias[out_row];
      if (up.bias != nullptr) u += up.bias[out_row];
      value = gated_value(p.activation, g, u);
    }
    std::byte* out = p.out + token * p.out_stride;
    if (p.format == ActivationFormat::q8) {
      store_q8_block(out, gate.rows, begin + unit, value);
    } else if (out_row < gate.rows) {
      if (p.format == ActivationFormat::f32) reinterpret_cast<float*>(out)[out_row] = value;
      if (p.format == ActivationFormat::bf16)
        reinterpret_cast<__nv_bfloat16*>(out)[out_row] = __float2bfloat16_rn(value);
    }
  }
}

// Units of one group of slots.
__device__ __forceinline__ int group_units(const DecodeParams& p) {
  return p.glu ? p.slots / 2 / kUnitPanels : p.slots;
}

// Bytes of a token's activations.
template <DType type>
__device__ __forceinline__ int activation_bytes(const DecodeParams& p) {
  return panel_type(type).plain() ? p.cols * 4 : static_cast<int>(row_stride(ActivationFormat::q8, p.cols));
}

// The filling warp: the weights of units [begin, end).
template <DType type_a, DType type_b>
__device__ __forceinline__ void stream_units(const DecodeParams& p, int begin, int end, std::byte* ring,
                                             RingBarriers& barriers) {
  Filler filler{ring, barriers, {}};
  const int group = group_units(p);
  for (int at = begin; at < end; at += group) {
    for (int part = 0; part < part_count<type_a>(p); ++part) {
      for_each_span(p, at, min(at + group, end), part, [&](const Span& span) {
        if (type_a == type_b || span.type == 0) {
          stream_span<type_a>(p, span, filler);
        } else {
          stream_span<type_b>(p, span, filler);
        }
      });
    }
  }
}

// All consumers: units [begin, end), from the ring to the outputs. The activations are there, where they have one part.
// `squares`: of normed_input.cuh.
template <DType type_a, DType type_b, int kTokens>
__device__ __forceinline__ void consume_units(const DecodeParams& p, int begin, int end, const std::byte* ring,
                                              RingBarriers& barriers, std::byte* act, float* partial,
                                              const float* squares) {
  const int item = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int group = group_units(p);
  RingPlace cursor;
  for (int at = begin; at < end; at += group) {
    const int last = min(at + group, end);
    const float residual = load_residual(p, item % kTokens, (at + item / kTokens * 4) * 8 + lane);
    for (int part = 0; part < part_count<type_a>(p); ++part) {
      if (part_count<type_a>(p) > 1) load_activations<kTokens>(p, activation_bytes<type_a>(p), part, act);
      float* sums = partial + part * p.slots * kDecodeWarps * kTokens * 8;
      for_each_span(p, at, last, part, [&](const Span& span) {
        if (type_a == type_b || span.type == 0) {
          consume_span<type_a, kTokens>(p, span, ring, barriers, cursor, act, sums);
        } else {
          consume_span<type_b, kTokens>(p, span, ring, barriers, cursor, act, sums);
        }
      });
    }
    const float factor = norm_factor(p, squares, item % kTokens);
    consumer_barrier();
    if (p.glu) {
      store_glu<type_a, kTokens>(p, at, last, partial, factor);
    } else {
      store_linear<type_a, kTokens>(p, at, last, partial, factor, residual);
    }
    if (last < end) consumer_barrier();
  }
}

template <DType type_a, DType type_b, int kTokens>
__global__ void __launch_bounds__(kDecodeThreads, kTokens <= 2 ? 2 : 1)
    decode_kernel(const __grid_constant__ DecodeParams p) {
  extern __shared__ __align__(128) std::byte shared[];
  __shared__ RingBarriers barriers;
  __shared__ float squares[kTokens * kDecodeWarps];
  if (threadIdx.x == 0) init_ring(barriers, p.stages, kDecodeWarps);
  __syncthreads();
  // The next kernel's blocks come as soon as the one before this has left them room, and fill their rings while this
  // kernel works: starting them later was slower.
  allow_dependents();
  std::byte* act = shared + p.stages * p.stage_bytes;
  auto* partial = reinterpret_cast<float*>(act + kTokens * p.act_bytes);
  const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  const int share = p.units / blocks, extra = p.units % blocks;
  const int begin = block * share + min(block, extra), end = begin + share + (block < extra ? 1 : 0);
  if (threadIdx.x >= kConsumers) {
    stream_units<type_a, type_b>(p, begin, end, shared, barriers);
    wait_for_dependencies();
    return;
  }
  float4 norm_weights[kNormQuads];
  load_norm_weights(p, norm_weights);
  wait_for_dependencies();
  if (p.norm != nullptr) {
    load_normed_activations<panel_type(type_a).plain()>(p, kTokens, norm_weights, act, squares);
    consumer_barrier();
  } else if (part_count<type_a>(p) == 1) {
    load_activations<kTokens>(p, activation_bytes<type_a>(p), 0, act);
  }
  consume_units<type_a, type_b, kTokens>(p, begin, end, shared, barriers, act, partial, squares);
}

// For the units that instantiate: the kernel of a launch.
template <DType type_a, DType type_b>
void launch_decode_pair(const Queue& queue, const DecodeLaunch& launch) {
  const LaunchShape shape{dim3(static_cast<unsigned>(launch.plan.blocks)), dim3(kDecodeThreads),
                          launch.plan.shared_bytes, true};
  const char* site = launch.params.glu ? "linear/decode_glu" : "linear/decode";
  switch (launch.plan.tokens) {
    case 1:
      return launch_kernel(queue, site, shape, decode_kernel<type_a, type_b, 1>, launch.params);
    case 2:
      return launch_kernel(queue, site, shape, decode_kernel<type_a, type_b, 2>, launch.params);
    case 4:
      return launch_kernel(queue, site, shape, decode_kernel<type_a, type_b, 4>, launch.params);
    default:
      return launch_kernel(queue, site, shape, decode_kernel<type_a, type_b, 8>, launch.params);
  }
}

}  // namespace minfer::cuda
