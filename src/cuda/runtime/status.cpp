// Return codes as errors. See status.hpp.
#include "cuda/runtime/status.hpp"

#include "base/error.hpp"

namespace minfer::cuda {

void check_status(cudaError_t status, const char* site) {
  if (status == cudaSuccess) return;
  const ErrorCode code = status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device;
  fail(code, "CUDA failed at {}: {} ({})", site, cudaGetErrorString(status), cudaGetErrorName(status));
}

void check_status(cublasStatus_t status, const char* site) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(ErrorCode::device, "cuBLAS failed at {}: {}", site, cublasLtGetStatusString(status));
}

bool is_sticky(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

bool FaultLever::trips(const char* site) {
  if (site_ != site) return false;
  site_.clear();
  return true;
}

}  // namespace minfer::cuda
