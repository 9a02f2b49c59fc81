// The two functions that the module exports, by name. Both sides are compiled from the same headers: `build` is what
// they compare before anything else is called.
#pragma once

#include "graph/backend.hpp"

namespace minfer::cuda {

// Changes with every version whose device seam differs.
inline constexpr char kModuleBuild[] = "minfer " MINFER_VERSION ", device seam 2";
inline constexpr char kModuleFile[] = "libminfer-cuda.so";

inline constexpr char kModuleBuildSymbol[] = "minfer_cuda_build";
using ModuleBuildFn = const char* (*)();
// The caller owns the result. Throws minfer::Error.
inline constexpr char kModuleCreateSymbol[] = "minfer_cuda_create";
using ModuleCreateFn = graph::Backend* (*)(const graph::BackendOptions* options);

}  // namespace minfer::cuda
