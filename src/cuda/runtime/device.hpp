// One card: its capabilities, its stream, the memory that it reports, and whether it is still alive. A status that
// loses the context makes the device dead: what is asked of it later fails with the reason of that first failure. Waits
// are bounded. One thread, the engine's, makes all calls but memory().
#pragma once

#include <functional>
#include <string>

#include "cuda/runtime/launch.hpp"
#include "graph/device_memory.hpp"

namespace minfer::cuda {

inline constexpr int kWaitLimitSeconds = 120;

// A moment on the queue that the host can wait for.
class QueueEvent {
 public:
  QueueEvent();
  ~QueueEvent();
  QueueEvent(const QueueEvent&) = delete;
  QueueEvent& operator=(const QueueEvent&) = delete;
  // After all that was queued so far. Errors: device.
  void record(const Queue& queue, const char* site);
  cudaEvent_t event() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// What the card that CUDA lists first can do. Errors: device where there is no driver or no card; unsupported where it
// is too old, or this build has no code for it.
Capabilities query_capabilities();

class Device {
 public:
  // That card. `failing_site`: tests only, the site that fails while it is named there; nullptr: none.
  // Errors: those of query_capabilities.
  explicit Device(bool strict = false, const std::string* failing_site = nullptr);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Capabilities& capabilities() const { return capabilities_; }
  const Queue& queue() const { return queue_; }
  graph::DeviceMemory memory() const;

  // Runs work that calls CUDA. Errors: device where it is dead; those of the work, after which it may be, and else
  // what the work had queued is done.
  void run(const std::function<void()>& work);
  // Until all that was queued is done. Errors: device, also where that takes longer than kWaitLimitSeconds.
  void wait(const char* site);
  // Until an event that was recorded has passed. Likewise.
  void wait(const QueueEvent& event, const char* site);

 private:
  Capabilities capabilities_;
  FaultLever faults_;
  const std::string* failing_site_;
  Queue queue_;
  QueueEvent done_;
  std::string dead_reason_;
};

// Device memory, of whole 256-byte units; never managed.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // Errors: out_of_memory, naming `what` and the bytes.
  DeviceBuffer(int64_t bytes, const char* what);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Host memory that the card reads and writes directly.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(int64_t bytes, const char* what);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Copies on the queue, guarded like launches.
void copy_to_device(const Queue& queue, const char* site, void* device, const void* host, int64_t bytes);
void copy_to_host(const Queue& queue, const char* site, void* host, const void* device, int64_t bytes);
// Rows of `width` floats: tight on the host, `stride` bytes apart on the card.
void copy_rows_to_device(const Queue& queue, const char* site, void* device, int64_t stride, const float* host,
                         int64_t rows, int64_t width);
void copy_rows_to_host(const Queue& queue, const char* site, float* host, const void* device, int64_t stride,
                       int64_t rows, int64_t width);
void clear(const Queue& queue, const char* site, void* device, int64_t bytes);

// A moment on the queue, for timing.
class TimingEvent {
 public:
  TimingEvent();
  ~TimingEvent();
  TimingEvent(TimingEvent&& other) noexcept;
  TimingEvent& operator=(TimingEvent&&) = delete;
  void record(const Queue& queue);
  // Both have passed.
  double seconds_since(const TimingEvent& earlier) const;

 private:
  cudaEvent_t event_ = nullptr;
};

// Work recorded once and replayed as one call: launches and copies between addresses that stay the same.
class RecordedWork {
 public:
  RecordedWork() = default;
  // Records what `work` puts on the queue.
  RecordedWork(const Queue& queue, const std::function<void()>& work);
  ~RecordedWork();
  RecordedWork(RecordedWork&& other) noexcept;
  RecordedWork& operator=(RecordedWork&& other) noexcept;
  bool empty() const { return executable_ == nullptr; }
  void replay(const Queue& queue) const;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace minfer::cuda
