// Large anonymous memory: weights in panels, KV pages, activations. A HugeBuffer is zeroed, starts at a multiple of 2
// MB and asks the kernel for huge pages, without which a decode step spends much of its time in TLB misses. Memory is
// taken at the first touch, so the thread that writes a part first decides its NUMA node. Movable; one owner; no
// locking.
#pragma once

#include <cstddef>
#include <string_view>

namespace minfer::cpu {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

class HugeBuffer {
 public:
  HugeBuffer() = default;
  // `size_bytes` zeroed bytes for `purpose` (named in errors: "weights", "KV pages"); 0 gives an empty buffer.
  // Errors: out_of_memory, naming the purpose and the size.
  HugeBuffer(size_t size_bytes, std::string_view purpose);
  ~HugeBuffer();
  HugeBuffer(HugeBuffer&& other) noexcept;
  HugeBuffer& operator=(HugeBuffer&& other) noexcept;
  HugeBuffer(const HugeBuffer&) = delete;
  HugeBuffer& operator=(const HugeBuffer&) = delete;

  std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  size_t mapped_bytes_ = 0;  // size_bytes_ in whole huge pages
};

}  // namespace minfer::cpu
