// Looks for the weights that make a model's answers no numbers. Apart from loading, which would take longer for every
// sound file: it is asked once a step has given NaN or infinity. Reads the mapped file; any thread may call it.
#pragma once

#include <string>

#include "model/model.hpp"

namespace minfer::model {

// What is wrong with the first weight that holds NaN or infinity: "tensor blk.0.ffn_up.weight has NaN at row 3, column
// 17"; "no weight is NaN or infinity" where none does. Decodes all weights: about a second for a gigabyte.
std::string describe_broken_weights(const Model& model);

}  // namespace minfer::model
