// What the decode kernels are given: by value, in constant memory. See launch/linear_decode.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/launch/linear_decode.hpp"

namespace minfer::cuda {

struct DecodeSegment {
  const std::byte* weights;
  const float* bias;
  std::byte* out;      // f32; of a glu: unused
  int64_t out_stride;  // bytes
  int rows;
  int first_panel;  // among all segments' panels
  int panels;
  int type;  // 0 or 1: which of the kernel's two
};

struct DecodeParams {
  DecodeSegment segment[kMaxSegments];  // of a glu: gate, up
  int segments;
  bool glu;
  int units;           // of work: panels, or 4 panels of gate and of up
  const std::byte* x;  // of the pass's first row
  int64_t x_stride;
  const float* norm;  // of f32 x, as it is read; nullptr: none
  float norm_eps;
  int rows;  // of the pass, at most its tokens
  int cols;
  int parts;        // of the columns: a block does one after the other
  int part_units;   // units of 512 columns a panel and part
  int part_bytes;   // of a panel, where there are several
  int last_pieces;  // blocks, or pieces, of a panel's last unit
  int panel_bytes[2];
  int tile_units[2];
  int tile_panels[2];  // tile_units / part_units
  int tile_rest[2];    // tile_units % part_units
  int stages;
  int stage_bytes;
  int act_bytes;  // a token and part
  int scales_at;  // in a q8 token
  int slots;
  const float* residual;  // at the segment's out_stride
  // Of a glu:
  std::byte* out;
  int64_t out_stride;
  ActivationFormat format;
  graph::Activation activation;
};

// One pass, in the unit that has the kernels of the plan's types.
struct DecodeLaunch {
  DecodePlan plan;
  DecodeParams params;
};

void launch_decode_q4_k(const Queue& queue, const DecodeLaunch& launch);
void launch_decode_q5_k(const Queue& queue, const DecodeLaunch& launch);
void launch_decode_q8_0(const Queue& queue, const DecodeLaunch& launch);
void launch_decode_q5_1(const Queue& queue, const DecodeLaunch& launch);
void launch_decode_q4_0(const Queue& queue, const DecodeLaunch& launch);
void launch_decode_q2_k(const Queue& queue, const DecodeLaunch& launch);
void launch_decode_iq4(const Queue& queue, const DecodeLaunch& launch);
void launch_decode_mxfp4(const Queue& queue, const DecodeLaunch& launch);
void launch_decode_bf16(const Queue& queue, const DecodeLaunch& launch);
void launch_decode_f16(const Queue& queue, const DecodeLaunch& launch);
void launch_decode_f32(const Queue& queue, const DecodeLaunch& launch);

}  // namespace minfer::cuda
