// What a card can do at most, measured: reading its memory with bulk copies, the way that decode does; 8-bit products
// of its tensor cores; bf16 products by cuBLASLt. `minfer bench` relates speeds to these.
#pragma once

#include "cuda/launch/gemm.hpp"
#include "graph/device_memory.hpp"

namespace minfer::cuda {

class Device;

// The memory that measure_card_limits takes while it runs: 1.1 GB.
int64_t card_measuring_bytes();
// Takes a second. Errors: device, out_of_memory.
graph::DeviceLimits measure_card_limits(Device& device);

// Reads `bytes` (a multiple of a tile), all multiprocessors at once; writes a word a block to `sink`.
inline constexpr int64_t kReadTileBytes = 16 * 1024;
void launch_read(const Queue& queue, const std::byte* data, int64_t bytes, uint32_t* sink);
// Numbers in [-1, 1) in bf16: zeros would multiply faster.
void launch_fill_bf16(const Queue& queue, std::byte* data, int64_t bytes);
// Products of 8-bit integers in registers, all multiprocessors at once; returns how many operations they are, a
// multiply and an add as two.
double launch_dot8(const Queue& queue, uint32_t* sink);

}  // namespace minfer::cuda
