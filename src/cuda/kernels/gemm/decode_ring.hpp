// Where weights are decoded: two slices' memory and a stream of their own. A slice is decoded while the one before it
// is still multiplied, and while whatever lies between two linears runs, for weights depend on nothing: of the queue's
// own work it waits for the product that read its memory two slices ago, and only for that. In a captured graph this
// becomes a branch beside the main one, joined at every product. The queue's stream should have a higher priority than
// the lowest, which this one has: then decoding takes the multiprocessors that products leave idle.
// One thread uses it, with one queue.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "cuda/runtime/launch.hpp"

namespace minfer::cuda {

class DecodeRing {
 public:
  // `memory`: kSlots * kGemmSliceBytes on the device.
  explicit DecodeRing(std::byte* memory);
  ~DecodeRing();
  DecodeRing(const DecodeRing&) = delete;
  DecodeRing& operator=(const DecodeRing&) = delete;

  // At the start of each linear. Outside a capture, where replays of graphs may have used the slots since, the side
  // stream waits for all that the queue has so far; so does a capture's first linear.
  void open(const Queue& queue);
  // For each slice, in this order: the memory to decode to, on side(queue) alone; decoded(): from here on the queue may
  // read it; consumed(): after the queue's last kernel that reads it.
  std::byte* begin();
  Queue side(const Queue& queue) const;
  void decoded(const Queue& queue);
  void consumed(const Queue& queue);

  static constexpr int kSlots = 2;

 private:
  std::byte* memory_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t fork_ = nullptr;
  cudaEvent_t decoded_ = nullptr;
  cudaEvent_t consumed_[kSlots] = {};
  int64_t used_[kSlots] = {};  // slices that each slot had since the side stream last waited for all
  int slot_ = 0;
  unsigned long long capture_ = 0;  // that the events belong to; 0: none
};

}  // namespace minfer::cuda
