// Where the time from a process's start to its first token goes: `cold_start_bench MODEL.gguf [driver]`. Each stage is
// done once, in the order that a command does it; a second step of each kind tells what of the first was preparation.
// With `driver` the driver and the card's context are opened before all else and timed apart. Run it anew for each
// measurement, with the module's and the model's file in the page cache or not, and with CUDA_MODULE_LOADING=EAGER.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "devices.hpp"
#include "engine/forward.hpp"
#include "engine/placement_plan.hpp"
#include "engine/runner.hpp"
#include "graph/registry.hpp"
#include "model/model.hpp"

namespace minfer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kContext = 4096;

class Stages {
 public:
  void end(const char* name) {
    const Clock::time_point now = Clock::now();
    std::printf("%-28s %8.1f ms\n", name, std::chrono::duration<double, std::milli>(now - last_).count());
    last_ = now;
  }

 private:
  Clock::time_point last_ = Clock::now();
};

// The driver's own functions, by name: this program is built without CUDA.
void open_driver(Stages& stages) {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) fail(ErrorCode::device, "no CUDA driver: {}", ::dlerror());
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto retain = reinterpret_cast<int (*)(void**, int)>(::dlsym(driver, "cuDevicePrimaryCtxRetain"));
  if (init == nullptr || init(0) != 0) fail(ErrorCode::device, "the CUDA driver does not start");
  stages.end("driver");
  void* context = nullptr;
  if (retain == nullptr || retain(&context, 0) != 0) fail(ErrorCode::device, "no context on the card");
  stages.end("context");
}

void measure(const std::string& path, bool driver) {
  Stages stages;
  if (driver) open_driver(stages);
  const graph::Registry registry(device_factories(), {});
  stages.end("devices");
  const model::Model model{gguf::File(path)};
  stages.end("file's header");
  engine::RunnerOptions options;
  options.context_tokens = kContext;
  options.batch_tokens = registry.preferred().preferred_batch_tokens();
  const graph::Backend* devices[] = {&registry.preferred()};
  engine::plan_placement(model, devices, options);
  stages.end("plan");
  engine::Runner runner(model, registry.preferred(), options, [&](int64_t done, int64_t total) {
    if (done == total) stages.end("weights");
  });
  stages.end("the rest of loading");
  // By family of products; the longest has cuBLASLt.
  engine::Sequence sequence(runner.cache());
  const std::vector<int32_t> prompt(512, 7);
  const auto step = [&](size_t rows, const char* name) {
    engine::append(runner, sequence, std::span(prompt).first(rows));
    stages.end(name);
  };
  step(1, "first step of 1 row");
  step(1, "second step of 1 row");
  step(16, "first step of 16 rows");
  step(16, "second step of 16 rows");
  step(512, "first step of 512 rows");
  step(512, "second step of 512 rows");
}

}  // namespace
}  // namespace minfer

int main(int count, char** arguments) {
  if (count < 2 || (count == 3 && std::string(arguments[2]) != "driver") || count > 3) {
    std::fprintf(stderr, "usage: cold_start_bench MODEL.gguf [driver]\n");
    return 2;
  }
  try {
    minfer::measure(arguments[1], count == 3);
    return 0;
  } catch (const minfer::Error& error) {
    std::fprintf(stderr, "cold_start_bench: %s\n", error.what());
    return 1;
  }
}
