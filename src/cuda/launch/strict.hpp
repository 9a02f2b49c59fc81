// The policy of --strict: a row's result depends on its own weights, token and cache alone, bit for bit, whatever rows
// are beside it and however a prompt was cut into steps. Each product has one family for all row counts: the
// small-batch kernels for tokens in bf16, pass by pass, where they have the type, else the decode family's passes of up
// to 8 rows; experts take their entries one by one. No norm is part of a product (that is done for few rows only), and
// no rotation part of attention. Each row attends as in a decoding step: its splits follow from its own position. Pure
// predicates; the families' planners ask them.
#pragma once

#include <cstdint>

#include "cuda/launch/activation.hpp"
#include "cuda/runtime/capabilities.hpp"
#include "graph/ir.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cuda {

// The most rows of a step, each a sequence to attention; and what keeps the card busy.
inline constexpr int64_t kStrictRows = 1024;
inline constexpr int64_t kStrictBatchTokens = 256;

// Whether products with weights of a type are the small-batch kernels', else the decode family's.
bool strict_takes_batch(const Capabilities& capabilities, tensor::DType dtype);

// What a product with such weights reads.
ActivationFormat strict_activation_format(const Capabilities& capabilities, tensor::DType dtype);

// Ops that depend on the number of rows are left out.
bool strict_has_op(graph::Op op);

}  // namespace minfer::cuda
