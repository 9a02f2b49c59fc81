// The keys that requests may come with. Only their SHA-256 sums are kept, and compared in a time that depends on
// neither the key nor where it differs. Immutable; any thread.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace minfer::server {

class ApiKeys {
 public:
  explicit ApiKeys(const std::vector<std::string>& keys);
  // No key is needed.
  bool empty() const { return sums_.empty(); }
  // Whether a request with this Authorization header may go on: "Bearer KEY".
  bool accepts(std::string_view authorization) const;

 private:
  static constexpr size_t kSumBytes = 32;
  using Sum = std::array<unsigned char, kSumBytes>;
  static Sum sum_of(std::string_view key);

  std::vector<Sum> sums_;
};

}  // namespace minfer::server
