// The choice of attention kernels. See attention_plan.hpp.
#include "cuda/launch/attention_plan.hpp"

#include <algorithm>

#include "cuda/launch/attention_limits.hpp"
#include "cuda/launch/attention_params.hpp"

namespace minfer::cuda {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Whether there are tensor-core kernels for these heads, and the card has the shared memory for them.
bool has_fast_kernels(const Capabilities& capabilities, const KvLayerView& kv, int64_t group) {
  if (kv.key_size != kv.value_size || kv.key_format != kv.value_format || group > attention::kMaxGroup) return false;
  const attention::FastKernels* kernels = attention::find_fast_kernels(kv.key_format);
  if (kernels == nullptr) return false;
  const int64_t split = kernels->split_shared_bytes(kv.key_size);
  const int64_t tiles = kernels->tile_shared_bytes(kv.key_size, capabilities.major);
  return split > 0 && std::max(split, tiles) <= capabilities.shared_bytes_per_block;
}

// Pages that one sequence's rows can see.
int64_t visible_pages(const AttentionShape& shape, int64_t rows) {
  const int64_t all = ceil_div(shape.sequence_tokens, kKvPageTokens);
  if (shape.window == 0) return all;
  return std::min(all, (shape.window + rows - 2) / kKvPageTokens + 2);
}

void plan_split(const KvLayerView& kv, const AttentionShape& shape, int64_t group, AttentionPlan& plan) {
  int64_t rows = 1;
  if (!shape.decode)
    rows = std::clamp<int64_t>(attention::kSplitRows / shape.sequences, 1, std::max<int64_t>(shape.rows, 1));
  plan.split = true;
  plan.split_rows = rows;
  plan.wide = rows * group > attention::kNarrowColumns;
  const int64_t columns = plan.wide ? attention::kWideColumns : attention::kNarrowColumns;
  plan.split_columns = std::min(columns, rows * group);
  plan.chunks = ceil_div(rows * group, columns);
  // Not of the chunks: a sequence is split alike whatever the capacities.
  plan.split_limit = std::clamp<int64_t>(attention::kSplitBlocks / kv.kv_heads, 8, attention::kMaxSplits);
  plan.splits =
      attention::most_splits(static_cast<int>(visible_pages(shape, rows)), static_cast<int>(plan.split_limit));
}

}  // namespace

AttentionPlan plan_attention(const Capabilities& capabilities, const KvLayerView& kv, const AttentionShape& shape) {
  AttentionPlan plan;
  const int64_t group = shape.heads / kv.kv_heads;
  if (!has_fast_kernels(capabilities, kv, group)) {
    plan.simple = true;
    return plan;
  }
  plan_split(kv, shape, group, plan);
  plan.tiles = !shape.decode && shape.rows > plan.split_rows;
  if (plan.tiles && shape.sequences == 1) {  // a prompt: no launch for the other kernel
    plan.split = false;
    plan.split_rows = 0;
  }
  if (plan.tiles) {
    const int64_t tile_rows =
        (kv.key_size <= attention::kWideHeadSize ? attention::kTileRows : attention::kLargeHeadTileRows) / group;
    plan.tile_count = shape.rows / tile_rows + std::min(shape.sequences, shape.rows);
  }
  return plan;
}

int64_t attention_partial_bytes(const Capabilities& capabilities, const KvLayerView& kv, const AttentionShape& shape) {
  const AttentionPlan plan = plan_attention(capabilities, kv, shape);
  if (!plan.split) return 0;
  return shape.sequences * kv.kv_heads * plan.chunks * plan.splits *
         attention::partial_floats(static_cast<int>(plan.split_columns), static_cast<int>(kv.value_size)) *
         static_cast<int64_t>(sizeof(float));
}

}  // namespace minfer::cuda
