// Which family a linear product goes to. See linear.hpp.
#include "cuda/launch/linear.hpp"

#include "base/error.hpp"
#include "cuda/launch/gemm.hpp"
#include "cuda/launch/linear_batch.hpp"
#include "cuda/launch/linear_decode.hpp"
#include "cuda/launch/panel_types.hpp"
#include "cuda/launch/strict.hpp"

namespace minfer::cuda {

ActivationFormat activation_format(tensor::DType dtype, int64_t rows) {
  if (dtype == tensor::DType::f16 || dtype == tensor::DType::f32) return ActivationFormat::f32;
  if (dtype == tensor::DType::bf16) return rows <= kDecodeRows ? ActivationFormat::f32 : ActivationFormat::bf16;
  return rows <= kDecodeRows ? ActivationFormat::q8 : ActivationFormat::bf16;
}

bool strict_takes_batch(const Capabilities& capabilities, tensor::DType dtype) {
  return batch_serves(capabilities, dtype, dtype, kDecodeRows + 1);
}

ActivationFormat strict_activation_format(const Capabilities& capabilities, tensor::DType dtype) {
  return strict_takes_batch(capabilities, dtype) ? ActivationFormat::bf16 : activation_format(dtype, kDecodeRows);
}

bool strict_has_op(graph::Op op) {
  return op != graph::Op::norm_linear && op != graph::Op::norm_linear_glu && op != graph::Op::rope_attention;
}

int64_t linear_scratch_bytes(tensor::DType dtype, int64_t rows, int64_t weight_rows, int64_t cols) {
  return rows <= kDecodeRows ? 0 : gemm_scratch_bytes(dtype, rows, weight_rows, cols);
}

int64_t linear_glu_scratch_bytes(tensor::DType dtype, int64_t rows, int64_t weight_rows, int64_t cols) {
  return rows <= kDecodeRows ? 0 : gemm_glu_scratch_bytes(dtype, rows, weight_rows, cols);
}

void launch_linear(const Queue& queue, const LinearArgs& args, const LinearScratch& scratch) {
  bool batch = args.norm.weight == nullptr;
  for (int s = 0; s < args.segments; ++s) {
    batch = batch && prefers_batch(*queue.capabilities, args.segment[s].weight.dtype, args.x.rows);
  }
  if (batch) return launch_linear_batch(queue, args);
  if (args.x.rows <= kDecodeRows || queue.capabilities->strict) return launch_linear_decode(queue, args);
  launch_gemm_linear(queue, args, scratch);
}

void launch_linear_glu(const Queue& queue, const LinearGluArgs& args, const LinearScratch& scratch) {
  const bool batch = args.norm.weight == nullptr && args.gate.dtype == args.up.dtype;
  if (batch && prefers_batch(*queue.capabilities, args.gate.dtype, args.x.rows)) {
    return launch_linear_glu_batch(queue, args);
  }
  if (args.x.rows <= kDecodeRows || queue.capabilities->strict) {
    if (args.x.format == ActivationFormat::bf16) {  // strict, and both are the small-batch kernels', but apart
      fail(ErrorCode::unsupported,
           "gate and up projections of {} and {}: --strict has no product for both; add --no-fusion",
           tensor::dtype_info(args.gate.dtype).name, tensor::dtype_info(args.up.dtype).name);
    }
    return launch_linear_glu_decode(queue, args);
  }
  launch_gemm_linear_glu(queue, args, scratch);
}

}  // namespace minfer::cuda
