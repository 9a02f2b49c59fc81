// Which unit of kernels serves which types: what the decode and the small-batch family share. A unit is a source file
// that has the kernels of one or two types, so that segments of both go into one launch. Pure; host only.
#pragma once

#include <algorithm>
#include <iterator>

#include "cuda/launch/linear.hpp"

namespace minfer::cuda {

inline int64_t panels_of(const PanelMatrix& matrix) {
  return (matrix.rows + kPanelRows - 1) / kPanelRows;
}

// A unit has `a`, `b` and `launch`.
template <class Unit>
bool serves(const Unit& unit, tensor::DType dtype) {
  return unit.a == dtype || unit.b == dtype;
}

// The unit that serves both types; nullptr: none.
template <class Units>
auto find_unit(const Units& units, tensor::DType a, tensor::DType b) -> decltype(std::begin(units)) {
  const auto found =
      std::find_if(std::begin(units), std::end(units), [&](const auto& u) { return serves(u, a) && serves(u, b); });
  return found == std::end(units) ? nullptr : found;
}

// The unit that serves segment `first` and most of those that are left; nullptr: none serves it.
template <class Units>
auto choose_unit(const Units& units, const LinearArgs& args, const bool (&done)[kMaxSegments], int first)
    -> decltype(std::begin(units)) {
  decltype(std::begin(units)) best = nullptr;
  int most = 0;
  for (const auto& unit : units) {
    if (!serves(unit, args.segment[first].weight.dtype)) continue;
    int served = 0;
    for (int s = first; s < args.segments; ++s) served += !done[s] && serves(unit, args.segment[s].weight.dtype);
    if (served <= most) continue;
    most = served;
    best = &unit;
  }
  return best;
}

}  // namespace minfer::cuda
