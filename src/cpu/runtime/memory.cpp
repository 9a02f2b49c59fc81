// Linux implementation of HugeBuffer. See memory.hpp. The kernel gives no alignment of 2 MB by itself: one huge page
// more than needed is mapped, and both ends are given back.
#include "cpu/runtime/memory.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace minfer::cpu {

HugeBuffer::HugeBuffer(size_t size_bytes, std::string_view purpose) {
  if (size_bytes == 0) return;
  if (size_bytes > SIZE_MAX / 2) fail(ErrorCode::out_of_memory, "{}: {} bytes asked for", purpose, size_bytes);
  const size_t mapped = (size_bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const size_t reserved = mapped + kHugePageBytes;
  void* start = ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) {
    fail(ErrorCode::out_of_memory,
         "{}: can't allocate {} bytes ({:.1f} GiB): {}; close other programs, or choose a smaller model or context",
         purpose, size_bytes, static_cast<double>(size_bytes) / (1 << 30), std::strerror(errno));
  }
  std::byte* base = static_cast<std::byte*>(start);
  const size_t before = (kHugePageBytes - reinterpret_cast<uintptr_t>(base) % kHugePageBytes) % kHugePageBytes;
  const size_t after = kHugePageBytes - before;
  if (before != 0) ::munmap(base, before);
  if (after != 0) ::munmap(base + before + mapped, after);
  data_ = base + before;
  size_bytes_ = size_bytes;
  mapped_bytes_ = mapped;
  ::madvise(data_, mapped_bytes_, MADV_HUGEPAGE);  // a wish: without huge pages everything works, slower
}

HugeBuffer::~HugeBuffer() {
  if (data_ != nullptr) ::munmap(data_, mapped_bytes_);
}

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)) {}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  return *this;
}

}  // namespace minfer::cpu
