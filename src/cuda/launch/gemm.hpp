// Prefill: linears of many rows. Weights are decoded from their panels a slice of rows at a time, into a bounded
// scratch, and multiplied by cuBLASLt: quantized types and BF16 as bf16 x bf16 with f32 sums (x: bf16), F16 and F32 as
// tf32 (x: f32). launch_linear calls these beyond kSmallBatchRows; launch/linear.hpp has the arguments.
//
// Everything runs on the queue's stream and can be captured in a graph; cuBLASLt's choice of an algorithm needs no
// device. cuBLASLt's kernels know nothing of chained launches: they start after the kernel before them has ended, and
// a chained kernel behind them waits for their end. One thread uses a context. An algorithm is chosen by shape: a row's
// bits may differ between steps of different row counts.
// Limits: relative L2 error against exact products of the same x under 5e-3 (bf16), 1e-3 (tf32). Tests:
// launch/gemm_device_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda/launch/linear.hpp"

namespace minfer::cuda {

// Device memory that cuBLASLt works in.
inline constexpr int64_t kGemmWorkspaceBytes = int64_t{32} << 20;

struct GemmProduct;  // kernels/gemm/product.hpp

// cuBLASLt's handle and, for each shape met so far, its descriptors and algorithm. After a shape's first use it
// allocates nothing.
class GemmContext {
 public:
  // `workspace`: kGemmWorkspaceBytes on the device at a multiple of 256, owned by the caller, there as long as this.
  explicit GemmContext(std::byte* workspace);
  ~GemmContext();
  GemmContext(const GemmContext&) = delete;
  GemmContext& operator=(const GemmContext&) = delete;

  // Errors: unsupported where cuBLASLt has no algorithm for the shape.
  void multiply(const Queue& queue, const GemmProduct& product);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Scratch of one product of `weight_rows` (of each matrix, for the gated form) and `rows` rows. Pure.
int64_t gemm_scratch_bytes(tensor::DType dtype, int64_t rows, int64_t weight_rows, int64_t cols);
int64_t gemm_glu_scratch_bytes(tensor::DType dtype, int64_t rows, int64_t weight_rows, int64_t cols);

// x: bf16 for quantized types and BF16, f32 for F16 and F32. The scratch has room for the largest segment.
void launch_gemm_linear(const Queue& queue, const LinearArgs& args, const LinearScratch& scratch);
void launch_gemm_linear_glu(const Queue& queue, const LinearGluArgs& args, const LinearScratch& scratch);

}  // namespace minfer::cuda
