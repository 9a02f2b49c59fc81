// What the kernels of single entries are given: the decode family's parameters for expert 0 and row 0, and what leads
// from them to an entry's. See launch/experts.hpp.
#pragma once

#include "cuda/kernels/linear/decode_params.hpp"
#include "cuda/launch/experts.hpp"

namespace minfer::cuda {

struct EntryParams {
  DecodeParams decode;
  const int32_t* expert;  // [entries]
  const int32_t* source;  // [entries]: the row of x; null: the entry
  int64_t stride[2];      // of each segment, bytes from one expert to the next
  int parts;              // blocks that share an entry
};

struct EntryLaunch {
  EntryParams params;
  int64_t blocks;
  int64_t shared_bytes;
};

void launch_entry_q4_k(const Queue& queue, const EntryLaunch& launch);
void launch_entry_q5_k(const Queue& queue, const EntryLaunch& launch);
void launch_entry_q8_0(const Queue& queue, const EntryLaunch& launch);
void launch_entry_q5_1(const Queue& queue, const EntryLaunch& launch);
void launch_entry_q4_0(const Queue& queue, const EntryLaunch& launch);
void launch_entry_q2_k(const Queue& queue, const EntryLaunch& launch);
void launch_entry_iq4(const Queue& queue, const EntryLaunch& launch);
void launch_entry_mxfp4(const Queue& queue, const EntryLaunch& launch);
void launch_entry_bf16(const Queue& queue, const EntryLaunch& launch);
void launch_entry_f16(const Queue& queue, const EntryLaunch& launch);
void launch_entry_f32(const Queue& queue, const EntryLaunch& launch);

}  // namespace minfer::cuda
