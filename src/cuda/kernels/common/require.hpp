// The check of launchers' conditions, for kernel sources: those may not include base/error.hpp (fmt fails in nvcc).
#pragma once

namespace minfer::cuda {

// Throws Error{internal} naming `what`: a programmer's own error, unreachable from any input.
void require(bool condition, const char* what);

}  // namespace minfer::cuda
