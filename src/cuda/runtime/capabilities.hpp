// What a card can do, queried once, and the tier that follows from it. Kernels are chosen by these values alone
// (predicates beside each family), never by asking the device again. Plain data and a pure function: tested without a
// card.
#pragma once

#include <cstdint>
#include <string>

namespace minfer::cuda {

// What the kernels may use. Tiers ascend: a higher one has all of the lower.
enum class Tier : uint8_t {
  ampere,  // 8.0 and up: asynchronous copies of 16 bytes, bf16 tensor cores
  hopper,  // 9.0 and up: bulk copies with barriers, dependent launches
};

struct Capabilities {
  std::string name;  // "NVIDIA H200"
  int major = 0;     // compute capability
  int minor = 0;
  Tier tier = Tier::ampere;
  int multiprocessors = 0;
  int64_t shared_bytes_per_block = 0;           // the most that a block may ask for
  int64_t shared_bytes_per_multiprocessor = 0;  // shared by the blocks that are resident together
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;
};

// Errors: unsupported below 8.0, naming the capability and what is needed.
Tier choose_tier(const std::string& name, int major, int minor);

}  // namespace minfer::cuda
