// Packing into panels and back. See panel.hpp for the layout and panel_types.cpp for each type's reordering. A group is
// reordered row by row in a small buffer, then its fields are scattered at a stride of R: a panel's group fits L1.
#include "cpu/launch/panel.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "cpu/launch/panel_types.hpp"

namespace minfer::cpu {
namespace {

using tensor::DType;

// Bytes an element of a plain type; 0 for others.
int64_t plain_bytes(DType dtype) {
  if (dtype == DType::f32) return 4;
  return dtype == DType::f16 || dtype == DType::bf16 ? 2 : 0;
}

// Moves `count` values of kUnit bytes between a row and its lane of a panel (a stride of kRows values).
template <int kUnit, int kRows>
void scatter(const std::byte* row, int64_t count, std::byte* lane) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(lane + i * kUnit * kRows, row + i * kUnit, kUnit);
}

template <int kUnit, int kRows>
void gather(const std::byte* lane, int64_t count, std::byte* row) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(row + i * kUnit, lane + i * kUnit * kRows, kUnit);
}

// One row's group to and from lane `lane` of the panel's group.
template <int kRows>
void scatter_group(const PanelType& type, const std::byte* row, int64_t lane, std::byte* group) {
  scatter<2, kRows>(row, type.halves, group + 2 * lane);
  row += 2 * type.halves;
  group += 2 * type.halves * kRows;
  scatter<1, kRows>(row, type.bytes, group + lane);
  scatter<4, kRows>(row + type.bytes, type.words, group + type.bytes * kRows + 4 * lane);
}

template <int kRows>
void gather_group(const PanelType& type, const std::byte* group, int64_t lane, std::byte* row) {
  gather<2, kRows>(group + 2 * lane, type.halves, row);
  row += 2 * type.halves;
  group += 2 * type.halves * kRows;
  gather<1, kRows>(group + lane, type.bytes, row);
  gather<4, kRows>(group + type.bytes * kRows + 4 * lane, type.words, row + type.bytes);
}

// Plain rows in runs of kRun elements, so that the panel's part stays in L1.
constexpr int64_t kRun = 128;

template <int kUnit, int kRows>
void pack_plain(int64_t rows, int64_t k, const std::byte* source, std::byte* panel) {
  for (int64_t at = 0; at < k; at += kRun) {
    const int64_t count = std::min(kRun, k - at);
    std::byte* out = panel + at * kUnit * kRows;
    if (rows < kRows) std::memset(out, 0, static_cast<size_t>(count * kUnit * kRows));
    for (int64_t r = 0; r < rows; ++r) scatter<kUnit, kRows>(source + (r * k + at) * kUnit, count, out + r * kUnit);
  }
}

template <int kUnit, int kRows>
void unpack_plain(int64_t rows, int64_t k, const std::byte* panel, std::byte* destination) {
  for (int64_t at = 0; at < k; at += kRun) {
    const int64_t count = std::min(kRun, k - at);
    const std::byte* in = panel + at * kUnit * kRows;
    for (int64_t r = 0; r < rows; ++r) gather<kUnit, kRows>(in + r * kUnit, count, destination + (r * k + at) * kUnit);
  }
}

template <int kRows>
void pack_quantized(const PanelType& type, int64_t rows, int64_t k, const std::byte* source, std::byte* panel) {
  const int64_t bytes = type.group_bytes();
  const int64_t groups = k / type.group_elements;
  for (int64_t g = 0; g < groups; ++g) {
    std::byte* group = panel + g * bytes * kRows;
    if (rows < kRows) std::memset(group, 0, static_cast<size_t>(bytes * kRows));
    for (int64_t r = 0; r < rows; ++r) {
      std::byte arranged[kMaxGroupBytes];
      type.arrange(source + (r * groups + g) * bytes, arranged);
      scatter_group<kRows>(type, arranged, r, group);
    }
  }
}

// Row `lane` of a panel, in the file's order.
template <int kRows>
void unpack_row(const PanelType& type, int64_t k, const std::byte* panel, int64_t lane, std::byte* destination) {
  const int64_t bytes = type.group_bytes();
  for (int64_t g = 0; g < k / type.group_elements; ++g) {
    std::byte arranged[kMaxGroupBytes];
    gather_group<kRows>(type, panel + g * bytes * kRows, lane, arranged);
    type.restore(arranged, destination + g * bytes);
  }
}

template <int kRows>
void pack_all(DType dtype, int64_t rows, int64_t k, const std::byte* source, std::byte* panels) {
  const PanelType* type = find_panel_type(dtype);
  const int64_t plain = plain_bytes(dtype);
  check(type != nullptr || plain != 0, "pack_panels: the type has no panel");
  const int64_t row_bytes = tensor::row_bytes(dtype, k);
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min<int64_t>(kRows, rows - first);
    const std::byte* in = source + first * row_bytes;
    std::byte* panel = panels + first * row_bytes;
    if (type != nullptr) {
      pack_quantized<kRows>(*type, count, k, in, panel);
    } else if (plain == 4) {
      pack_plain<4, kRows>(count, k, in, panel);
    } else {
      pack_plain<2, kRows>(count, k, in, panel);
    }
  }
}

template <int kRows>
void unpack_all(DType dtype, int64_t rows, int64_t k, const std::byte* panels, std::byte* destination) {
  const PanelType* type = find_panel_type(dtype);
  const int64_t plain = plain_bytes(dtype);
  check(type != nullptr || plain != 0, "unpack_panels: the type has no panel");
  const int64_t row_bytes = tensor::row_bytes(dtype, k);
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min<int64_t>(kRows, rows - first);
    const std::byte* panel = panels + first * row_bytes;
    std::byte* out = destination + first * row_bytes;
    if (type != nullptr) {
      for (int64_t r = 0; r < count; ++r) unpack_row<kRows>(*type, k, panel, r, out + r * row_bytes);
    } else if (plain == 4) {
      unpack_plain<4, kRows>(count, k, panel, out);
    } else {
      unpack_plain<2, kRows>(count, k, panel, out);
    }
  }
}

// Row `lane` of a panel as floats, a group at a time.
template <int kRows>
void dequantize_lane(DType dtype, int64_t k, const std::byte* panel, int64_t lane, float* destination) {
  const PanelType* type = find_panel_type(dtype);
  const tensor::DequantizeFn dequantize = tensor::dtype_info(dtype).dequantize;
  if (type == nullptr) {
    const int64_t unit = plain_bytes(dtype);
    check(unit != 0, "dequantize_panel_row: the type has no panel");
    for (int64_t i = 0; i < k; ++i) dequantize(panel + (i * kRows + lane) * unit, 1, destination + i);
    return;
  }
  const int64_t bytes = type->group_bytes();
  for (int64_t g = 0; g < k / type->group_elements; ++g) {
    std::byte arranged[kMaxGroupBytes];
    std::byte block[kMaxGroupBytes];
    gather_group<kRows>(*type, panel + g * bytes * kRows, lane, arranged);
    type->restore(arranged, block);
    dequantize(block, 1, destination + g * type->group_elements);
  }
}

}  // namespace

int64_t layout_rows(Layout layout) {
  switch (layout) {
    case Layout::raw:
      return 1;
    case Layout::panel8:
      return 8;
    case Layout::panel16:
      return 16;
  }
  return 1;
}

std::optional<Layout> linear_layout(Isa isa, DType dtype) {
  if (isa == Isa::scalar) {
    if (tensor::dtype_info(dtype).dequantize == nullptr) return std::nullopt;
    return Layout::raw;
  }
  if (find_panel_type(dtype) == nullptr && plain_bytes(dtype) == 0) return std::nullopt;
  return is_avx512(isa) ? Layout::panel16 : Layout::panel8;
}

int64_t panel_count(Layout layout, int64_t rows) {
  const int64_t each = layout_rows(layout);
  return (rows + each - 1) / each;
}

int64_t panel_bytes(DType dtype, Layout layout, int64_t k) {
  return layout_rows(layout) * tensor::row_bytes(dtype, k);
}

int64_t panel_matrix_bytes(DType dtype, Layout layout, int64_t rows, int64_t k) {
  return panel_count(layout, rows) * panel_bytes(dtype, layout, k);
}

void pack_panels(DType dtype, Layout layout, int64_t rows, int64_t k, const std::byte* source, std::byte* panels) {
  switch (layout) {
    case Layout::raw:
      std::memcpy(panels, source, static_cast<size_t>(rows * tensor::row_bytes(dtype, k)));
      return;
    case Layout::panel8:
      return pack_all<8>(dtype, rows, k, source, panels);
    case Layout::panel16:
      return pack_all<16>(dtype, rows, k, source, panels);
  }
}

void unpack_panels(DType dtype, Layout layout, int64_t rows, int64_t k, const std::byte* panels,
                   std::byte* destination) {
  switch (layout) {
    case Layout::raw:
      std::memcpy(destination, panels, static_cast<size_t>(rows * tensor::row_bytes(dtype, k)));
      return;
    case Layout::panel8:
      return unpack_all<8>(dtype, rows, k, panels, destination);
    case Layout::panel16:
      return unpack_all<16>(dtype, rows, k, panels, destination);
  }
}

void dequantize_panel_row(DType dtype, Layout layout, int64_t k, const std::byte* panels, int64_t row,
                          float* destination) {
  const int64_t each = layout_rows(layout);
  const std::byte* panel = panels + row / each * panel_bytes(dtype, layout, k);
  switch (layout) {
    case Layout::raw: {
      const tensor::DTypeInfo& info = tensor::dtype_info(dtype);
      return info.dequantize(panel, k / info.block_elements, destination);
    }
    case Layout::panel8:
      return dequantize_lane<8>(dtype, k, panel, row % each, destination);
    case Layout::panel16:
      return dequantize_lane<16>(dtype, k, panel, row % each, destination);
  }
}

}  // namespace minfer::cpu
