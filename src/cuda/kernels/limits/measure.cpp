// Measuring a card: the best of a few rounds by events. See launch/limits.hpp.
#include <algorithm>

#include "cuda/kernels/gemm/product.hpp"
#include "cuda/launch/limits.hpp"
#include "cuda/runtime/device.hpp"

namespace minfer::cuda {
namespace {

constexpr int kRounds = 6;
constexpr int64_t kReadBytes = int64_t{1} << 30;
constexpr int64_t kSquare = 8192;  // of the bf16 product
constexpr int64_t kSinkWords = 1 << 20;

// Seconds of the fastest round.
template <class Work>
double best_seconds(Device& device, Work&& work) {
  double best = 1e9;
  TimingEvent start, end;
  for (int round = 0; round < kRounds; ++round) {
    start.record(device.queue());
    work();
    end.record(device.queue());
    device.wait("limits/wait");
    best = std::min(best, end.seconds_since(start));
  }
  return best;
}

}  // namespace

int64_t card_measuring_bytes() {
  return kReadBytes + kSinkWords * 4 + kGemmWorkspaceBytes;
}

graph::DeviceLimits measure_card_limits(Device& device) {
  graph::DeviceLimits limits;
  device.run([&] {
    const Queue& queue = device.queue();
    const DeviceBuffer data(kReadBytes, "measuring limits");
    const DeviceBuffer sink(kSinkWords * 4, "measuring limits");
    const DeviceBuffer workspace(kGemmWorkspaceBytes, "measuring limits");
    auto* words = reinterpret_cast<uint32_t*>(sink.data());
    launch_fill_bf16(queue, data.data(), data.bytes());
    const double read = best_seconds(device, [&] { launch_read(queue, data.data(), kReadBytes, words); });
    limits.read_bytes_per_second = static_cast<double>(kReadBytes) / read;

    double operations = 0;
    const double dots = best_seconds(device, [&] { operations = launch_dot8(queue, words); });
    limits.dot8_ops_per_second = operations / dots;

    // In the first buffer: three squares of 128 MB.
    GemmContext gemm(workspace.data());
    GemmProduct product;
    product.shape = {false, true, false, false, kSquare, kSquare, kSquare, kSquare, kSquare, kSquare};
    product.weight = data.data();
    product.x = data.data() + kSquare * kSquare * 2;
    product.out = data.data() + kSquare * kSquare * 4;
    const double multiply = best_seconds(device, [&] { gemm.multiply(queue, product); });
    limits.float_ops_per_second = 2.0 * static_cast<double>(kSquare * kSquare * kSquare) / multiply;
  });
  return limits;
}

}  // namespace minfer::cuda
