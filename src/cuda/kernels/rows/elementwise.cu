// Rows element by element: convert, glu, activate, scale, adapter_scale, add, and the copies of gather_rows and
// join_heads. Memory-bound: one quad a thread, 16 bytes a load. See launch/rows.hpp.
#include "cuda/kernels/common/activation_math.cuh"
#include "cuda/kernels/common/map_rows.cuh"
#include "cuda/launch/rows.hpp"

namespace minfer::cuda {
namespace {

// f32 rows that an op reads.
struct Source {
  const std::byte* data;
  int64_t stride;
  int64_t width;

  __device__ __forceinline__ float4 quad(int64_t row, int64_t column) const {
    return load_quad(reinterpret_cast<const float*>(data + row * stride), column, width);
  }
};

Source source(const Rows& x) {
  require(x.format == ActivationFormat::f32, "a kernel on rows reads f32");
  return {x.data, row_stride(x.format, x.width), x.width};
}

struct CopyOp {
  Source x;
  __device__ __forceinline__ float4 operator()(int64_t row, int64_t column) const { return x.quad(row, column); }
};

template <graph::Activation kActivation>
struct GluOp {
  Source gate, up;
  __device__ __forceinline__ float4 operator()(int64_t row, int64_t column) const {
    return gated<kActivation>(gate.quad(row, column), up.quad(row, column));
  }
};

template <graph::Activation kActivation>
struct ActivateOp {
  Source x;
  static __device__ __forceinline__ float apply(float value) {
    if constexpr (kActivation == graph::Activation::silu) return silu(value);
    if constexpr (kActivation == graph::Activation::gelu_tanh) return gelu_tanh(value);
    return gelu_erf(value);
  }
  __device__ __forceinline__ float4 operator()(int64_t row, int64_t column) const {
    const float4 quad = x.quad(row, column);
    return make_float4(apply(quad.x), apply(quad.y), apply(quad.z), apply(quad.w));
  }
};

struct ScaleOp {
  Source x;
  float factor;
  float cap;
  __device__ __forceinline__ float apply(float value) const {
    value *= factor;
    return cap == 0.0F ? value : cap * tanhf(value / cap);
  }
  __device__ __forceinline__ float4 operator()(int64_t row, int64_t column) const {
    const float4 quad = x.quad(row, column);
    return make_float4(apply(quad.x), apply(quad.y), apply(quad.z), apply(quad.w));
  }
};

struct AdapterScaleOp {
  Source x;
  const float* scales;
  const int32_t* tokens;
  float factor;
  __device__ __forceinline__ float4 operator()(int64_t row, int64_t column) const {
    const float scale = scales[tokens == nullptr ? row : tokens[row]] * factor;
    if (scale == 0.0F) return make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    const float4 quad = x.quad(row, column);
    return make_float4(quad.x * scale, quad.y * scale, quad.z * scale, quad.w * scale);
  }
};

struct JoinHeadsOp {
  Source a, b;
  HeadSlice first, second;
  __device__ __forceinline__ float element(int64_t row, int64_t column) const {
    const auto size = static_cast<int32_t>(first.size + second.size), at = static_cast<int32_t>(column);
    const int32_t head = at / size, within = at % size;
    const bool is_first = within < first.size;
    const Source& from = is_first ? a : b;
    const HeadSlice& slice = is_first ? first : second;
    const int64_t element = slice.offset + head * slice.stride + within - (is_first ? 0 : first.size);
    return element < from.width ? reinterpret_cast<const float*>(from.data + row * from.stride)[element] : 0.0F;
  }
  __device__ __forceinline__ float4 operator()(int64_t row, int64_t column) const {
    return make_float4(element(row, column), element(row, column + 1), element(row, column + 2),
                       element(row, column + 3));
  }
};

struct AddOp {
  Source a, b;
  __device__ __forceinline__ float4 operator()(int64_t row, int64_t column) const {
    const float4 x = a.quad(row, column);
    const float4 y = b.quad(row, column);
    return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
  }
};

struct GatherOp {
  Source x;
  const int32_t* rows;
  int64_t count;
  __device__ __forceinline__ float4 operator()(int64_t row, int64_t column) const {
    const int32_t from = rows[row];
    if (from < 0 || from >= count) return make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    return x.quad(from, column);
  }
};

void require_same_shape(const Rows& x, const Rows& out) {
  require(x.rows == out.rows && x.width == out.width, "rows of one shape");
}

}  // namespace

void launch_convert(const Queue& queue, const Rows& x, const Rows& out) {
  require_same_shape(x, out);
  launch_map_rows(queue, "rows/convert", CopyOp{source(x)}, out);
}

void launch_glu(const Queue& queue, const GluArgs& args) {
  require_same_shape(args.gate, args.out);
  require_same_shape(args.up, args.out);
  const Source gate = source(args.gate);
  const Source up = source(args.up);
  switch (args.activation) {
    case graph::Activation::silu:
      return launch_map_rows(queue, "rows/glu", GluOp<graph::Activation::silu>{gate, up}, args.out);
    case graph::Activation::gelu_tanh:
      return launch_map_rows(queue, "rows/glu", GluOp<graph::Activation::gelu_tanh>{gate, up}, args.out);
    case graph::Activation::gelu_erf:
      break;
    case graph::Activation::swiglu_oai:
      return launch_map_rows(queue, "rows/glu", GluOp<graph::Activation::swiglu_oai>{gate, up}, args.out);
  }
  require(false, "a gate function with a kernel");
}

void launch_activate(const Queue& queue, const Rows& x, graph::Activation activation, const Rows& out) {
  require_same_shape(x, out);
  const Source from = source(x);
  switch (activation) {
    case graph::Activation::silu:
      return launch_map_rows(queue, "rows/activate", ActivateOp<graph::Activation::silu>{from}, out);
    case graph::Activation::gelu_tanh:
      return launch_map_rows(queue, "rows/activate", ActivateOp<graph::Activation::gelu_tanh>{from}, out);
    case graph::Activation::gelu_erf:
      return launch_map_rows(queue, "rows/activate", ActivateOp<graph::Activation::gelu_erf>{from}, out);
    case graph::Activation::swiglu_oai:
      break;
  }
  require(false, "an activation of ungated layers");
}

void launch_scale(const Queue& queue, const Rows& x, float factor, float cap, const Rows& out) {
  require_same_shape(x, out);
  require(out.format == ActivationFormat::f32, "scale gives f32");
  launch_map_rows(queue, "rows/scale", ScaleOp{source(x), factor, cap}, out);
}

void launch_adapter_scale(const Queue& queue, const AdapterScaleArgs& args) {
  require_same_shape(args.x, args.out);
  require(args.out.format == ActivationFormat::f32 && args.scales != nullptr, "an adapter's share is f32");
  launch_map_rows(queue, "rows/adapter_scale", AdapterScaleOp{source(args.x), args.scales, args.tokens, args.factor},
                  args.out);
}

void launch_add(const Queue& queue, const Rows& a, const Rows& b, const Rows& out) {
  require_same_shape(a, out);
  require_same_shape(b, out);
  require(out.format == ActivationFormat::f32, "add gives f32");
  launch_map_rows(queue, "rows/add", AddOp{source(a), source(b)}, out);
}

void launch_join_heads(const Queue& queue, const JoinHeadsArgs& args) {
  const int64_t size = args.first.size + args.second.size;
  require(args.a.rows == args.out.rows && args.b.rows == args.out.rows && size > 0 && args.out.width % size == 0 &&
              args.out.format == ActivationFormat::f32 && args.out.width <= INT32_MAX,
          "joined heads are f32 of one height");
  launch_map_rows(queue, "rows/join_heads", JoinHeadsOp{source(args.a), source(args.b), args.first, args.second},
                  args.out);
}

void launch_gather_rows(const Queue& queue, const Rows& x, const int32_t* rows, const Rows& out) {
  require(x.width == out.width && out.format == ActivationFormat::f32, "gathered rows are f32 of one width");
  launch_map_rows(queue, "rows/gather", GatherOp{source(x), rows, x.rows}, out);
}

}  // namespace minfer::cuda
