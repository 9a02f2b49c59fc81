// The return codes of the CUDA libraries as errors, and the lever that makes a launch fail in tests. Free of fmt, so
// that kernel sources can include it.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>

namespace minfer::cuda {

// Throws Error{device}, or Error{out_of_memory} for a failed allocation, naming `site` and CUDA's own words.
void check_status(cudaError_t status, const char* site);
void check_status(cublasStatus_t status, const char* site);

// Whether a status means that the context is lost: every later call fails until the process ends.
bool is_sticky(cudaError_t status);

// Makes the launch at one site fail, for tests: every launch, copy, replay and library call passes it. A site is a
// short literal, "linear/decode"; the checked-in list of them is src/cuda/launch_sites.txt.
class FaultLever {
 public:
  // The next launch at `site` fails, once.
  void arm(std::string site) { site_ = std::move(site); }
  // Whether the call at `site` is to fail; disarms.
  bool trips(const char* site);

 private:
  std::string site_;
};

}  // namespace minfer::cuda
