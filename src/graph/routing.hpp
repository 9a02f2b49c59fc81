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

// How a group's score follows from its experts' scores.
enum class GroupScore : uint8_t {
  largest,
  two_largest,  // their sum
};

// Each row goes to the `used` experts with the largest scores, the first of equal ones. A score is the logit; where the
// op has a bias an expert, the logit's sigmoid plus that. Where there are groups (equal runs of experts; 1: none), only
// the experts of the `groups_used` groups with the largest scores are there to be chosen. The weights follow from the
// logits by `gating`, divided by their sum where `normalised`, times `scale`.
struct RouteAttributes {
  int64_t used;
  Gating gating;
  bool normalised;
  float scale;
  int64_t groups = 1;
  int64_t groups_used = 1;
  GroupScore group_score = GroupScore::largest;
};

// The most experts of a layer, and of a row: far above any published model.
inline constexpr int64_t kMaxExperts = 1024;
inline constexpr int64_t kMaxChosen = 64;
inline constexpr int64_t kMaxExpertGroups = 32;

}  // namespace minfer::graph
