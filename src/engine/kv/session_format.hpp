// The session file format, version 2: one sequence of the KV cache with its tokens. docs/formats/session-file.md is its
// specification; this header is what the code takes from it. Numbers are little-endian, structures have no padding.
//
//   SessionHeader
//   SessionGroup   for each group of layers
//   i32            for each token, its id; then for each pending one
//   pages          of the groups in order, each group's in the order of positions: page_bytes bytes
//   checksum       XXH3-128 of all before it: low 64 bits, high 64 bits
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace minfer::engine {

static_assert(std::endian::native == std::endian::little, "session files are written as they lie in memory");

inline constexpr std::array<char, 8> kSessionMagic = {'m', 'i', 'n', 'f', 'e', 'r', 'K', 'V'};
inline constexpr uint32_t kSessionVersion = 2;
inline constexpr size_t kSessionChecksumBytes = 16;

struct SessionHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t page_tokens;
  uint64_t file_bytes;  // checksum included
  std::array<uint64_t, 2> model_hash;
  // Text fields end with their first zero byte, or are full.
  std::array<char, 32> architecture;
  std::array<char, 128> name;
  std::array<char, 32> layout;
  // 0 f32, 1 f16, 2 bf16, 3 q8_0
  uint32_t key_format;
  uint32_t value_format;
  uint32_t groups;
  uint32_t pending;  // tokens that follow those, and are in no page yet
  uint64_t tokens;   // in the pages
};
static_assert(sizeof(SessionHeader) == 256);

struct SessionGroup {
  uint64_t window;       // 0: none
  uint64_t first_token;  // the first position that it holds
  uint64_t pages;        // from that position's page to the last token's
  uint64_t page_bytes;
};
static_assert(sizeof(SessionGroup) == 32);

}  // namespace minfer::engine
