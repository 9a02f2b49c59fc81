// What the linear launcher asks of a kernel: plain data, so that a kernel source, compiled for one instruction set,
// shares no code with the rest of the program. One call computes a tile: a few consecutive panels of one weight times a
// few rows of activations (the columns of the product). A kernel allocates nothing, throws nothing, and gives each
// output the same bits whatever the tile around it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.hpp"

namespace minfer::cpu {

struct LinearTile {
  tensor::DType dtype;
  const std::byte* panels;  // the first panel (see panel.hpp)
  int64_t panel_stride;     // bytes from one to the next
  int64_t panels_count;     // at least 1; panels_count * rows a panel * columns is at most kMaxTileProducts
  int64_t k;                // elements a row, a multiple of the type's block
  const std::byte* x;       // rows of activations: q8 (activation.hpp) for quantized types, else k floats
  int64_t x_stride;         // bytes from one to the next
  int64_t columns;          // rows of x, at least 1
  float* products;          // [columns][panels_count * rows a panel], aligned to 64 bytes
};
using LinearTileFn = void (*)(const LinearTile& tile);

// Up to this many columns (streams that decode together) a chunk is a few panels and all columns, and a vector kernel
// may unpack weights in registers, a panel after the other; over it panels are unpacked to a buffer first.
inline constexpr int64_t kStreamColumns = 48;
inline constexpr int64_t kMaxTileProducts = 8192;

// The kernel of a type; nullptr: none. Scalar reads rows as in the file (panels of one row) and f32 activations.
namespace scalar {
LinearTileFn linear_tile(tensor::DType dtype);
}
namespace avx2 {
LinearTileFn linear_tile(tensor::DType dtype);
}
namespace avxvnni {
LinearTileFn linear_tile(tensor::DType dtype);
}
namespace avx512 {
LinearTileFn linear_tile(tensor::DType dtype);
}
namespace amx {
LinearTileFn linear_tile(tensor::DType dtype);
}

}  // namespace minfer::cpu
