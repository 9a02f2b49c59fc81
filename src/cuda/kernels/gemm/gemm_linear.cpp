// Linears of many rows: slices of weights decoded and multiplied in turn, all in one scratch. See launch/gemm.hpp.
// Engine's thread.
#include <algorithm>

#include "base/error.hpp"
#include "cuda/kernels/gemm/decode.hpp"
#include "cuda/kernels/gemm/product.hpp"
#include "cuda/kernels/gemm/slices.hpp"
#include "cuda/launch/gemm.hpp"

namespace minfer::cuda {
namespace {

constexpr int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}
constexpr int64_t kScratchUnit = 256;

// Rows that a slice takes at most, for a weight of this many.
int64_t slice_limit(tensor::DType dtype, int64_t weight_rows, int64_t cols) {
  return std::min(max_slice_rows(dtype, cols), round_up(weight_rows, kSliceStep));
}

int64_t element_bytes(tensor::DType dtype) {
  return gemm_is_tf32(dtype) ? 4 : 2;
}

void check_input(const Rows& x, tensor::DType dtype, int64_t cols) {
  check(x.format == (gemm_is_tf32(dtype) ? ActivationFormat::f32 : ActivationFormat::bf16),
        "prefill products read bf16, or f32 where weights are F16 or F32");
  check(x.width == cols, "a product's input has the weight's columns");
}

void check_scratch(const LinearScratch& scratch, int64_t bytes) {
  check(scratch.gemm != nullptr && scratch.data != nullptr && scratch.bytes >= bytes,
        "prefill products need a context and their scratch");
}

GemmProduct product_of(const Rows& x, tensor::DType dtype, const std::byte* weight, int64_t out_cols) {
  GemmProduct product;
  product.shape.tf32 = gemm_is_tf32(dtype);
  product.shape.rows = x.rows;
  product.shape.out_cols = out_cols;
  product.shape.cols = x.width;
  product.shape.weight_stride = decoded_stride(dtype, x.width);
  product.shape.x_stride = row_stride(x.format, x.width) / element_bytes(dtype);
  product.weight = weight;
  product.x = x.data;
  return product;
}

int64_t f32_stride(const Rows& rows) {
  return row_stride(ActivationFormat::f32, rows.width) / static_cast<int64_t>(sizeof(float));
}

void multiply_segment(const Queue& queue, const LinearArgs& args, const LinearSegment& segment,
                      const LinearScratch& scratch) {
  const PanelMatrix& weight = segment.weight;
  const int64_t limit = slice_limit(weight.dtype, weight.rows, weight.cols);
  const int64_t step = slice_rows(args.x.rows, weight.rows, limit, queue.capabilities->multiprocessors);
  for (int64_t first = 0; first < weight.rows; first += step) {
    const int64_t rows = std::min(step, weight.rows - first);
    launch_decode(queue, {weight, first, rows, scratch.data});
    GemmProduct product = product_of(args.x, weight.dtype, scratch.data, rows);
    product.shape.out_stride = f32_stride(segment.out);
    product.shape.has_bias = segment.bias != nullptr;
    product.shape.has_residual = args.residual != nullptr;
    if (segment.bias != nullptr) product.bias = segment.bias + first;
    if (args.residual != nullptr) product.residual = args.residual + first;
    product.out = segment.out.data + first * static_cast<int64_t>(sizeof(float));
    scratch.gemm->multiply(queue, product);
  }
}

// Whether two segments can be one batched product: K and V, whose products alone would leave most of the card idle.
bool can_pair(const LinearSegment& a, const LinearSegment& b, const LinearScratch& scratch) {
  const int64_t decoded = decoded_row_bytes(a.weight.dtype, a.weight.cols) * round_up(a.weight.rows, kPanelRows);
  return a.weight.rows == b.weight.rows && gemm_is_tf32(a.weight.dtype) == gemm_is_tf32(b.weight.dtype) &&
         a.out.data < b.out.data && (a.bias == nullptr) == (b.bias == nullptr) &&
         (a.bias == nullptr || (a.bias < b.bias && (b.bias - a.bias) % 4 == 0)) &&
         round_up(decoded, kScratchUnit) * 2 <= std::min(scratch.bytes, kSliceBytes);
}

void multiply_pair(const Queue& queue, const LinearArgs& args, const LinearSegment& a, const LinearSegment& b,
                   const LinearScratch& scratch) {
  const PanelMatrix& weight = a.weight;
  const int64_t decoded =
      round_up(decoded_row_bytes(weight.dtype, weight.cols) * round_up(weight.rows, kPanelRows), kScratchUnit);
  const DecodeTask first = {a.weight, 0, weight.rows, scratch.data};
  const DecodeTask second = {b.weight, 0, weight.rows, scratch.data + decoded};
  launch_decode_pair(queue, first, second);
  GemmProduct product = product_of(args.x, weight.dtype, scratch.data, weight.rows);
  product.shape.out_stride = f32_stride(a.out);
  product.shape.has_bias = a.bias != nullptr;
  product.shape.batch = 2;
  product.shape.weight_batch_stride = decoded / element_bytes(weight.dtype);
  product.shape.out_batch_stride = (b.out.data - a.out.data) / static_cast<int64_t>(sizeof(float));
  if (a.bias != nullptr) product.shape.bias_batch_stride = b.bias - a.bias;
  product.bias = a.bias;
  product.out = a.out.data;
  scratch.gemm->multiply(queue, product);
}

// Rows of gate, and of up, in a slice of the gated form.
int64_t glu_limit(tensor::DType dtype, int64_t weight_rows, int64_t cols) {
  return std::min(max_slice_rows(dtype, cols), round_up(2 * weight_rows, kSliceStep));
}

// Whether the gated form's products are kept as bf16 until the activation: where the output is rounded as coarsely.
bool bf16_products(tensor::DType dtype, ActivationFormat out) {
  return !gemm_is_tf32(dtype) && out != ActivationFormat::f32;
}

int64_t glu_weight_bytes(tensor::DType dtype, int64_t weight_rows, int64_t cols) {
  return round_up(glu_limit(dtype, weight_rows, cols) * decoded_row_bytes(dtype, cols), kScratchUnit);
}

void glu_slice(const Queue& queue, const LinearGluArgs& args, const LinearScratch& scratch, int64_t first,
               int64_t columns) {
  const tensor::DType dtype = args.gate.dtype;
  const int64_t padded = round_up(columns, kPanelRows);
  std::byte* up = scratch.data + padded * decoded_row_bytes(dtype, args.gate.cols);
  launch_decode_pair(queue, {args.gate, first, columns, scratch.data}, {args.up, first, columns, up});
  std::byte* products = scratch.data + glu_weight_bytes(dtype, args.gate.rows, args.gate.cols);
  const bool bf16 = bf16_products(dtype, args.out.format);
  for (int64_t row = 0; row < args.x.rows; row += kGluRows) {
    Rows x = args.x;
    x.data += row * row_stride(x.format, x.width);
    x.rows = std::min(kGluRows, args.x.rows - row);
    Rows out = args.out;
    out.data += row * row_stride(out.format, out.width);
    out.rows = x.rows;
    GemmProduct product = product_of(x, dtype, scratch.data, 2 * padded);
    product.shape.bf16_out = bf16;
    product.shape.out_stride = 2 * padded;
    product.out = products;
    scratch.gemm->multiply(queue, product);
    GluColumns glu;
    glu.x = products;
    glu.bf16 = bf16;
    glu.stride = 2 * padded;
    glu.up_column = padded;
    glu.columns = columns;
    if (args.gate_bias != nullptr) glu.gate_bias = args.gate_bias + first;
    if (args.up_bias != nullptr) glu.up_bias = args.up_bias + first;
    glu.activation = args.activation;
    glu.out = out;
    glu.base = first;
    launch_glu_columns(queue, glu);
  }
}

}  // namespace

int64_t gemm_scratch_bytes(tensor::DType dtype, int64_t /*rows*/, int64_t weight_rows, int64_t cols) {
  return round_up(slice_limit(dtype, weight_rows, cols) * decoded_row_bytes(dtype, cols), kScratchUnit);
}

int64_t gemm_glu_scratch_bytes(tensor::DType dtype, int64_t rows, int64_t weight_rows, int64_t cols) {
  // Products may be f32: the output's format is not known here.
  const int64_t products = std::min(rows, kGluRows) * glu_limit(dtype, weight_rows, cols) * 4;
  return glu_weight_bytes(dtype, weight_rows, cols) + round_up(products, kScratchUnit);
}

void launch_gemm_linear(const Queue& queue, const LinearArgs& args, const LinearScratch& scratch) {
  check(args.segments >= 1 && args.segments <= kMaxSegments, "a linear has 1 to 4 segments");
  check(args.residual == nullptr || args.segments == 1, "a residual goes with one segment");
  if (args.x.rows == 0) return;
  for (int i = 0; i < args.segments; ++i) {
    const LinearSegment& segment = args.segment[i];
    const PanelMatrix& weight = segment.weight;
    check_input(args.x, weight.dtype, weight.cols);
    check_scratch(scratch, gemm_scratch_bytes(weight.dtype, args.x.rows, weight.rows, weight.cols));
    check(segment.out.format == ActivationFormat::f32 && segment.out.width == weight.rows &&
              segment.out.rows == args.x.rows,
          "a segment's output is f32, [rows][weight rows]");
  }
  for (int i = 0; i < args.segments; ++i) {
    if (i + 1 < args.segments && can_pair(args.segment[i], args.segment[i + 1], scratch)) {
      multiply_pair(queue, args, args.segment[i], args.segment[i + 1], scratch);
      ++i;
    } else {
      multiply_segment(queue, args, args.segment[i], scratch);
    }
  }
}

void launch_gemm_linear_glu(const Queue& queue, const LinearGluArgs& args, const LinearScratch& scratch) {
  const PanelMatrix& gate = args.gate;
  check(
      gemm_is_tf32(gate.dtype) == gemm_is_tf32(args.up.dtype) && gate.rows == args.up.rows && gate.cols == args.up.cols,
      "gate and up have one shape and read the same rows");
  check_input(args.x, gate.dtype, gate.cols);
  check(args.out.rows == args.x.rows && args.out.width == gate.rows, "a gated output is [rows][weight rows]");
  check_scratch(scratch, gemm_glu_scratch_bytes(gate.dtype, args.x.rows, gate.rows, gate.cols));
  if (args.x.rows == 0) return;
  const int64_t step = slice_rows(std::min(args.x.rows, kGluRows), 2 * gate.rows,
                                  glu_limit(gate.dtype, gate.rows, gate.cols), queue.capabilities->multiprocessors) /
                       2;
  for (int64_t first = 0; first < gate.rows; first += step) {
    glu_slice(queue, args, scratch, first, std::min(step, gate.rows - first));
  }
}

}  // namespace minfer::cuda
