// Attention's entry: checks, scratch, and the choice of kernels made in attention_plan.hpp, with or without what
// precedes attention in a decoding step. See attention.hpp.
#include "cuda/launch/attention.hpp"

#include <array>
#include <cmath>

#include "base/error.hpp"
#include "cuda/launch/attention_limits.hpp"
#include "cuda/launch/attention_params.hpp"
#include "cuda/launch/attention_plan.hpp"

namespace minfer::cuda {
namespace {

using graph::KvFormat;

constexpr double kLog2E = 1.4426950408889634;

AttentionShape shape_of(const AttentionArgs& args) {
  return {args.heads,  args.step.row_capacity, args.step.sequence_capacity, args.step.sequence_tokens,
          args.window, args.step.decode};
}

attention::AttentionParams params_of(const AttentionArgs& args, const AttentionPlan& plan) {
  attention::AttentionParams p;
  p.q = reinterpret_cast<const float*>(args.q.data);
  p.q_stride = row_stride(args.q.format, args.q.width) / static_cast<int64_t>(sizeof(float));
  p.out = args.out.data;
  p.out_stride = row_stride(args.out.format, args.out.width);
  p.out_format = args.out.format;
  p.out_width = static_cast<int>(args.out.width);
  p.heads = static_cast<int>(args.heads);
  p.group = static_cast<int>(args.heads / args.kv.kv_heads);
  p.key_size = static_cast<int>(args.kv.key_size);
  p.value_size = static_cast<int>(args.kv.value_size);
  p.window = static_cast<int>(args.window);
  p.causal = args.causal;
  const double scale = static_cast<double>(args.scale);
  const double cap = static_cast<double>(args.softcap);
  p.query_factor = static_cast<float>(cap > 0 ? scale / cap : scale * kLog2E);
  p.cap_factor = static_cast<float>(cap > 0 ? cap * kLog2E : 0);
  p.sinks = args.sinks;
  p.kv = args.kv;
  p.sequences = args.step.sequences;
  p.pages = args.step.pages;
  p.row_sequence = args.step.decode ? nullptr : args.step.row_sequence;
  p.sequence_count = static_cast<int>(args.step.sequence_capacity);
  p.split_rows = static_cast<int>(plan.split_rows);
  p.split_limit = static_cast<int>(plan.split_limit);
  p.split_columns = static_cast<int>(plan.split_columns);
  p.split_stride = static_cast<int>(plan.splits);
  p.chunks = static_cast<int>(plan.chunks);
  p.counters = reinterpret_cast<unsigned*>(args.scratch);
  p.partials = reinterpret_cast<float*>(args.scratch + attention_counter_bytes());
  return p;
}

// Programmer's errors: the executor asks attention_unsupported first.
void check_args(const AttentionArgs& args, const AttentionPlan& plan) {
  check(attention_unsupported(args.kv, args.heads) == nullptr, "attention was launched for heads it does not support");
  check(args.causal || args.window == 0, "a window of attention to a whole sequence");
  check(args.out.format != ActivationFormat::q8 || args.kv.value_size % kQ8Block == 0,
        "attention writes q8 rows of whole blocks a head only");
  check(args.step.sequence_capacity <= attention::kMaxSequences &&
            args.step.sequence_capacity * args.kv.kv_heads * plan.chunks <= attention::kSplitCounters,
        "attention was launched for more sequences than it has counters for");
}

}  // namespace

const attention::FastKernels* attention::find_fast_kernels(KvFormat format) {
  static constexpr std::array kTable{
      FastKernels{KvFormat::f16, &split_shared_bytes_f16, &tile_shared_bytes_f16, &launch_split_f16, &launch_tile_f16},
      FastKernels{KvFormat::bf16, &split_shared_bytes_bf16, &tile_shared_bytes_bf16, &launch_split_bf16,
                  &launch_tile_bf16},
      FastKernels{KvFormat::q8_0, &split_shared_bytes_q8, &tile_shared_bytes_q8, &launch_split_q8, &launch_tile_q8},
  };
  for (const FastKernels& kernels : kTable) {
    if (kernels.format == format) return &kernels;
  }
  return nullptr;
}

const char* attention_unsupported(const KvLayerView& kv, int64_t heads) {
  if (kv.kv_heads <= 0 || heads <= 0 || heads % kv.kv_heads != 0) {
    return "the query heads are not a multiple of the KV heads";
  }
  if (kv.key_size <= 0 || kv.value_size <= 0) return "heads have no elements";
  if (kv.key_size > attention::kMaxHeadSize || kv.value_size > attention::kMaxHeadSize) {
    return "heads have more than 512 elements";
  }
  if (kv.key_format == KvFormat::q8_0 && kv.key_size % 32 != 0) return "q8_0 keys need heads of whole blocks of 32";
  if (kv.value_format == KvFormat::q8_0 && kv.value_size % 32 != 0)
    return "q8_0 values need heads of whole blocks of 32";
  return nullptr;
}

int64_t attention_counter_bytes() {
  return attention::kSplitCounters * static_cast<int64_t>(sizeof(uint32_t));
}

int64_t attention_scratch_bytes(const Capabilities& capabilities, const KvLayerView& kv, int64_t heads, int64_t rows,
                                int64_t sequences, int64_t sequence_tokens, bool decode) {
  return attention_counter_bytes() + attention_partial_bytes(capabilities, kv,
                                                             {.heads = heads,
                                                              .rows = rows,
                                                              .sequences = sequences,
                                                              .sequence_tokens = sequence_tokens,
                                                              .decode = decode});
}

namespace {

attention::FreshRows fresh_rows(const RopeAppendArgs& args) {
  const auto floats = [](const Rows& rows) { return reinterpret_cast<const float*>(rows.data); };
  const auto stride = [](const Rows& rows) { return row_stride(rows.format, rows.width) / 4; };
  return {.k = floats(args.k),
          .v = floats(args.v),
          .angles = floats(args.angles),
          .q_norm = args.q_norm,
          .k_norm = args.k_norm,
          .k_stride = stride(args.k),
          .v_stride = stride(args.v),
          .angles_stride = stride(args.angles),
          .eps = args.eps,
          .rotated = static_cast<int>(args.angles.width),
          .halves = args.style == graph::RopeStyle::halves};
}

void launch_splits(const Queue& queue, const AttentionArgs& args, const AttentionPlan& plan,
                   const attention::AttentionParams& params, bool rotates) {
  attention::SplitGrid grid;
  grid.kv_heads = args.kv.kv_heads;
  grid.wide = plan.wide;
  grid.rotates = rotates;
  grid.few = args.step.sequence_capacity <= attention::kFewSequences;
  grid.chained = rotates && grid.few;
  attention::find_fast_kernels(args.kv.key_format)->launch_split(queue, params, grid);
}

}  // namespace

void launch_attention(const Queue& queue, const AttentionArgs& args) {
  const AttentionPlan plan = plan_attention(*queue.capabilities, args.kv, shape_of(args));
  check_args(args, plan);
  const attention::AttentionParams params = params_of(args, plan);
  if (plan.simple || !args.causal) {
    attention::launch_simple(queue, params, args.q.rows);
    return;
  }
  if (plan.tiles) {
    attention::find_fast_kernels(args.kv.key_format)
        ->launch_tiles(queue, params,
                       {static_cast<unsigned>(args.kv.kv_heads), static_cast<unsigned>(plan.tile_count)});
  }
  if (plan.split) launch_splits(queue, args, plan, params, false);
}

void launch_rope_attention(const Queue& queue, const RopeAppendArgs& rope, const AttentionArgs& args) {
  const AttentionPlan plan = plan_attention(*queue.capabilities, args.kv, shape_of(args));
  if (plan.simple || !args.causal || !args.step.decode) {
    launch_rope_append(queue, rope);
    launch_attention(queue, args);
    return;
  }
  check_args(args, plan);
  attention::AttentionParams params = params_of(args, plan);
  params.q = reinterpret_cast<const float*>(rope.q.data);
  params.q_stride = row_stride(rope.q.format, rope.q.width) / static_cast<int64_t>(sizeof(float));
  params.fresh = fresh_rows(rope);
  launch_splits(queue, args, plan, params, true);
}

}  // namespace minfer::cuda
