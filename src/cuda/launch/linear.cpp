// Which family a linear product goes to. See linear.hpp.
#include "cuda/launch/linear.hpp"

#include "base/error.hpp"
#include "cuda/launch/linear_decode.hpp"
#include "cuda/launch/panel_types.hpp"

namespace minfer::cuda {

ActivationFormat activation_format(tensor::DType dtype, int64_t rows) {
  if (dtype == tensor::DType::f16 || dtype == tensor::DType::f32) return ActivationFormat::f32;
  if (dtype == tensor::DType::bf16) return rows <= kDecodeRows ? ActivationFormat::f32 : ActivationFormat::bf16;
  return rows <= kSmallBatchRows ? ActivationFormat::q8 : ActivationFormat::bf16;
}

void launch_linear(const Queue& queue, const LinearArgs& args, const LinearScratch&) {
  if (args.x.rows <= kDecodeRows) return launch_linear_decode(queue, args);
  fail(ErrorCode::unsupported, "no CUDA linear kernel for {} rows of activations; at most {} for now", args.x.rows,
       kDecodeRows);
}

void launch_linear_glu(const Queue& queue, const LinearGluArgs& args, const LinearScratch&) {
  if (args.x.rows <= kDecodeRows) return launch_linear_glu_decode(queue, args);
  fail(ErrorCode::unsupported, "no CUDA linear kernel for {} rows of activations; at most {} for now", args.x.rows,
       kDecodeRows);
}

}  // namespace minfer::cuda
