// How rows choose experts: names and numbers that graphs, devices and kernels share. Apart from ir.hpp and enums.hpp,
// as only mixtures of experts need it.
#pragma once

#include <cstdint>

namespace minfer::graph {

// How router logits become the weights of the experts that are chosen by them.
enum class Gating : uint8_t {
  softmax,         // over all experts
  softmax_chosen,  // over the chosen ones
  sigmoid,         // of each
};

// Each row goes to the `used` experts with the largest logits, the first of equal ones. Their weights follow from the
// logits by `gating`, divided by their sum where `normalised`, times `scale`.
struct RouteAttributes {
  int64_t used;
  Gating gating;
  bool normalised;
  float scale;
};

// The most experts of a layer, and of a row: far above any published model.
inline constexpr int64_t kMaxExperts = 1024;
inline constexpr int64_t kMaxChosen = 64;

}  // namespace minfer::graph
