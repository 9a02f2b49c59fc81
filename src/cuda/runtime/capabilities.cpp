// The tier of a card. See capabilities.hpp.
#include "cuda/runtime/capabilities.hpp"

#include "base/error.hpp"

namespace minfer::cuda {

Tier choose_tier(const std::string& name, int major, int minor) {
  if (major < 8) {
    fail(ErrorCode::unsupported, "{} has compute capability {}.{}; minfer's kernels need 8.0 or newer", name, major,
         minor);
  }
  return major >= 9 ? Tier::hopper : Tier::ampere;
}

}  // namespace minfer::cuda
