// The card and its memory. See device.hpp.
#include "cuda/runtime/device.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "base/error.hpp"

namespace minfer::cuda {
namespace {

constexpr int64_t kUnit = 256;

int64_t whole_units(int64_t bytes) {
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

// Asks until the answer is another than "not ready", which is the answer after kWaitLimitSeconds. A step takes about a
// millisecond: waiting spins, and lets others run only when it is long.
template <class Query>
cudaError_t poll(Query&& query) {
  constexpr auto kSpin = std::chrono::milliseconds(20);
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t status = query();
    if (status != cudaErrorNotReady) return status;
    cudaGetLastError();
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited > std::chrono::seconds(kWaitLimitSeconds)) return status;
    if (waited > kSpin) std::this_thread::yield();
  }
}

}  // namespace

Capabilities query_capabilities() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();
    fail(ErrorCode::device, "no CUDA card: {}",
         status == cudaSuccess ? "the driver lists none" : cudaGetErrorString(status));
  }
  cudaDeviceProp properties{};
  check_status(cudaGetDeviceProperties(&properties, 0), "device/properties");
  Capabilities result;
  result.name = properties.name;
  result.major = properties.major;
  result.minor = properties.minor;
  result.tier = choose_tier(result.name, result.major, result.minor);
  check_built_for(MINFER_CUDA_BUILT_FOR, result.major, result.minor);
  result.multiprocessors = properties.multiProcessorCount;
  result.shared_bytes_per_block = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
  result.shared_bytes_per_multiprocessor = static_cast<int64_t>(properties.sharedMemPerMultiprocessor);
  result.l2_bytes = properties.l2CacheSize;
  result.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  return result;
}

Device::Device(bool strict, const std::string* failing_site)
    : capabilities_(query_capabilities()), failing_site_(failing_site) {
  capabilities_.strict = strict;
  check_status(cudaSetDevice(0), "device/open");
  check_status(cudaStreamCreateWithFlags(&queue_.stream, cudaStreamNonBlocking), "device/stream");
  queue_.capabilities = &capabilities_;
  queue_.faults = &faults_;
  queue_.chained = capabilities_.tier >= Tier::hopper;
}

Device::~Device() {
  cudaStreamDestroy(queue_.stream);
}

graph::DeviceMemory Device::memory() const {
  using Answer = graph::DeviceMemory::Answer;
  if (!dead_reason_.empty()) return {Answer::no_device, 0, 0, dead_reason_};
  size_t available = 0, total = 0;
  const cudaError_t status = cudaMemGetInfo(&available, &total);
  if (status != cudaSuccess) return {Answer::query_failed, 0, 0, cudaGetErrorString(status)};
  return {Answer::reported, static_cast<int64_t>(total), static_cast<int64_t>(available), {}};
}

void Device::run(const std::function<void()>& work) {
  if (!dead_reason_.empty()) {
    fail(ErrorCode::device, "{} was lost: {}; start minfer again", capabilities_.name, dead_reason_);
  }
  if (failing_site_ != nullptr) faults_.arm(*failing_site_);
  try {
    work();
  } catch (const Error& error) {
    // The step's data and memory are reused: nothing of what was queued may still run.
    const cudaError_t before = cudaPeekAtLastError();
    const bool waits = dead_reason_.empty();
    const cudaError_t queued = waits ? poll([&] { return cudaStreamQuery(queue_.stream); }) : before;
    if (is_sticky(before) || is_sticky(queued) || queued == cudaErrorNotReady) dead_reason_ = error.what();
    cudaGetLastError();
    throw;
  }
}

QueueEvent::QueueEvent() {
  check_status(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "device/event");
}

QueueEvent::~QueueEvent() {
  cudaEventDestroy(event_);
}

void QueueEvent::record(const Queue& queue, const char* site) {
  guard_call(queue, site);
  check_status(cudaEventRecord(event_, queue.stream), site);
}

void Device::wait(const char* site) {
  done_.record(queue_, site);
  wait(done_, site);
}

void Device::wait(const QueueEvent& event, const char* site) {
  guard_call(queue_, site);
  const cudaError_t status = poll([&] { return cudaEventQuery(event.event()); });
  if (status == cudaErrorNotReady) {
    dead_reason_ = fmt::format("no answer within {} s at {}", kWaitLimitSeconds, site);
    fail(ErrorCode::device, "{}: {}", capabilities_.name, dead_reason_);
  }
  check_status(status, site);
}

DeviceBuffer::DeviceBuffer(int64_t bytes, const char* what) : bytes_(whole_units(bytes)) {
  if (bytes_ == 0) return;
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, static_cast<size_t>(bytes_));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t available = 0, total = 0;
    if (cudaMemGetInfo(&available, &total) != cudaSuccess) {
      fail(ErrorCode::out_of_memory, "the card has no {:.0f} MB for {}", static_cast<double>(bytes_) / 1e6, what);
    }
    fail(ErrorCode::out_of_memory, "the card has no {:.0f} MB for {}: {:.0f} MB are free",
         static_cast<double>(bytes_) / 1e6, what, static_cast<double>(available) / 1e6);
  }
  check_status(status, what);
  data_ = static_cast<std::byte*>(data);
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) cudaFree(data_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedBuffer::PinnedBuffer(int64_t bytes, const char* what) : bytes_(bytes) {
  if (bytes_ == 0) return;
  void* data = nullptr;
  check_status(cudaMallocHost(&data, static_cast<size_t>(bytes_)), what);
  data_ = static_cast<std::byte*>(data);
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) cudaFreeHost(data_);
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void copy_to_device(const Queue& queue, const char* site, void* device, const void* host, int64_t bytes) {
  guard_call(queue, site);
  const auto count = static_cast<size_t>(bytes);
  check_status(cudaMemcpyAsync(device, host, count, cudaMemcpyHostToDevice, queue.stream), site);
}

void copy_to_host(const Queue& queue, const char* site, void* host, const void* device, int64_t bytes) {
  guard_call(queue, site);
  const auto count = static_cast<size_t>(bytes);
  check_status(cudaMemcpyAsync(host, device, count, cudaMemcpyDeviceToHost, queue.stream), site);
}

void copy_rows_to_device(const Queue& queue, const char* site, void* device, int64_t stride, const float* host,
                         int64_t rows, int64_t width) {
  guard_call(queue, site);
  const size_t row_bytes = static_cast<size_t>(width) * sizeof(float);
  check_status(cudaMemcpy2DAsync(device, static_cast<size_t>(stride), host, row_bytes, row_bytes,
                                 static_cast<size_t>(rows), cudaMemcpyHostToDevice, queue.stream),
               site);
}

void copy_rows_to_host(const Queue& queue, const char* site, float* host, const void* device, int64_t stride,
                       int64_t rows, int64_t width) {
  guard_call(queue, site);
  const size_t row_bytes = static_cast<size_t>(width) * sizeof(float);
  check_status(cudaMemcpy2DAsync(host, row_bytes, device, static_cast<size_t>(stride), row_bytes,
                                 static_cast<size_t>(rows), cudaMemcpyDeviceToHost, queue.stream),
               site);
}

void clear(const Queue& queue, const char* site, void* device, int64_t bytes) {
  guard_call(queue, site);
  check_status(cudaMemsetAsync(device, 0, static_cast<size_t>(bytes), queue.stream), site);
}

TimingEvent::TimingEvent() {
  check_status(cudaEventCreate(&event_), "timing/event");
}

TimingEvent::~TimingEvent() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

TimingEvent::TimingEvent(TimingEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}

void TimingEvent::record(const Queue& queue) {
  guard_call(queue, "timing/record");
  check_status(cudaEventRecord(event_, queue.stream), "timing/record");
}

double TimingEvent::seconds_since(const TimingEvent& earlier) const {
  float milliseconds = 0;
  check_status(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "timing/elapsed");
  return static_cast<double>(milliseconds) * 1e-3;
}

RecordedWork::RecordedWork(const Queue& queue, const std::function<void()>& work) {
  guard_call(queue, "graph/record");
  check_status(cudaStreamBeginCapture(queue.stream, cudaStreamCaptureModeThreadLocal), "graph/record");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    // The recording is given up; what failed in it is reported.
    cudaStreamEndCapture(queue.stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check_status(cudaStreamEndCapture(queue.stream, &graph), "graph/record");
  const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  check_status(status, "graph/instantiate");
}

RecordedWork::~RecordedWork() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
}

RecordedWork::RecordedWork(RecordedWork&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)) {}

RecordedWork& RecordedWork::operator=(RecordedWork&& other) noexcept {
  std::swap(executable_, other.executable_);
  return *this;
}

void RecordedWork::replay(const Queue& queue) const {
  guard_call(queue, "graph/replay");
  check_status(cudaGraphLaunch(executable_, queue.stream), "graph/replay");
}

}  // namespace minfer::cuda
