// Cutting of linear products into chunks and what follows a product: bias, residual, gate. See linear.hpp. A chunk's
// products lie on the stack of the thread that computes it (32 KB), then go to the output once.
#include "cpu/launch/linear.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cpu/launch/activation.hpp"
#include "cpu/launch/linear_kernels.hpp"

namespace minfer::cpu {
namespace {

using tensor::DType;

constexpr int64_t kRawRows = 16;            // rows a chunk for the layout raw
constexpr int64_t kSweepRows = 32;          // rows a chunk of many columns: whole q8 blocks
constexpr int64_t kSweepBytes = 768 << 10;  // of activations a chunk: most of an L2 cache
constexpr int64_t kPrefetchColumns = 5;     // and more: their outputs are prefetched
constexpr int64_t kMinSweepColumns = 48;
constexpr int64_t kRunProducts = 2048;  // at once, of chunks that follow each other: a quarter of L1
constexpr int64_t kMaxSweepColumns = kMaxTileProducts / kSweepRows;

LinearTileFn tile_function(Isa isa, DType dtype) {
  switch (isa) {
    case Isa::scalar:
      return scalar::linear_tile(dtype);
#if defined(__x86_64__)
    case Isa::avx2:
      return avx2::linear_tile(dtype);
    case Isa::avxvnni:
      return avxvnni::linear_tile(dtype);
    case Isa::avx512:
      return avx512::linear_tile(dtype);
    case Isa::amx:
      return amx::linear_tile(dtype);
#else
    default:
      break;
#endif
  }
  return nullptr;
}

// A weight with what its kernel needs.
struct Product {
  LinearWeight weight;
  LinearTileFn tile;
  const std::byte* x;
  int64_t x_stride;  // bytes
  int64_t panel_rows;
  int64_t panels;
};

Product make_product(Isa isa, const LinearWeight& weight, const ActivationRows& x) {
  const LinearTileFn tile = tile_function(isa, weight.dtype);
  check(tile != nullptr && linear_layout(isa, weight.dtype) == weight.layout, "linear: a weight without a kernel");
  const bool q8 = linear_reads_q8(isa, weight.dtype);
  check(q8 ? x.q8 != nullptr : x.f32 != nullptr, "linear: activations are not in the weight's form");
  const int64_t stride = q8 ? q8_row_bytes(weight.k) : x.f32_stride * static_cast<int64_t>(sizeof(float));
  const std::byte* rows = q8 ? x.q8 : reinterpret_cast<const std::byte*>(x.f32);
  return {weight, tile, rows, stride, layout_rows(weight.layout), panel_count(weight.layout, weight.rows)};
}

// Asks for the start of what a block reads, all at once: the processor's prefetchers need about 1 us at a new place.
void prefetch_start(const std::byte* panels) {
  constexpr int kLines = 32;
  for (int i = 0; i < kLines; ++i) __builtin_prefetch(panels + 64 * i);
}

// The products of panels [first, first + count) and columns [column, column + columns).
void compute(const Product& product, int64_t first, int64_t count, int64_t column, int64_t columns, float* products) {
  const LinearWeight& weight = product.weight;
  const int64_t stride = panel_bytes(weight.dtype, weight.layout, weight.k);
  prefetch_start(weight.data + first * stride);
  product.tile({weight.dtype, weight.data + first * stride, stride, count, weight.k,
                product.x + column * product.x_stride, product.x_stride, columns, products});
}

struct alignas(kPanelAlignment) Products {
  float values[kMaxTileProducts];
};

// products + bias + residual -> out, for `columns` rows of `count` outputs.
void finish(const LinearTask& task, const float* products, int64_t products_stride, int64_t first, int64_t count,
            int64_t column, int64_t columns) {
  for (int64_t c = 0; c < columns; ++c) {
    const float* in = products + c * products_stride;
    const int64_t at = (column + c) * task.out_stride + first;
    float* out = task.out + at;
    if (task.bias != nullptr && task.residual != nullptr) {
      for (int64_t i = 0; i < count; ++i) out[i] = in[i] + task.bias[first + i] + task.residual[at + i];
    } else if (task.bias != nullptr) {
      for (int64_t i = 0; i < count; ++i) out[i] = in[i] + task.bias[first + i];
    } else if (task.residual != nullptr) {
      for (int64_t i = 0; i < count; ++i) out[i] = in[i] + task.residual[at + i];
    } else {
      std::copy_n(in, count, out);
    }
  }
}

// Asks for the lines of out that a chunk will write: they arrive while it computes. Rows are far apart, so that no
// hardware prefetcher finds them: with few products to a sum this is a fifth of the time.
void prefetch_outputs(const LinearTask& task, int64_t first, int64_t count, int64_t column, int64_t columns) {
  constexpr int64_t kLine = 64 / sizeof(float);
  for (int64_t c = column; c < column + columns; ++c) {
    const float* row = task.out + c * task.out_stride + first;
    for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(row + i, 1, 2);
  }
}

// The chunks of one weight: panels fastest, so that chunks in order share their columns.
struct Chunks {
  LinearCut cut;
  int64_t across;  // chunks along the panels
  int64_t count;
};

Chunks make_chunks(const Product& product, int64_t columns) {
  const LinearCut cut = linear_cut(product.weight.layout, columns, product.x_stride);
  const int64_t across = (product.panels + cut.panels - 1) / cut.panels;
  return {cut, across, across * ((columns + cut.columns - 1) / cut.columns)};
}

// Chunks [first, first + count) of one row of chunks, as panels and columns.
struct Block {
  int64_t first_panel;
  int64_t panels;
  int64_t column;
  int64_t columns;
};

Block block_of(const Chunks& chunks, int64_t first, int64_t count, int64_t all_panels, int64_t all_columns) {
  const int64_t panel = first % chunks.across * chunks.cut.panels;
  const int64_t column = first / chunks.across * chunks.cut.columns;
  return {panel, std::min(count * chunks.cut.panels, all_panels - panel), column,
          std::min(chunks.cut.columns, all_columns - column)};
}

void run_block(const Product& product, const LinearTask& task, const Block& block) {
  const auto [first, count, column, columns] = block;
  const int64_t row = first * product.panel_rows;
  const int64_t rows = std::min(count * product.panel_rows, product.weight.rows - row);
  if (columns >= kPrefetchColumns) prefetch_outputs(task, row, rows, column, columns);
  Products products;
  compute(product, first, count, column, columns, products.values);
  finish(task, products.values, count * product.panel_rows, row, rows, column, columns);
}

// Where the q8 block of outputs from `row` of row `column` goes.
Q8Out q8_at(const GatedLinear& args, int64_t column, int64_t row) {
  if (args.q8 == nullptr) return {};
  std::byte* base = args.q8 + column * q8_row_bytes(args.gate.rows);
  auto* scales = reinterpret_cast<float*>(base + q8_quants_bytes(args.gate.rows));
  const int64_t blocks = args.gate.rows / kQ8BlockElements;
  const int64_t block = row / kQ8BlockElements;
  return {reinterpret_cast<int8_t*>(base) + row, scales + block, scales + blocks + block};
}

void add_bias(const float* bias, int64_t rows, float* products) {
  if (bias == nullptr) return;
  for (int64_t i = 0; i < rows; ++i) products[i] += bias[i];
}

void run_gated_block(const RowKernels& kernels, const GatedLinear& args, const Product& gate, const Product& up,
                     const Block& block) {
  const int64_t row = block.first_panel * gate.panel_rows;
  const int64_t stride = block.panels * gate.panel_rows;
  const int64_t rows = std::min(stride, args.gate.rows - row);
  Products gates;
  Products ups;
  compute(gate, block.first_panel, block.panels, block.column, block.columns, gates.values);
  compute(up, block.first_panel, block.panels, block.column, block.columns, ups.values);
  for (int64_t c = 0; c < block.columns; ++c) {
    float* g = gates.values + c * stride;
    float* u = ups.values + c * stride;
    add_bias(args.gate_bias == nullptr ? nullptr : args.gate_bias + row, rows, g);
    add_bias(args.up_bias == nullptr ? nullptr : args.up_bias + row, rows, u);
    const int64_t column = block.column + c;
    float* out = args.out == nullptr ? nullptr : args.out + column * args.out_stride + row;
    kernels.gated(args.activation, g, u, rows, out, q8_at(args, column, row));
  }
}

// q8 rows are padded with zeros to a multiple of 64 quants.
void clear_padding(const GatedLinear& args, int64_t column, int64_t columns) {
  const int64_t n = args.gate.rows;
  for (int64_t c = column; c < column + columns; ++c) {
    std::byte* base = args.q8 + c * q8_row_bytes(n);
    std::fill(base + n, base + q8_quants_bytes(n), std::byte{0});
  }
}

}  // namespace

bool linear_reads_q8(Isa isa, DType dtype) {
  return isa != Isa::scalar && tensor::dtype_info(dtype).block_elements > 1;
}

LinearCut linear_cut(Layout layout, int64_t columns, int64_t x_row_bytes) {
  if (layout == Layout::raw) return {kRawRows, kMaxTileProducts / kRawRows};
  const int64_t rows = layout_rows(layout);
  if (columns <= kStreamColumns) return {kSweepRows * 2 / rows, columns};
  const int64_t fit = std::clamp(kSweepBytes / x_row_bytes, kMinSweepColumns, kMaxSweepColumns);
  // Even parts, in whole steps of 12 columns where there is more than one part.
  const int64_t parts = (columns + fit - 1) / fit;
  const int64_t part = (columns + parts - 1) / parts;
  return {kSweepRows / rows, parts == 1 ? columns : std::min((part + 11) / 12 * 12, kMaxSweepColumns)};
}

LinearClaims::LinearClaims(int64_t chunks, int64_t threads) : chunks_(chunks), threads_(threads) {
  for (int64_t begin = 0; begin < chunks; begin += size_from(begin)) ++count_;
}

int64_t LinearClaims::size_from(int64_t begin) const {
  return std::max<int64_t>(1, 2 * (chunks_ - begin) / (3 * threads_));
}

LinearClaims::Claim LinearClaims::at(int64_t index) {
  for (; next_ < index; ++next_) begin_ += size_from(begin_);
  return {begin_, begin_ + size_from(begin_)};
}

namespace {

// A part made ready: the same chunks on every thread.
struct LinearJob {
  LinearPart part;
  Product product;
  Chunks chunks;
};

LinearJob make_job(Isa isa, const LinearPart& part) {
  const Product product = make_product(isa, part.task.weight, part.x);
  return {part, product, make_chunks(product, part.x.rows)};
}

void run_job(const RowKernels&, const LinearJob& job, int64_t first, int64_t count) {
  run_block(job.product, job.part.task, block_of(job.chunks, first, count, job.product.panels, job.part.x.rows));
}

struct GatedJob {
  GatedPart part;
  Product gate;
  Product up;
  Chunks chunks;
};

GatedJob make_job(Isa isa, const GatedPart& part) {
  const GatedLinear& args = part.args;
  check(args.gate.rows == args.up.rows && args.gate.k == args.up.k && args.gate.layout == args.up.layout,
        "launch_linear_gated: gate and up differ in shape or layout");
  check(args.q8 == nullptr || args.gate.rows % kQ8BlockElements == 0,
        "launch_linear_gated: q8 output of rows that are no multiple of 32");
  GatedJob job{part, make_product(isa, args.gate, part.x), make_product(isa, args.up, part.x), {}};
  Chunks& chunks = job.chunks;
  chunks = make_chunks(job.gate, part.x.rows);
  if (args.gate.layout == Layout::raw) chunks.cut.panels = kSweepRows;  // whole q8 blocks
  chunks.cut.columns = std::min(chunks.cut.columns, kMaxTileProducts / kSweepRows);
  chunks.across = (job.gate.panels + chunks.cut.panels - 1) / chunks.cut.panels;
  chunks.count = chunks.across * ((part.x.rows + chunks.cut.columns - 1) / chunks.cut.columns);
  return job;
}

void run_job(const RowKernels& kernels, const GatedJob& job, int64_t first, int64_t count) {
  const GatedLinear& args = job.part.args;
  const Block block = block_of(job.chunks, first, count, job.gate.panels, job.part.x.rows);
  run_gated_block(kernels, args, job.gate, job.up, block);
  if (args.q8 != nullptr && block.first_panel == 0) clear_padding(args, block.column, block.columns);
}

// Chunks [begin, end) of a job, as many at once as follow each other along the panels and leave their products in L1.
template <class Job>
void run_chunks(const RowKernels& kernels, const Job& job, int64_t panel_rows, int64_t begin, int64_t end) {
  const Chunks& chunks = job.chunks;
  const int64_t products = chunks.cut.panels * panel_rows * chunks.cut.columns;
  const int64_t most = std::max<int64_t>(1, kRunProducts / products);
  while (begin < end) {
    const int64_t row_end = (begin / chunks.across + 1) * chunks.across;
    const int64_t count = std::min({most, end - begin, row_end - begin});
    run_job(kernels, job, begin, count);
    begin += count;
  }
}

int64_t panel_rows_of(const LinearJob& job) {
  return job.product.panel_rows;
}
int64_t panel_rows_of(const GatedJob& job) {
  return job.gate.panel_rows;
}

// The chunks of all jobs behind one another in one loop. A thread's claims ascend: it makes each job once more.
template <class Part>
void run_parts(Isa isa, Worker& worker, int64_t count, FunctionRef<Part(int64_t)> part) {
  using Job = decltype(make_job(isa, part(0)));
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i) total += make_job(isa, part(i)).chunks.count;
  const RowKernels& kernels = row_kernels(isa);
  Job job{};
  int64_t next = 0;            // part
  int64_t first = 0, end = 0;  // the job's chunks
  LinearClaims claims(total, worker.count());
  worker.parallel_for(claims.count(), 1, [&](int64_t index, int64_t) {
    auto [begin, last] = claims.at(index);
    while (begin < last) {
      while (begin >= end) {
        job = make_job(isa, part(next++));
        first = end;
        end += job.chunks.count;
      }
      const int64_t stop = std::min(last, end);
      run_chunks(kernels, job, panel_rows_of(job), begin - first, stop - first);
      begin = stop;
    }
  });
}

}  // namespace

void launch_linear_parts(Isa isa, Worker& worker, int64_t count, FunctionRef<LinearPart(int64_t)> part) {
  run_parts(isa, worker, count, part);
}

void launch_linear(Isa isa, Worker& worker, const ActivationRows& x, std::span<const LinearTask> tasks) {
  check(!tasks.empty() && tasks.size() <= kMaxLinearTasks, "launch_linear: too few or too many tasks");
  launch_linear_parts(isa, worker, static_cast<int64_t>(tasks.size()),
                      [&](int64_t i) { return LinearPart{x, tasks[static_cast<size_t>(i)]}; });
}

void launch_gated_parts(Isa isa, Worker& worker, int64_t count, FunctionRef<GatedPart(int64_t)> part) {
  run_parts(isa, worker, count, part);
}

void launch_linear_gated(Isa isa, Worker& worker, const ActivationRows& x, const GatedLinear& args) {
  launch_gated_parts(isa, worker, 1, [&](int64_t) { return GatedPart{x, args}; });
}

void launch_pack(Worker& worker, const LinearWeight& weight, const std::byte* source, std::byte* panels) {
  const int64_t rows = layout_rows(weight.layout);
  const int64_t row_bytes = tensor::row_bytes(weight.dtype, weight.k);
  const int64_t count = panel_count(weight.layout, weight.rows);
  worker.parallel_for(count, std::max<int64_t>(1, 32 / rows), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * rows;
    pack_panels(weight.dtype, weight.layout, std::min(end * rows, weight.rows) - first, weight.k,
                source + first * row_bytes, panels + first * row_bytes);
  });
}

}  // namespace minfer::cpu
