// See free_memory.hpp. Source: malloc_trim(3).
// Apart because it depends on the C library.
#include "base/free_memory.hpp"

#include <cstdlib>  // defines __GLIBC__ where it is that library

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace minfer {

void release_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace minfer
