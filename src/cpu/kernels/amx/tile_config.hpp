// What ldtilecfg reads: the shapes of the eight tiles (Intel SDM, volume 1, chapter 18). Only for sources that are
// compiled for AMX.
#pragma once

#include <cstdint>

namespace minfer::cpu::amx {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

}  // namespace
}  // namespace minfer::cpu::amx
