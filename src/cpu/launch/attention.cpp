// Plans and runs attention with the kernels of an instruction set. See attention.hpp.
// Rows are cut into tiles of one sequence. A tile with many query vectors is one work item a KV head, which walks its
// chunks in order; a tile with few (decode) is one work item a KV head and chunk, whose partial results lie in scratch
// until a second loop merges them in the same order. Every thread makes the same plan for itself: that costs less than
// a barrier. Tiles whose partial results exceed the scratch go in waves, one after the other.
#include "cpu/launch/attention.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "cpu/launch/activation.hpp"
#include "cpu/launch/attention_kernels.hpp"

namespace minfer::cpu {
namespace {

constexpr int64_t kTileVectors =
    96;  // query vectors a tile aims at: packed queries, scores and values fit a 1 MiB cache
constexpr int64_t kSplitVectors = 16;                // tiles up to this many vectors are split by chunks
constexpr int64_t kPartialBytes = int64_t{8} << 20;  // partial results a wave, where one row's do not need more
constexpr int64_t kGrainsPerThread = 8;  // a thread claims several work items at once, to prefetch across them
constexpr int64_t kMostGrain = 4;
constexpr int64_t kFloatBytes = 4;
constexpr int64_t kLine = 64;
constexpr std::string_view kScratch = "bytes of attention scratch";

struct Tile {
  int64_t first_row;
  int64_t rows;
  int64_t first_page;
  int64_t first_chunk;
  int64_t chunks;
  int64_t item;     // its first work item in the wave
  int64_t partial;  // split: floats from the start of the partials to its own; else -1
  bool split() const { return partial >= 0; }
};

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

int64_t chunk_count(int64_t tokens) {
  return (tokens + kAttentionChunkTokens - 1) / kAttentionChunkTokens;
}

// Sizes that follow from a spec, in floats where not said otherwise.
struct Sizes {
  explicit Sizes(const AttentionSpec& spec)
      : group(spec.heads / spec.kv.kv_heads),
        tile_vectors(std::max(attention_tile_rows(group) * group, kSplitVectors)),
        value_stride(round_up(spec.kv.head_dim_v, 16)) {}
  // A block of maximum, sum and values for `vectors`.
  int64_t partial(int64_t vectors) const { return round_up(2 * vectors, 16) + vectors * value_stride; }

  int64_t group;
  int64_t tile_vectors;
  int64_t value_stride;
};

// Where things lie in the scratch buffer: the partials, then one region a thread.
struct ScratchLayout {
  ScratchLayout(const AttentionSpec& spec, const AttentionCapacity& capacity) {
    const auto mul = [](int64_t a, int64_t b) { return checked_multiply(a, b, kScratch); };
    const auto add = [](int64_t a, int64_t b) { return checked_add(a, b, kScratch); };
    const auto line = [](int64_t bytes) { return checked_round_up(bytes, kLine, kScratch); };
    const Sizes sizes(spec);
    const int64_t row = mul(mul(spec.kv.kv_heads, chunk_count(capacity.sequence_tokens)),
                            sizes.partial(std::max(kSplitVectors, sizes.group)));
    partials = std::max(row, std::min(mul(row, capacity.rows), kPartialBytes / kFloatBytes));
    query = line(mul(capacity.rows, static_cast<int64_t>(sizeof(Tile))));
    scores = add(query, line(mul(mul(sizes.tile_vectors, spec.kv.head_dim_k), kFloatBytes)));
    scales = add(scores, mul(mul(sizes.tile_vectors, kAttentionChunkTokens), kFloatBytes));
    next = add(scales, mul(mul(kKvPageTokens, spec.kv.head_dim_v / kKvBlockElements), kFloatBytes));
    const int64_t block_bytes = mul(sizes.partial(sizes.tile_vectors), kFloatBytes);
    total = add(next, block_bytes);
    const int64_t scalar_bytes = line(mul(capacity.sequence_tokens, static_cast<int64_t>(sizeof(double))));
    thread_bytes = std::max(add(total, block_bytes), scalar_bytes);
    total_bytes = add(mul(partials, kFloatBytes), mul(thread_bytes, capacity.threads));
  }

  int64_t partials;  // floats
  // Byte offsets in a thread's region; its tiles are at 0.
  int64_t query;
  int64_t scores;
  int64_t scales;
  int64_t next;
  int64_t total;
  int64_t thread_bytes;
  int64_t total_bytes;
};

AttentionPartial partial_at(float* block, int64_t vectors) {
  return {block, block + vectors, block + round_up(2 * vectors, 16)};
}

const AttentionKernels* kernels_of(Isa isa) {
#if defined(__x86_64__)
  if (is_avx2(isa)) return &avx2::kAttentionKernels;
  if (is_avx512(isa)) return &avx512::kAttentionKernels;
#endif
  return nullptr;
}

// One thread's run of one call.
class AttentionRun {
 public:
  AttentionRun(Worker& worker, const AttentionArgs& args, const AttentionCapacity& capacity, std::byte* scratch)
      : worker_(worker), args_(args), sizes_(args.spec), layout_(args.spec, capacity), group_(sizes_.group) {
    partials_ = reinterpret_cast<float*>(scratch);
    region_ = scratch + layout_.partials * kFloatBytes + layout_.thread_bytes * worker.index();
    tiles_ = reinterpret_cast<Tile*>(region_);
    work_ = {reinterpret_cast<float*>(region_ + layout_.query), reinterpret_cast<float*>(region_ + layout_.scores),
             reinterpret_cast<float*>(region_ + layout_.scales)};
  }

  void run_vector(const AttentionKernels& kernels) {
    plan_tiles();
    for (int64_t begin = 0; begin < tile_count_;) {
      const int64_t end = plan_wave(begin);
      wave_begin_ = begin;
      wave_end_ = end;
      run_wave(kernels);
      begin = end;
    }
  }

  void run_scalar() {
    const AttentionSpec& spec = args_.spec;
    worker_.parallel_for(args_.rows * spec.heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t row = item / spec.heads;
        const int64_t head = item % spec.heads;
        AttentionJob job = job_of(row, 1, head / group_);
        job.q += head % group_ * spec.kv.head_dim_k;
        job.group = 1;
        float* out = reinterpret_cast<float*>(args_.out + row * args_.out_stride) + head * spec.kv.head_dim_v;
        scalar::attend(job, spec.sinks == nullptr ? nullptr : spec.sinks + head, reinterpret_cast<double*>(region_),
                       out);
      }
    });
  }

 private:
  // The positions that a stretch of rows needs, as chunks.
  void set_chunks(Tile& tile) const {
    int64_t begin = INT64_MAX;
    int64_t end = 0;
    for (int64_t row = tile.first_row; row < tile.first_row + tile.rows; ++row) {
      const int64_t position = args_.row_position[row];
      check(position >= 0 && position < args_.sequences[args_.row_sequence[row]].tokens, "attention: row position");
      begin = std::min(begin, args_.spec.window > 0 ? std::max<int64_t>(0, position - args_.spec.window + 1) : 0);
      end = std::max(end, position + 1);
    }
    tile.first_page = begin / kKvPageTokens;
    tile.first_chunk = begin / kAttentionChunkTokens;
    tile.chunks = chunk_count(end) - tile.first_chunk;
  }

  // A tile's positions are consecutive or the same, so that every page between its first and last is seen by one of its
  // rows.
  bool follows(int64_t row) const {
    const int32_t step = args_.row_position[row] - args_.row_position[row - 1];
    return args_.row_sequence[row] == args_.row_sequence[row - 1] && (step == 0 || step == 1);
  }

  void plan_tiles() {
    const int64_t tile_rows = attention_tile_rows(group_);
    for (int64_t row = 0; row < args_.rows;) {
      int64_t end = row + 1;
      while (end < args_.rows && end - row < tile_rows && follows(end)) ++end;
      Tile& tile = tiles_[tile_count_++];
      tile = {row, end - row, 0, 0, 0, 0, -1};
      set_chunks(tile);
      row = end;
    }
  }

  int64_t partial_floats(const Tile& tile) const {
    return args_.spec.kv.kv_heads * tile.chunks * sizes_.partial(tile.rows * group_);
  }

  // Numbers the work items of as many tiles from `begin` on as the partials have room for; returns their end.
  int64_t plan_wave(int64_t begin) {
    int64_t partial = 0;
    items_ = 0;
    any_split_ = false;
    int64_t at = begin;
    for (; at < tile_count_; ++at) {
      Tile& tile = tiles_[at];
      const bool split = prefers_split_attention(tile.rows * group_, tile.chunks);
      if (split && partial + partial_floats(tile) > layout_.partials) {
        check(at > begin, "attention: scratch is too small for one tile");
        break;
      }
      tile.item = items_;
      tile.partial = split ? partial : -1;
      items_ += args_.spec.kv.kv_heads * (split ? tile.chunks : 1);
      if (split) partial += partial_floats(tile);
      any_split_ = any_split_ || split;
    }
    return at;
  }

  void run_wave(const AttentionKernels& kernels) {
    // Last item first: later tiles of a prompt see more positions, and long items should not come last.
    const int64_t grain = std::clamp<int64_t>(items_ / (kGrainsPerThread * worker_.count()), 1, kMostGrain);
    worker_.parallel_for(items_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) run_item(kernels, items_ - 1 - item, item + 1 < end);
    });
    if (!any_split_) return;
    const int64_t kv_heads = args_.spec.kv.kv_heads;
    worker_.parallel_for((wave_end_ - wave_begin_) * kv_heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const Tile& tile = tiles_[wave_begin_ + item / kv_heads];
        if (tile.split()) merge_split(kernels, tile, item % kv_heads);
      }
    });
  }

  AttentionJob job_of(int64_t first_row, int64_t rows, int64_t kv_head) const {
    const AttentionSpec& spec = args_.spec;
    AttentionJob job{};
    job.q = args_.q + first_row * args_.q_stride + kv_head * group_ * spec.kv.head_dim_k;
    job.q_stride = args_.q_stride;
    job.positions = args_.row_position + first_row;
    job.rows = rows;
    job.group = group_;
    job.head_dim_k = spec.kv.head_dim_k;
    job.head_dim_v = spec.kv.head_dim_v;
    job.value_stride = sizes_.value_stride;
    job.scale = spec.scale;
    job.softcap = spec.softcap;
    job.window = spec.window;
    job.k_format = spec.kv.k_format;
    job.v_format = spec.kv.v_format;
    job.k = args_.k_base + kv_head * kv_head_bytes(spec.kv.k_format, spec.kv.head_dim_k);
    job.v = args_.v_base + kv_head * kv_head_bytes(spec.kv.v_format, spec.kv.head_dim_v);
    if (kv_has_scales(spec.kv.k_format)) job.k_scales = kv_elements_bytes(spec.kv.k_format, spec.kv.head_dim_k);
    if (kv_has_scales(spec.kv.v_format)) job.v_scales = kv_elements_bytes(spec.kv.v_format, spec.kv.head_dim_v);
    job.k_page_stride = args_.k_page_stride;
    job.v_page_stride = args_.v_page_stride;
    job.pages = args_.sequences[args_.row_sequence[first_row]].pages;
    return job;
  }

  AttentionPartial split_partial(const Tile& tile, int64_t kv_head, int64_t chunk) const {
    const int64_t vectors = tile.rows * group_;
    return partial_at(partials_ + tile.partial + (kv_head * tile.chunks + chunk) * sizes_.partial(vectors), vectors);
  }

  AttentionPartial empty_total(int64_t vectors) const {
    float* block = reinterpret_cast<float*>(region_ + layout_.total);
    std::fill_n(block, sizes_.partial(vectors), 0.0F);
    return partial_at(block, vectors);
  }

  // A work item: a tile, one KV head and, where split, one chunk of the tile.
  struct Item {
    const Tile* tile;
    int64_t kv_head;
    int64_t chunk;
  };
  Item item_at(int64_t index) const {
    const Tile* after = std::upper_bound(tiles_ + wave_begin_, tiles_ + wave_end_, index,
                                         [](int64_t value, const Tile& tile) { return value < tile.item; });
    const Tile* tile = after - 1;
    const int64_t local = index - tile->item;
    if (!tile->split()) return {tile, local, 0};
    return {tile, local / tile->chunks, local % tile->chunks};
  }

  // The first keys that an item reads.
  const std::byte* keys_of(const AttentionJob& job, const Tile& tile, int64_t chunk) const {
    const int64_t page = std::max((tile.first_chunk + chunk) * kAttentionChunkPages, tile.first_page);
    return job.k + job.pages[page] * job.k_page_stride;
  }

  // `more`: the item before `index` follows.
  void run_item(const AttentionKernels& kernels, int64_t index, bool more) {
    const Item item = item_at(index);
    const Tile& tile = *item.tile;
    const AttentionJob job = job_of(tile.first_row, tile.rows, item.kv_head);
    const std::byte* after = nullptr;
    if (more) {
      const Item next = item_at(index - 1);
      after = keys_of(job_of(next.tile->first_row, next.tile->rows, next.kv_head), *next.tile, next.chunk);
    }
    kernels.pack(job, work_);
    if (tile.split()) {
      kernels.chunk(job, work_, tile.first_chunk + item.chunk, after, split_partial(tile, item.kv_head, item.chunk));
      return;
    }
    const int64_t vectors = tile.rows * group_;
    const AttentionPartial total = empty_total(vectors);
    const AttentionPartial next = partial_at(reinterpret_cast<float*>(region_ + layout_.next), vectors);
    for (int64_t chunk = 0; chunk < tile.chunks; ++chunk) {
      const bool last = chunk + 1 == tile.chunks;
      kernels.chunk(job, work_, tile.first_chunk + chunk, last ? after : keys_of(job, tile, chunk + 1), next);
      kernels.merge(job, total, next);
    }
    finish_all(kernels, tile, item.kv_head, total);
  }

  void merge_split(const AttentionKernels& kernels, const Tile& tile, int64_t kv_head) {
    const AttentionJob job = job_of(tile.first_row, tile.rows, kv_head);
    const AttentionPartial total = empty_total(tile.rows * group_);
    for (int64_t chunk = 0; chunk < tile.chunks; ++chunk) {
      kernels.merge(job, total, split_partial(tile, kv_head, chunk));
    }
    finish_all(kernels, tile, kv_head, total);
  }

  AttentionTarget target_of(int64_t row, int64_t head) const {
    const AttentionSpec& spec = args_.spec;
    const int64_t dim = spec.kv.head_dim_v;
    std::byte* out = args_.out + row * args_.out_stride;
    AttentionTarget target{};
    target.sink = spec.sinks == nullptr ? nullptr : spec.sinks + head;
    if (spec.output == AttentionOutput::f32) {
      target.f32 = reinterpret_cast<float*>(out) + head * dim;
      return target;
    }
    const int64_t width = spec.heads * dim;
    auto* quants = reinterpret_cast<int8_t*>(out);
    if (head == spec.heads - 1) std::fill(quants + width, quants + q8_quants_bytes(width), int8_t{0});
    const int64_t blocks = dim / kQ8BlockElements;
    target.quants = quants + head * dim;
    target.scales = reinterpret_cast<float*>(out + q8_quants_bytes(width)) + head * blocks;
    target.sums = target.scales + width / kQ8BlockElements;
    return target;
  }

  void finish_all(const AttentionKernels& kernels, const Tile& tile, int64_t kv_head,
                  const AttentionPartial& total) const {
    for (int64_t i = 0; i < tile.rows * group_; ++i) {
      kernels.finish(args_.spec.kv.head_dim_v, total.maximum[i], total.sum[i], total.values + i * sizes_.value_stride,
                     target_of(tile.first_row + i / group_, kv_head * group_ + i % group_));
    }
  }

  Worker& worker_;
  const AttentionArgs& args_;
  const Sizes sizes_;
  const ScratchLayout layout_;
  const int64_t group_;
  float* partials_;
  std::byte* region_;
  Tile* tiles_;
  AttentionWork work_;
  int64_t tile_count_ = 0;
  int64_t wave_begin_ = 0;
  int64_t wave_end_ = 0;
  int64_t items_ = 0;
  bool any_split_ = false;
};

}  // namespace

bool supports_attention(Isa isa, const AttentionSpec& spec) {
  const KvLayerSpec& kv = spec.kv;
  if (kv.kv_heads < 1 || kv.head_dim_k < 1 || kv.head_dim_v < 1 || spec.heads < 1) return false;
  if (spec.heads % kv.kv_heads != 0) return false;
  if (!kv_format_fits(kv.k_format, kv.head_dim_k) || !kv_format_fits(kv.v_format, kv.head_dim_v)) return false;
  if (isa == Isa::scalar) return spec.output == AttentionOutput::f32;
  return kv.head_dim_v % (spec.output == AttentionOutput::q8 ? kQ8BlockElements : 8) == 0;
}

int64_t attention_tile_rows(int64_t group) {
  return std::max<int64_t>(1, kTileVectors / group);
}

bool prefers_split_attention(int64_t tile_vectors, int64_t chunks) {
  return tile_vectors <= kSplitVectors && chunks > 1;
}

int64_t attention_scratch_bytes(const AttentionSpec& spec, const AttentionCapacity& capacity) {
  return ScratchLayout(spec, capacity).total_bytes;
}

void launch_attention(Isa isa, Worker& worker, const AttentionArgs& args, const AttentionCapacity& capacity,
                      std::span<std::byte> scratch) {
  check(supports_attention(isa, args.spec), "attention: unsupported spec");
  check(args.rows <= capacity.rows && worker.count() <= capacity.threads, "attention: step beyond its capacity");
  check(static_cast<int64_t>(scratch.size()) >= attention_scratch_bytes(args.spec, capacity),
        "attention: scratch is too small");
  AttentionRun run(worker, args, capacity, scratch.data());
  const AttentionKernels* kernels = kernels_of(isa);
  if (kernels == nullptr) {
    run.run_scalar();
  } else {
    run.run_vector(*kernels);
  }
}

}  // namespace minfer::cpu
