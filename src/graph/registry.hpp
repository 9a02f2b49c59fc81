// The devices of this process. devices.cpp, the composition root, lists factories; the registry makes each device once
// and keeps, for one that is not there, the reason (no driver, too old, module absent) for --explain and errors.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/backend.hpp"

namespace minfer::graph {

struct DeviceFactory {
  std::string name;
  // Makes the device. Errors: Error{device or unsupported} where it is not there; its message is the reason.
  std::function<std::unique_ptr<Backend>(const BackendOptions&)> create;
};

class Registry {
 public:
  struct Entry {
    std::string name;
    std::unique_ptr<Backend> backend;  // null where unavailable
    std::string unavailable_reason;
  };

  // Makes every device, in order of preference. Errors: those of invalid options; unsupported where none is available.
  Registry(std::span<const DeviceFactory> factories, const BackendOptions& options);

  std::span<const Entry> entries() const { return entries_; }
  // The available devices, in order of preference.
  std::vector<Backend*> available() const;
  // The first of them.
  Backend& preferred() const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace minfer::graph
