// Little-endian numbers at any address, private to the room. The copies compile to plain loads and stores on the
// little-endian hosts that minfer builds for; a big-endian host is refused at compile time rather than read wrongly.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>

namespace minfer::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF is read and written as little-endian memory");

// The number stored at `at`, which has sizeof(T) readable bytes and any alignment.
template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

}  // namespace minfer::gguf
