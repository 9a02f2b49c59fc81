// The head sizes that the tensor-core kernels are built for, in one place: a size in a variable becomes a constant.
#pragma once

#include <cstdint>
#include <type_traits>

#include "graph/enums.hpp"

namespace minfer::cuda::attention {

// Calls `with` with the size as a std::integral_constant; false: there are no kernels for it (q8_0: whole blocks of
// 32).
template <graph::KvFormat kFormat, class With>
bool with_head_size(int64_t size, With with) {
  switch (size) {
    case 64:
      with(std::integral_constant<int, 64>{});
      return true;
    case 80:
      if constexpr (kFormat != graph::KvFormat::q8_0) {
        with(std::integral_constant<int, 80>{});
        return true;
      }
      return false;
    case 96:
      with(std::integral_constant<int, 96>{});
      return true;
    case 128:
      with(std::integral_constant<int, 128>{});
      return true;
    case 192:
      with(std::integral_constant<int, 192>{});
      return true;
    case 256:
      with(std::integral_constant<int, 256>{});
      return true;
    default:
      return false;
  }
}

}  // namespace minfer::cuda::attention
