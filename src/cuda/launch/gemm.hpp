// Prefill: linears of many rows. Weights are decoded from their panels a slice of rows at a time, on a stream of their
// own beside the products (kernels/gemm/decode_ring.hpp), and multiplied by cuBLASLt: quantized types and BF16 as bf16
// x bf16 with f32 sums (x: bf16), F16 and F32 as tf32 (x: f32). launch_linear calls these beyond kSmallBatchRows;
// launch/linear.hpp has the arguments.
//
// It can be captured in a graph, and all that it starts is joined to the queue's stream; cuBLASLt's choice of an
// algorithm needs no device. cuBLASLt's kernels know nothing of chained launches: they start after the kernel before
// them has ended, and a chained kernel behind them waits for their end. One thread uses a context. Limits: relative L2
// error against exact products of the same x under 5e-3 (bf16), 1e-3 (tf32). Tests: launch/gemm_device_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda/launch/linear.hpp"

namespace minfer::cuda {

// Device memory of a context: decoded slices, and what cuBLASLt works in.
inline constexpr int64_t kGemmWorkspaceBytes = int64_t{32} << 20;
inline constexpr int64_t kGemmSliceBytes = int64_t{48} << 20;
inline constexpr int64_t kGemmMemoryBytes = kGemmWorkspaceBytes + 2 * kGemmSliceBytes;

struct GemmProduct;  // kernels/gemm/product.hpp
class DecodeRing;    // kernels/gemm/decode_ring.hpp

// cuBLASLt's handle and, for each shape met so far, its descriptors and algorithm; the memory and the stream of decoded
// slices. After a shape's first use it allocates nothing. Used with one queue, whose stream should have a priority
// above the lowest; work that was started with it must have ended before it goes.
class GemmContext {
 public:
  // `memory`: kGemmMemoryBytes on the device at a multiple of 256, owned by the caller, there as long as this.
  explicit GemmContext(std::byte* memory);
  ~GemmContext();
  GemmContext(const GemmContext&) = delete;
  GemmContext& operator=(const GemmContext&) = delete;

  // Errors: unsupported where cuBLASLt has no algorithm for the shape.
  void multiply(const Queue& queue, const GemmProduct& product);
  DecodeRing& ring();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Scratch of one product: none, for slices lie in the context; of the gated form, with `weight_rows` of gate and of up
// each: the products until they are activated. Pure.
int64_t gemm_scratch_bytes(tensor::DType dtype, int64_t rows, int64_t weight_rows, int64_t cols);
int64_t gemm_glu_scratch_bytes(tensor::DType dtype, int64_t rows, int64_t weight_rows, int64_t cols);

// x: bf16 for quantized types and BF16, f32 for F16 and F32. Errors: unsupported where a
// matrix is so wide that kSliceStep decoded rows (kernels/gemm/slices.hpp) exceed a slice's memory.
void launch_gemm_linear(const Queue& queue, const LinearArgs& args, const LinearScratch& scratch);
void launch_gemm_linear_glu(const Queue& queue, const LinearGluArgs& args, const LinearScratch& scratch);

}  // namespace minfer::cuda
