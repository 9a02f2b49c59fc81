// Linux's answers about processors and memory. See topology.hpp. Formats: proc(5), cgroups(7), sysfs CPU topology.
#include "cpu/runtime/topology.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>

namespace minfer::cpu {
namespace {

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The number of kilobytes after `key` in /proc/meminfo.
std::optional<int64_t> meminfo_bytes(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    std::istringstream fields(line.substr(key.size()));
    int64_t kilobytes = 0;
    if (fields >> kilobytes) return kilobytes * 1024;
  }
  return std::nullopt;
}

// A number in a cgroup file; nullopt for "max" or no file.
std::optional<int64_t> cgroup_bytes(const std::string& name) {
  std::istringstream fields(read_line("/sys/fs/cgroup/" + name));
  int64_t bytes = 0;
  if (fields >> bytes) return bytes;
  return std::nullopt;
}

}  // namespace

int usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::string siblings =
        read_line(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    cores.insert(siblings.empty() ? fmt::format("cpu{}", cpu) : siblings);
  }
  return std::max(1, static_cast<int>(cores.size()));
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

graph::DeviceMemory host_memory() {
  using Answer = graph::DeviceMemory::Answer;
  const auto total = meminfo_bytes("MemTotal:");
  const auto available = meminfo_bytes("MemAvailable:");
  if (!total || !available) return {Answer::query_failed, 0, 0, "/proc/meminfo has no MemTotal or MemAvailable"};
  graph::DeviceMemory memory{Answer::reported, *total, *available, {}};
  const auto limit = cgroup_bytes("memory.max");
  const auto used = cgroup_bytes("memory.current");
  if (limit && used) {
    memory.total_bytes = std::min(memory.total_bytes, *limit);
    memory.available_bytes = std::min(memory.available_bytes, std::max<int64_t>(0, *limit - *used));
  }
  return memory;
}

}  // namespace minfer::cpu
