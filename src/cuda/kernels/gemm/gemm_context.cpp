// cuBLASLt behind one call. It is column-major: a row-major [rows][cols] matrix is its cols x rows matrix, so out^T =
// weight x^T, with the weight transposed. Descriptors lie in the plans themselves, so that nothing is allocated after a
// shape's first use. See launch/gemm.hpp.
#include <cublasLt.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "cuda/kernels/gemm/product.hpp"
#include "cuda/launch/gemm.hpp"

namespace minfer::cuda {
namespace {

constexpr const char* kSite = "gemm/matmul";
constexpr uint32_t kRowAlignment = 16;       // of x and out
constexpr uint32_t kScratchAlignment = 256;  // of decoded weights

struct Plan {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t weight, x, out;
  cublasLtMatmulAlgo_t algorithm;
};

template <class T>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_status(cublasLtMatmulDescSetAttribute(&operation, attribute, static_cast<const void*>(&value), sizeof(value)),
               kSite);
}
template <class T>
void set(cublasLtMatrixLayoutOpaque_t& layout, cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
  check_status(cublasLtMatrixLayoutSetAttribute(&layout, attribute, static_cast<const void*>(&value), sizeof(value)),
               kSite);
}
template <class T>
void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  check_status(
      cublasLtMatmulPreferenceSetAttribute(&preference, attribute, static_cast<const void*>(&value), sizeof(value)),
      kSite);
}

void make_layout(cublasLtMatrixLayoutOpaque_t& layout, cudaDataType_t type, int64_t rows, int64_t cols, int64_t stride,
                 int64_t batch, int64_t batch_stride) {
  check_status(
      cublasLtMatrixLayoutInit(&layout, type, static_cast<uint64_t>(cols), static_cast<uint64_t>(rows), stride), kSite);
  if (batch == 1) return;
  set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch));
  set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_stride);
}

void make_descriptors(const GemmShape& shape, Plan& plan) {
  const auto compute = shape.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check_status(cublasLtMatmulDescInit(&plan.operation, compute, CUDA_R_32F), kSite);
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, static_cast<int32_t>(CUBLAS_OP_T));
  if (shape.has_bias) {
    set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(CUBLASLT_EPILOGUE_BIAS));
    if (shape.batch > 1) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, shape.bias_batch_stride);
  }
  const auto type = shape.tf32 ? CUDA_R_32F : CUDA_R_16BF;
  make_layout(plan.weight, type, shape.out_cols, shape.cols, shape.weight_stride, shape.batch,
              shape.weight_batch_stride);
  make_layout(plan.x, type, shape.rows, shape.cols, shape.x_stride, shape.batch, 0);
  make_layout(plan.out, shape.bf16_out ? CUDA_R_16BF : CUDA_R_32F, shape.rows, shape.out_cols, shape.out_stride,
              shape.batch, shape.out_batch_stride);
}

void choose_algorithm(cublasLtHandle_t handle, const GemmShape& shape, Plan& plan) {
  cublasLtMatmulPreferenceOpaque_t preference;
  check_status(cublasLtMatmulPreferenceInit(&preference), kSite);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kGemmWorkspaceBytes));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kScratchAlignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kRowAlignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kRowAlignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kRowAlignment);
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, &plan.operation, &plan.weight, &plan.x,
                                                               &plan.out, &plan.out, &preference, 1, &result, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || found == 0) {
    fail(ErrorCode::unsupported, "cuBLASLt has no algorithm for a product of {} rows, {} columns to {} columns ({}{})",
         shape.rows, shape.cols, shape.out_cols, shape.tf32 ? "tf32" : "bf16", shape.has_bias ? ", bias" : "");
  }
  check_status(status, kSite);
  plan.algorithm = result.algo;
}

}  // namespace

struct GemmContext::State {
  cublasLtHandle_t handle = nullptr;
  std::byte* workspace = nullptr;
  std::map<GemmShape, Plan> plans;
};

GemmContext::GemmContext(std::byte* workspace) : state_(std::make_unique<State>()) {
  check(workspace != nullptr && reinterpret_cast<uintptr_t>(workspace) % kScratchAlignment == 0,
        "cuBLASLt's workspace is device memory at a multiple of 256");
  state_->workspace = workspace;
  check_status(cublasLtCreate(&state_->handle), "gemm/create");
}

GemmContext::~GemmContext() {
  cublasLtDestroy(state_->handle);
}

void GemmContext::multiply(const Queue& queue, const GemmProduct& product) {
  guard_call(queue, kSite);
  const GemmShape& shape = product.shape;
  check(shape.has_bias == (product.bias != nullptr) && shape.has_residual == (product.residual != nullptr),
        "a product's shape says what it adds");
  check(!shape.bf16_out || (!shape.has_bias && !shape.has_residual), "bf16 products add nothing");
  auto found = state_->plans.find(shape);
  if (found == state_->plans.end()) {
    Plan plan{};
    make_descriptors(shape, plan);
    // The choice depends on the pointer's alignment; all biases have the same.
    if (shape.has_bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
    choose_algorithm(state_->handle, shape, plan);
    found = state_->plans.emplace(shape, plan).first;
  }
  Plan& plan = found->second;
  if (shape.has_bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
  const float one = 1.0F;
  const float beta = shape.has_residual ? 1.0F : 0.0F;
  const void* added = shape.has_residual ? static_cast<const void*>(product.residual) : product.out;
  check_status(cublasLtMatmul(state_->handle, &plan.operation, &one, product.weight, &plan.weight, product.x, &plan.x,
                              &beta, added, &plan.out, product.out, &plan.out, &plan.algorithm, state_->workspace,
                              static_cast<size_t>(kGemmWorkspaceBytes), queue.stream),
               kSite);
}

}  // namespace minfer::cuda
