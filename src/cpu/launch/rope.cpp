// The angle table and the preparation of queries and keys, shared out by rows and heads. See rope.hpp.
#include "cpu/launch/rope.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "cpu/launch/rows_kernels.hpp"

namespace minfer::cpu {
namespace {

constexpr int64_t kChunkElements = 2048;  // floats a chunk
constexpr int64_t kChunkAngles = 64;      // sine and cosine in double precision: some microseconds

int64_t per_chunk(int64_t chunk, int64_t elements) {
  return std::max<int64_t>(1, chunk / elements);
}

}  // namespace

void launch_rope_angles(Worker& worker, const RopeAnglesArgs& args) {
  check(args.pairs > 0, "rope angles need pairs");
  worker.parallel_for(args.rows, per_chunk(kChunkAngles, args.pairs), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* out = args.angles + row * args.pairs * 2;
      double magnitude = args.magnitude;
      if (args.temperature != 0.0f) {
        magnitude *= 1.0 + args.temperature * std::log1p(args.positions[row] / args.temperature_length);
      }
      for (int64_t pair = 0; pair < args.pairs; ++pair) {
        const double angle = static_cast<double>(args.positions[row]) * args.inverse_frequencies[pair];
        out[2 * pair] = static_cast<float>(magnitude * std::cos(angle));
        out[2 * pair + 1] = static_cast<float>(magnitude * std::sin(angle));
      }
    }
  });
}

int64_t prepare_heads_grain(int64_t head_dim) {
  return per_chunk(kChunkElements, head_dim);
}

void prepare_heads(const RowKernels& kernels, const PrepareHeadsArgs& args, int64_t begin, int64_t end) {
  const auto rope = args.style == RopeStyle::halves ? kernels.rope_halves : kernels.rope_pairs;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = i / args.heads;
    const int64_t offset = i % args.heads * args.head_dim;
    const float* x = args.x + row * args.x_stride + offset;
    float* out = args.out + row * args.out_stride + offset;
    if (args.weight != nullptr) {
      kernels.rms_norm(x, args.weight, args.head_dim, args.eps, out, Q8Out{});
      x = out;
    }
    if (args.angles != nullptr) rope(x, args.angles + row * args.rotated, args.rotated, args.head_dim, out);
  }
}

void launch_prepare_heads(Isa isa, Worker& worker, const PrepareHeadsArgs& args) {
  check(args.heads > 0 && args.head_dim > 0, "prepare_heads needs heads");
  check(args.weight != nullptr || args.angles != nullptr, "prepare_heads needs a norm or a rotation");
  check(args.angles == nullptr || (args.rotated > 0 && args.rotated % 2 == 0 && args.rotated <= args.head_dim),
        "prepare_heads rotates an even number of elements, at most a head");
  const RowKernels& kernels = row_kernels(isa);
  worker.parallel_for(args.rows * args.heads, prepare_heads_grain(args.head_dim),
                      [&](int64_t begin, int64_t end) { prepare_heads(kernels, args, begin, end); });
}

}  // namespace minfer::cpu
