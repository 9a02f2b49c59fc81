// Loading of the module. See loader.hpp.
#include "cuda/module/loader.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "cuda/module/interface.hpp"

namespace minfer::cuda {
namespace {

namespace fs = std::filesystem;

fs::path find_module() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) fail(ErrorCode::device, "the program's own folder is unknown: {}", error.message());
  const fs::path folder = program.parent_path();
  for (const fs::path& path : {folder / kModuleFile, folder.parent_path() / "lib" / "minfer" / kModuleFile}) {
    if (fs::exists(path, error)) return path;
  }
  fail(ErrorCode::device, "no {} beside the program: it was built without CUDA", kModuleFile);
}

template <class Function>
Function symbol(void* module, const char* name) {
  void* address = dlsym(module, name);
  if (address == nullptr)
    fail(ErrorCode::device, "{} has no function {}; install one of this build", kModuleFile, name);
  return reinterpret_cast<Function>(address);
}

}  // namespace

std::unique_ptr<graph::Backend> load_cuda_backend(const graph::BackendOptions& options) {
  const fs::path path = find_module();
  // It stays loaded until the process ends: its code may run as long as its device lives.
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) fail(ErrorCode::device, "{} can't be loaded: {}", path.string(), dlerror());
  const std::string build = symbol<ModuleBuildFn>(module, kModuleBuildSymbol)();
  if (build != kModuleBuild) {
    fail(ErrorCode::device, "{} is of \"{}\", the program of \"{}\"; install both from one build", path.string(), build,
         kModuleBuild);
  }
  return std::unique_ptr<graph::Backend>(symbol<ModuleCreateFn>(module, kModuleCreateSymbol)(&options));
}

}  // namespace minfer::cuda
