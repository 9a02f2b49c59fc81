// From a Rope to the angles' frequencies: theta_i = position * inverse_frequency_i, cos and sin times magnitude.
//   base:    1 / base^(2i / dims)                               (RoFormer, arXiv 2104.09864)
//   linear:  divided by factor                                  (arXiv 2306.15595)
//   yarn:    high frequencies kept, low ones divided by factor, a linear ramp between; magnitude
//            attention_factor * (1 + 0.1 ln factor)             (arXiv 2309.00071)
//            and divided by 1 + 0.1 m ln factor where a model has that multiplier m
//   llama3:  divided by the file's own divisors
//   longrope: divided by the file's own divisors, of a short or of a long context; magnitude the file's own
//                                                                (arXiv 2402.13753)
#pragma once

#include "graph/ir.hpp"
#include "model/config.hpp"

namespace minfer::model {

graph::RopeAnglesAttributes rope_frequencies(const Rope& rope);

}  // namespace minfer::model
