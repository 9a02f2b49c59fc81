// The registry of devices. See registry.hpp.
#include "graph/registry.hpp"

#include <utility>

#include "base/error.hpp"

namespace minfer::graph {

Registry::Registry(std::span<const DeviceFactory> factories, const BackendOptions& options) {
  std::string reasons;
  bool any = false;
  for (const DeviceFactory& factory : factories) {
    Entry entry{factory.name, nullptr, {}};
    try {
      entry.backend = factory.create(options);
      any = true;
    } catch (const Error& error) {
      // A wrong option is the user's to mend; only a missing device is passed over, with its reason kept.
      if (error.code() != ErrorCode::device && error.code() != ErrorCode::unsupported) throw;
      entry.unavailable_reason = error.what();
      reasons += fmt::format("; {}: {}", factory.name, error.what());
    }
    entries_.push_back(std::move(entry));
  }
  if (!any) fail(ErrorCode::unsupported, "no device is available{}", reasons);
}

std::vector<Backend*> Registry::available() const {
  std::vector<Backend*> devices;
  for (const Entry& entry : entries_) {
    if (entry.backend != nullptr) devices.push_back(entry.backend.get());
  }
  return devices;
}

Backend& Registry::preferred() const {
  return *available().front();
}

}  // namespace minfer::graph
