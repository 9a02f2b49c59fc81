// What a device says of itself before it is asked to hold anything: its memory, and its limits. Plain data.
#pragma once

#include <cstdint>
#include <string>

namespace minfer::graph {

struct DeviceMemory {
  enum class Answer { reported, query_failed, no_device };
  Answer answer = Answer::no_device;
  int64_t total_bytes = 0;      // where reported
  int64_t available_bytes = 0;  // where reported
  std::string reason;           // where not
};

// What a device can do at most, measured on it; `minfer bench` relates speeds to these.
struct DeviceLimits {
  double read_bytes_per_second = 0;  // reading memory much larger than the caches
  double dot8_ops_per_second = 0;    // 8-bit dot products, a multiply and an add count as two
  double float_ops_per_second = 0;   // f32 or bf16 fused multiply-adds, likewise
};

}  // namespace minfer::graph
