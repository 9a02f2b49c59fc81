// One row a quantized type: how its group of a row (a block of the file) is reordered into the fields of a panel (see
// panel.hpp) and back. Private to panel.cpp and its table; both directions are lossless, so `restore` is the inverse.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.hpp"

namespace minfer::cpu {

// From or to the bytes of one group; as many bytes on both sides.
using ReorderFn = void (*)(const std::byte* source, std::byte* destination);

struct PanelType {
  tensor::DType dtype;
  int32_t group_elements;
  int32_t halves;  // fields of 2 bytes a row, first
  int32_t bytes;   // fields of 1 byte a row
  int32_t words;   // fields of 4 bytes a row
  ReorderFn arrange;
  ReorderFn restore;

  constexpr int32_t group_bytes() const { return 2 * halves + bytes + 4 * words; }  // a row
};

inline constexpr int32_t kMaxGroupBytes = 256;

// The row of a quantized type; nullptr: it has no panel.
const PanelType* find_panel_type(tensor::DType dtype);

}  // namespace minfer::cpu
