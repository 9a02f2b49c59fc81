// How the row operations are shared out among threads. See rows.hpp. A chunk is about kChunkElements floats: some
// microseconds of work, against tens of nanoseconds to claim it.
#include "cpu/launch/rows.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "cpu/launch/activation.hpp"

namespace minfer::cpu {
namespace {

// Elements a chunk. A multiple of 64, so that a chunk of columns holds whole blocks of the 8-bit form.
constexpr int64_t kChunkElements = 2048;

int64_t rows_per_chunk(int64_t n) {
  return std::max<int64_t>(1, kChunkElements / n);
}

// Calls task(row, first column, columns) for pieces of at most kChunkElements columns of every row.
template <class Task>
void for_pieces(Worker& worker, int64_t rows, int64_t n, Task task) {
  const int64_t pieces = (n + kChunkElements - 1) / kChunkElements;
  worker.parallel_for(rows * pieces, pieces > 1 ? 1 : rows_per_chunk(n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % pieces * kChunkElements;
      task(i / pieces, column, std::min(kChunkElements, n - column));
    }
  });
}

void check_q8(const std::byte* q8, int64_t n) {
  check(q8 == nullptr || (n % kQ8BlockElements == 0 && reinterpret_cast<uintptr_t>(q8) % alignof(float) == 0),
        "8-bit rows need a multiple of 32 elements and aligned memory");
}

// The place of element `column` (a multiple of 32) in a row of n; clears the padding if [column, column + columns) is
// the row's end.
Q8Out q8_out(std::byte* q8, int64_t row, int64_t n, int64_t column, int64_t columns) {
  if (q8 == nullptr) return {};
  std::byte* base = q8 + row * q8_row_bytes(n);
  int8_t* quants = reinterpret_cast<int8_t*>(base);
  float* scales = reinterpret_cast<float*>(base + q8_quants_bytes(n));
  if (column + columns == n) std::memset(quants + n, 0, static_cast<size_t>(q8_quants_bytes(n) - n));
  const int64_t block = column / kQ8BlockElements;
  return {quants + column, scales + block, scales + n / kQ8BlockElements + block};
}

float* at(float* base, int64_t stride, int64_t row, int64_t column) {
  return base == nullptr ? nullptr : base + row * stride + column;
}

}  // namespace

const RowKernels& row_kernels(Isa isa) {
#if defined(__x86_64__)
  if (is_avx2(isa)) return avx2::row_kernels();
  if (is_avx512(isa)) return avx512::row_kernels();
#endif
  check(isa == Isa::scalar, "no row kernels for this instruction set");
  return scalar::row_kernels();
}

void launch_rms_norm(Isa isa, Worker& worker, const RmsNormArgs& args) {
  const RowKernels& kernels = row_kernels(isa);
  check(args.n > 0 && (args.out != nullptr || args.q8 != nullptr), "rms_norm needs elements and an output");
  check_q8(args.q8, args.n);
  worker.parallel_for(args.rows, rows_per_chunk(args.n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernels.rms_norm(args.x + row * args.x_stride, args.weight, args.n, args.eps,
                       at(args.out, args.out_stride, row, 0), q8_out(args.q8, row, args.n, 0, args.n));
    }
  });
}

void launch_layer_norm(Isa isa, Worker& worker, const LayerNormArgs& args) {
  const RowKernels& kernels = row_kernels(isa);
  check(args.n > 0 && (args.out != nullptr || args.q8 != nullptr), "layer_norm needs elements and an output");
  check(args.group > 0 && args.n % args.group == 0 && (args.q8 == nullptr || args.group == args.n),
        "layer_norm's groups fill a row, which in 8 bits is one");
  check_q8(args.q8, args.n);
  const int64_t groups = args.n / args.group;
  worker.parallel_for(args.rows * groups, rows_per_chunk(args.group), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / groups;
      const int64_t column = i % groups * args.group;
      const int64_t own = args.own_weights ? column : 0;
      kernels.layer_norm(args.x + row * args.x_stride + column, args.weight + own,
                         args.bias == nullptr ? nullptr : args.bias + own, args.group, args.eps,
                         at(args.out, args.out_stride, row, column), q8_out(args.q8, row, args.n, 0, args.n));
    }
  });
}

void launch_quantize(Isa isa, Worker& worker, const QuantizeArgs& args) {
  const RowKernels& kernels = row_kernels(isa);
  check(args.n > 0 && args.q8 != nullptr, "quantize needs elements and an output");
  check_q8(args.q8, args.n);
  for_pieces(worker, args.rows, args.n, [&](int64_t row, int64_t column, int64_t columns) {
    kernels.quantize(args.x + row * args.x_stride + column, columns, q8_out(args.q8, row, args.n, column, columns));
  });
}

void launch_add(Isa isa, Worker& worker, const AddArgs& args) {
  const RowKernels& kernels = row_kernels(isa);
  check(args.n > 0, "add needs elements");
  for_pieces(worker, args.rows, args.n, [&](int64_t row, int64_t column, int64_t columns) {
    kernels.add(args.a + row * args.a_stride + column, args.b + row * args.b_stride + column, columns,
                at(args.out, args.out_stride, row, column));
  });
}

void launch_scale(Isa isa, Worker& worker, const ScaleArgs& args) {
  const RowKernels& kernels = row_kernels(isa);
  check(args.n > 0, "scale needs elements");
  for_pieces(worker, args.rows, args.n, [&](int64_t row, int64_t column, int64_t columns) {
    const float* x = args.x + row * args.x_stride + column;
    float* out = at(args.out, args.out_stride, row, column);
    if (args.cap == 0.0f) {
      kernels.scale(x, args.factor, columns, out);
    } else {
      kernels.softcap(x, args.factor, args.cap, columns, out);
    }
  });
}

void launch_gated(Isa isa, Worker& worker, const GatedArgs& args) {
  const RowKernels& kernels = row_kernels(isa);
  check(args.n > 0 && (args.out != nullptr || args.q8 != nullptr), "gated needs elements and an output");
  check_q8(args.q8, args.n);
  for_pieces(worker, args.rows, args.n, [&](int64_t row, int64_t column, int64_t columns) {
    kernels.gated(args.activation, args.gate + row * args.gate_stride + column, args.up + row * args.up_stride + column,
                  columns, at(args.out, args.out_stride, row, column), q8_out(args.q8, row, args.n, column, columns));
  });
}

void launch_activate(Isa isa, Worker& worker, const ActivateArgs& args) {
  const RowKernels& kernels = row_kernels(isa);
  check(args.n > 0 && (args.out != nullptr || args.q8 != nullptr), "activate needs elements and an output");
  check_q8(args.q8, args.n);
  for_pieces(worker, args.rows, args.n, [&](int64_t row, int64_t column, int64_t columns) {
    kernels.activate(args.activation, args.x + row * args.x_stride + column, columns,
                     at(args.out, args.out_stride, row, column), q8_out(args.q8, row, args.n, column, columns));
  });
}

void launch_argmax(Isa isa, Worker& worker, const ArgmaxArgs& args) {
  const RowKernels& kernels = row_kernels(isa);
  check(args.n > 0 && args.n <= std::numeric_limits<int32_t>::max(), "argmax needs 1 to 2^31 - 1 elements");
  worker.parallel_for(args.rows, rows_per_chunk(args.n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      args.indices[row] = static_cast<int32_t>(kernels.argmax(args.x + row * args.x_stride, args.n));
    }
  });
}

}  // namespace minfer::cpu
