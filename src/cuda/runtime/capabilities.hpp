// What a card can do, queried once, and the tier that follows from it. Kernels are chosen by these values alone
// (predicates beside each family), never by asking the device again. Plain data and a pure function: tested without a
// card.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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
  // No gift of the card's, but asked for by the user: kernels are chosen so that a row's result does not depend on the
  // rows beside it, nor on how a prompt was cut into steps.
  bool strict = false;
};

// Errors: unsupported below 8.0, naming the capability and what is needed.
Tier choose_tier(const std::string& name, int major, int minor);

// Errors: unsupported where a build has no code for a card, naming both and the way out. `built`: what it was compiled
// for, in the words of MINFER_CUDA_ARCHITECTURES between commas, "80,90a-real,100-virtual". Code for 8.x runs on cards
// of 8.x from its own number on; without "-real" also on newer ones, if it is for 9.0 or newer itself.
void check_built_for(std::string_view built, int major, int minor);

}  // namespace minfer::cuda
