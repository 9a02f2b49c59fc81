// The decode family of linear products, 1 to 8 rows: how a launch is cut, and its launchers. Internal to launch/linear.
//
// A block of kDecodeWarps + 1 warps takes a contiguous run of units: panels of all segments behind one another, or, for
// gate and up, 4 panels of each (32 outputs: a q8 block). The last warp streams the run's panels through a ring of
// tiles in shared memory, and starts before the kernel before has ended; the others multiply. Unit c (512 columns) of a
// matrix's panel p is done by warp (p * units + c) % kDecodeWarps wherever the panel is, so that a row's result depends
// on its weights and the token alone: not on the number of multiprocessors, the segments beside it or the tokens beside
// it. Wide rows of plain types are done in parts of their columns, units being counted in each.
#pragma once

#include <cstdint>

#include "cuda/launch/linear.hpp"

namespace minfer::cuda {

inline constexpr int kDecodeWarps = 8;
inline constexpr int kDecodeMaxStages = 16;
inline constexpr int kDecodeMaxSlots = 32;  // panels whose sums wait in shared memory for one reduction

// What a plan is made for: one launch.
struct DecodeShape {
  tensor::DType types[2] = {};  // of the panels; the same where there is one
  int64_t units = 0;
  int64_t cols = 0;
  int64_t rows = 0;  // of activations
  bool glu = false;
};

struct DecodePlan {
  int tokens = 0;  // rows a pass: 1, 2, 4 or 8
  int parts = 0;   // of the columns, done one after the other
  int slots = 0;   // panels a reduction; of a glu a multiple of 8
  int blocks = 0;
  int stages = 0;          // of the ring
  int stage_bytes = 0;     // a multiple of 128
  int tile_units[2] = {};  // of 512 columns, a tile of each type
  int64_t act_bytes = 0;   // shared memory of a token's activations, of a part
  int64_t shared_bytes = 0;
};

// What the plans aim at; other values are for the benchmark.
struct DecodeTuning {
  int64_t ring_bytes = 104 * 1024;
  int64_t tile_bytes = 28 * 1024;
  int blocks_per_multiprocessor = 1;
};

// The plan of a launch: the most tokens a pass that leave half of the tuning's ring, then the largest ring up to the
// tuning's that lets two kernels' blocks be on a multiprocessor together; where that leaves less than half of it, the
// block takes what it needs. tokens 0: not even one row of activations fits (a width beyond all known models). Pure.
DecodePlan plan_decode(const Capabilities& capabilities, const DecodeShape& shape, const DecodeTuning& tuning = {});

// Whether one launch can serve both types.
bool decode_pairs(tensor::DType a, tensor::DType b);

void launch_linear_decode(const Queue& queue, const LinearArgs& args, const DecodeTuning& tuning = {});
void launch_linear_glu_decode(const Queue& queue, const LinearGluArgs& args, const DecodeTuning& tuning = {});

}  // namespace minfer::cuda
