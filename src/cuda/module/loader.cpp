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

// Asks the driver itself, as the module is large: loaded in vain, it takes 90 MB and longer than a plan.
void find_card() {
  constexpr const char* kDriverFile = "libcuda.so.1";
  constexpr int kNoDevice = 100;
  void* driver = dlopen(kDriverFile, RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) fail(ErrorCode::device, "no CUDA driver: {}", dlerror());
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto get_count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  if (init == nullptr || get_count == nullptr) fail(ErrorCode::device, "no CUDA driver: {} is none", kDriverFile);
  int count = 0;
  int status = init(0);
  if (status == 0) status = get_count(&count);
  if (status == kNoDevice || (status == 0 && count == 0))
    fail(ErrorCode::device, "no CUDA card: the driver lists none");
  if (status != 0) fail(ErrorCode::device, "no CUDA card: the driver does not start (error {})", status);
}

}  // namespace

std::unique_ptr<graph::Backend> load_cuda_backend(const graph::BackendOptions& options) {
  const fs::path path = find_module();
  find_card();
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
