// Sizes of panels. See panel.hpp; packing is in kernels/linear/pack.cu.
#include "cuda/launch/panel.hpp"

#include "base/error.hpp"
#include "cuda/launch/panel_types.hpp"

namespace minfer::cuda {

bool has_panels(tensor::DType dtype) {
  return panel_type(dtype).bits != 0;
}

int64_t panel_bytes(tensor::DType dtype, int64_t cols) {
  const PanelType type = panel_type(dtype);
  check(type.bits != 0 && cols > 0 && cols % type.source_elements == 0, "panels of a type and width that have none");
  return panel_type_bytes(type, cols);
}

int64_t panel_matrix_bytes(tensor::DType dtype, int64_t rows, int64_t cols) {
  const int64_t panels = (rows + kPanelRows - 1) / kPanelRows;
  const int64_t bytes = panels * panel_bytes(dtype, cols);
  return (bytes + kPanelAlignment - 1) / kPanelAlignment * kPanelAlignment;
}

}  // namespace minfer::cuda
