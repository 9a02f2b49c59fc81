// The check of launchers' conditions. See require.hpp.
#include "cuda/kernels/common/require.hpp"

#include "base/error.hpp"

namespace minfer::cuda {

void require(bool condition, const char* what) {
  check(condition, what);
}

}  // namespace minfer::cuda
