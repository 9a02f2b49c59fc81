// The sampler's second kernel: a block a row. Merges the tiles; a greedy row ends there. Else it finds the k best
// logits: groups whose maxima are among the best (by a histogram between the row's largest and the lowest maximum of a
// tile; by bisection where that does not separate them), then their logits, sorted; and runs the stages. A row without
// top-k is tried with the best 256 and the sum of the others; where that does not tell, all its logits are sorted in
// one of a few slots of memory. See params.cuh, stages.cuh.
#include <algorithm>

#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/require.hpp"
#include "cuda/kernels/sampling/stages.cuh"

namespace minfer::cuda {
namespace sampling {
namespace {

constexpr int kKeys = 16384 / kThreads;  // groups a thread holds
constexpr int kMostGroups = kKeys * kThreads;
constexpr int kBins = kThreads;      // of the histogram
constexpr int kMostChosen = 1024;    // groups
constexpr int kMostGathered = 8192;  // logits of chosen groups; at least kMostCandidates groups' all
constexpr int kMostRanked = 512;     // sorted by counting; more by a bitonic sort
constexpr int kManyItems = 4;        // candidates a thread holds in the stages on all logits
static_assert(kMostGathered >= kMostCandidates * kGroup && kMostChosen >= kMostCandidates);
static_assert(kTile / kGroup * kGroup == kTile && kSlots < 32);

struct Shared {
  union {
    uint64_t gathered[kMostGathered];
    SortShared sort;
  };
  uint64_t sorted[kMostCandidates];
  double sums[kMostCandidates];
  double partial[kWarps];
  uint32_t bins[kBins];
  uint16_t chosen[kMostChosen];
  uint32_t counts[2][kWarps];
  TileStats row;
  float lowest;  // of the tiles' largest
  uint32_t chosen_count;
  uint32_t gathered_count;
  int32_t bin;
  uint32_t slot;
};

// Which groups and logits are looked at: those of the first bins, or those from a threshold on.
struct Choice {
  bool by_bin;
  int32_t bin;     // the last one
  uint32_t least;  // ordered()
  int32_t last;    // of the groups of exactly `least`, up to this one
  float largest;   // where bins begin
  float scale;     // bins a unit of logits
};

__device__ __forceinline__ int32_t bin_of(float logit, const Choice& choice) {
  return static_cast<int32_t>(fminf((choice.largest - logit) * choice.scale, static_cast<float>(kBins - 1)));
}

// Tiles in a fixed order, by the first warp.
__device__ inline void merge_tiles(const TileStats* stats, int32_t tiles, float tail, Shared& shared) {
  const auto lane = static_cast<int32_t>(threadIdx.x);
  float largest = -kInfinity;
  float edited = -kInfinity;
  float lowest = kInfinity;
  TileStats row{};
  row.culprit = kNone;
  for (int32_t t = lane; t < tiles; t += 32) {
    const TileStats tile = stats[t];
    largest = fmaxf(largest, tile.largest);
    edited = fmaxf(edited, tile.edited);
    lowest = fminf(lowest, tile.edited);
    row.culprit = min(row.culprit, tile.culprit);
    row.differs |= tile.differs;
    row.broken |= tile.broken;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, step));
    edited = fmaxf(edited, __shfl_xor_sync(kAll, edited, step));
    lowest = fminf(lowest, __shfl_xor_sync(kAll, lowest, step));
  }
  float sum = 0.0F;
  float edited_sum = 0.0F;
  int32_t best = kNone;
  for (int32_t t = lane; t < tiles; t += 32) {
    const TileStats tile = stats[t];
    if (tile.largest > -kInfinity) sum += tile.sum * expf(tile.largest - largest);
    if (tail != 0.0F && tile.edited > -kInfinity) edited_sum += tile.edited_sum * expf((tile.edited - edited) / tail);
    if (tile.edited == edited) best = min(best, tile.best);
  }
  row.largest = largest;
  row.edited = edited;
  row.sum = warp_sum(sum);
  row.edited_sum = warp_sum(edited_sum);
  row.best = __reduce_min_sync(kAll, best);
  row.culprit = __reduce_min_sync(kAll, row.culprit);
  row.differs = static_cast<int32_t>(__any_sync(kAll, row.differs != 0));
  row.broken = static_cast<int32_t>(__any_sync(kAll, row.broken != 0));
  if (lane == 0) {
    shared.row = row;
    shared.lowest = lowest;
  }
}

__device__ __forceinline__ DrawStatus status_of(const TileStats& row, int32_t vocabulary) {
  if (row.culprit != kNone) return DrawStatus::not_finite;
  if (row.largest == -kInfinity) return DrawStatus::no_finite;
  if (row.differs == 0 && vocabulary > 1) return DrawStatus::all_equal;
  if (row.broken != 0 || row.edited == -kInfinity) return DrawStatus::forbidden;
  return DrawStatus::ok;
}

// The groups that this thread holds: thread, thread + kThreads, ...
__device__ __forceinline__ void load_maxima(const float* maxima, int32_t groups, float (&held)[kKeys]) {
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    const int32_t group = j * kThreads + static_cast<int32_t>(threadIdx.x);
    held[j] = group < groups ? maxima[group] : -kInfinity;
  }
}

// Bins that hold at least `wanted` groups, not many more. False where there are none.
__device__ inline bool choose_bins(const float (&held)[kKeys], int32_t groups, uint32_t wanted, Shared& shared,
                                   Choice& choice) {
  const float range = shared.row.edited - shared.lowest;
  choice.by_bin = true;
  choice.largest = shared.row.edited;
  choice.scale = static_cast<float>(kBins / 2) / range;
  if (!(range > 0.0F && choice.scale > 0.0F && choice.scale < kInfinity)) return false;
  shared.bins[threadIdx.x] = 0;
  if (threadIdx.x == 0) shared.bin = kBins - 1;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    if (j * kThreads >= groups) break;
    if (j * kThreads + static_cast<int32_t>(threadIdx.x) < groups) {
      atomicAdd(&shared.bins[bin_of(held[j], choice)], 1U);
    }
  }
  __syncthreads();
  const uint32_t own = shared.bins[threadIdx.x];
  uint32_t total = 0;
  const uint32_t through = block_scan(own, shared.counts[0], total);
  if (through >= wanted && through - own < wanted && through <= kMostChosen) {
    shared.bin = static_cast<int32_t>(threadIdx.x);
  }
  __syncthreads();
  choice.bin = shared.bin;
  return choice.bin < kBins - 1;  // the last one has no end
}

// How many of the groups fulfil a condition on (ordered maximum, index).
template <class Predicate>
__device__ __forceinline__ uint32_t count_groups(const float (&held)[kKeys], int32_t groups,
                                                 uint32_t (&partial)[kWarps], Predicate holds) {
  uint32_t count = 0;
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    if (j * kThreads >= groups) break;
    const int32_t group = j * kThreads + static_cast<int32_t>(threadIdx.x);
    if (group < groups && holds(ordered(held[j]), group)) ++count;
  }
  const uint32_t of_warp = __reduce_add_sync(kAll, count);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = of_warp;
  __syncthreads();
  return __reduce_add_sync(kAll, of_warps(partial));
}

// Exactly `wanted` groups (or all), the first of those in order of maxima, ties by index.
__device__ inline void choose_exactly(const float (&held)[kKeys], int32_t groups, uint32_t wanted, Shared& shared,
                                      Choice& choice) {
  choice.by_bin = false;
  choice.least = 0;
  choice.last = groups - 1;
  if (static_cast<uint32_t>(groups) <= wanted) return;
  uint32_t above = 0;  // groups beyond the threshold's value
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t trial = choice.least | 1U << bit;
    const uint32_t count =
        count_groups(held, groups, shared.counts[bit % 2], [&](uint32_t key, int32_t) { return key >= trial; });
    if (count >= wanted) {
      choice.least = trial;
      if (count == wanted) return;
    } else {
      above = count;
    }
  }
  const uint32_t of_equal = wanted - above;
  int32_t low = 0;
  int32_t high = groups - 1;
  for (int turn = 0; low < high; ++turn) {
    const int32_t middle = (low + high) / 2;
    const uint32_t count = count_groups(held, groups, shared.counts[(turn + 1) % 2], [&](uint32_t key, int32_t group) {
      return key == choice.least && group <= middle;
    });
    if (count >= of_equal) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  choice.last = low;
}

// The edited logit of this lane's token of a group.
__device__ __forceinline__ float gather_logit(const SampleParams& params, const float* logits, const SamplingRow& row,
                                              int32_t group) {
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  const int32_t id = group * kGroup + lane;
  float logit = id < params.vocabulary ? logits[id] : -kInfinity;
  const bool allowed = (mask_word(params, row, group) >> lane & 1U) != 0;
  if (row.edits == 0) return allowed ? logit : -kInfinity;
  const LogitEdit* edits = params.edits + row.first_edit;
  const int32_t from = first_edit_from(edits, row.edits, group * kGroup);
  const int32_t at = from + lane;
  const int32_t token = at < row.edits ? edits[at].token : kNone;
  for (int i = 0; i < kGroup; ++i) {
    const int32_t edited = __shfl_sync(kAll, token, i);
    if (edited >= (group + 1) * kGroup) break;
    if (edited == id) logit = edited_logit(logit, edits[from + i], row);
  }
  return allowed ? logit : -kInfinity;
}

// The chosen groups' logits that may be of the best, unsorted, in shared.gathered. False where there are too many.
__device__ inline bool gather(const SampleParams& params, const float* logits, const SamplingRow& row,
                              const float (&held)[kKeys], const Choice& choice, Shared& shared) {
  if (threadIdx.x == 0) {
    shared.chosen_count = 0;
    shared.gathered_count = 0;
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    if (j * kThreads >= params.groups) break;
    const int32_t group = j * kThreads + static_cast<int32_t>(threadIdx.x);
    if (group >= params.groups) continue;
    const uint32_t key = ordered(held[j]);
    const bool taken = choice.by_bin ? bin_of(held[j], choice) <= choice.bin
                                     : key > choice.least || (key == choice.least && group <= choice.last);
    if (taken) shared.chosen[atomicAdd(&shared.chosen_count, 1U)] = static_cast<uint16_t>(group);
  }
  __syncthreads();
  const uint32_t groups = shared.chosen_count;
  for (uint32_t g = threadIdx.x / 32; g < groups; g += kWarps) {
    const int32_t group = shared.chosen[g];
    const int32_t id = group * kGroup + static_cast<int32_t>(threadIdx.x % 32);
    const float logit = gather_logit(params, logits, row, group);
    const bool taken = id < params.vocabulary &&
                       (choice.by_bin ? bin_of(logit, choice) <= choice.bin : ordered(logit) >= choice.least);
    const uint32_t peers = __ballot_sync(kAll, taken);
    uint32_t place = 0;
    if (threadIdx.x % 32 == 0) place = atomicAdd(&shared.gathered_count, static_cast<uint32_t>(__popc(peers)));
    place = __shfl_sync(kAll, place, 0) + static_cast<uint32_t>(__popc(peers & ((1U << threadIdx.x % 32) - 1)));
    if (taken && place < kMostGathered) shared.gathered[place] = rank_key(logit, id);
  }
  __syncthreads();
  return shared.gathered_count <= kMostGathered;
}

// The first kMostCandidates of up to kMostRanked keys, sorted: each one's place is the number of those before it.
__device__ inline void rank_gathered(Shared& shared, uint32_t count) {
  uint32_t lanes = 32;  // a key
  while (lanes * count > kThreads) lanes /= 2;
  const uint32_t item = threadIdx.x / lanes;
  const uint64_t key = item < count ? shared.gathered[item] : 0;
  uint32_t before = 0;
  for (uint32_t j = threadIdx.x % lanes; j < count; j += lanes) before += shared.gathered[j] < key ? 1 : 0;
  for (uint32_t step = lanes / 2; step > 0; step /= 2) before += __shfl_xor_sync(kAll, before, static_cast<int>(step));
  if (item < count && threadIdx.x % lanes == 0 && before < kMostCandidates) shared.sorted[before] = key;
  __syncthreads();
}

__device__ inline void sort_gathered(Shared& shared, uint32_t count) {
  uint32_t size = kMostRanked;
  while (size < count) size *= 2;
  for (uint32_t i = count + threadIdx.x; i < size; i += kThreads) shared.gathered[i] = UINT64_MAX;
  __syncthreads();
  for (uint32_t run = 2; run <= size; run *= 2) {
    for (uint32_t step = run / 2; step > 0; step /= 2) {
      for (uint32_t pair = threadIdx.x; pair < size / 2; pair += kThreads) {
        const uint32_t low = pair / step * step * 2 + pair % step;
        const uint64_t a = shared.gathered[low];
        const uint64_t b = shared.gathered[low + step];
        if ((a > b) == ((low & run) == 0)) {
          shared.gathered[low] = b;
          shared.gathered[low + step] = a;
        }
      }
      __syncthreads();
    }
  }
  if (threadIdx.x < kMostCandidates) shared.sorted[threadIdx.x] = shared.gathered[threadIdx.x];
  __syncthreads();
}

// The best `wanted` of the row in shared.sorted.
__device__ inline void find_best(const SampleParams& params, const float* logits, const SamplingRow& row,
                                 const float (&held)[kKeys], uint32_t wanted, Shared& shared) {
  Choice choice{};
  if (!choose_bins(held, params.groups, wanted, shared, choice) || !gather(params, logits, row, held, choice, shared)) {
    __syncthreads();
    choose_exactly(held, params.groups, wanted, shared, choice);
    __syncthreads();
    gather(params, logits, row, held, choice, shared);
  }
  const uint32_t count = shared.gathered_count;
  if (count <= kMostRanked) {
    rank_gathered(shared, count);
  } else {
    sort_gathered(shared, count);
  }
}

// A slot of memory for a row's keys. Waits while all are taken: by blocks that run, and so will give theirs back.
__device__ inline uint32_t take_slot(const SampleParams& params, Shared& shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const uint32_t ticket = atomicAdd(&params.tickets->taken, 1U);
    const auto slots = static_cast<uint32_t>(params.slots);
    volatile uint32_t* served = &params.tickets->served[ticket % slots];
    while (*served != ticket / slots) {
    }
    __threadfence();
    shared.slot = ticket % slots;
  }
  __syncthreads();
  return shared.slot;
}
__device__ inline void give_slot(const SampleParams& params, uint32_t slot) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(&params.tickets->served[slot], 1U);
  }
}

// The drawn token with all logits sorted.
__device__ __noinline__ Chosen sample_of_all(const SampleParams& params, const float* logits, int64_t index,
                                             Shared& shared) {
  const SamplingRow row = params.rows[index];
  const uint32_t slot = take_slot(params, shared);
  uint64_t* keys = params.slot_memory + static_cast<int64_t>(slot) * 2 * params.vocabulary;
  uint64_t* other = keys + params.vocabulary;
  for (int32_t id = static_cast<int32_t>(threadIdx.x); id < params.vocabulary; id += kThreads) {
    keys[id] = rank_key(logits[id], id);
  }
  __syncthreads();
  for (int32_t e = static_cast<int32_t>(threadIdx.x); e < row.edits; e += kThreads) {
    const LogitEdit edit = params.edits[row.first_edit + e];
    keys[edit.token] = rank_key(edited_logit(logits[edit.token], edit, row), edit.token);
  }
  __syncthreads();
  if (row.mask >= 0) {
    for (int32_t id = static_cast<int32_t>(threadIdx.x); id < params.vocabulary; id += kThreads) {
      const bool allowed = (mask_word(params, row, id / kGroup) >> (id % kGroup) & 1U) != 0;
      if (!allowed) keys[id] = rank_key(-kInfinity, id);
    }
    __syncthreads();
  }
  sort_keys(keys, other, params.vocabulary, shared.sort);
  Candidates list{};
  list.keys = keys;
  list.sums = reinterpret_cast<double*>(other);
  list.partial = shared.partial;
  const int32_t most = most_candidates(row);
  list.count = most == 0 ? params.vocabulary : min(most, params.vocabulary);
  const Chosen chosen = run_stages<kManyItems>(list, row);
  give_slot(params, slot);
  return chosen;
}

// The drawn token of a row that is not greedy.
__device__ __forceinline__ Chosen draw_token(const SampleParams& params, const float* logits, int64_t index,
                                             const SamplingRow& row, float tail, const float (&held)[kKeys],
                                             Shared& shared) {
  const bool whole = is_whole(row, params.vocabulary);
  Chosen chosen{kNone, 0.0F};
  if (!whole || tail != 0.0F) {
    const int32_t wanted = most_candidates(row);
    const int32_t most = wanted == 0 ? kMostCandidates : min(wanted, kMostCandidates);
    Candidates list{};
    list.keys = shared.sorted;
    list.sums = shared.sums;
    list.partial = shared.partial;
    list.count = min(most, params.vocabulary);
    find_best(params, logits, row, held, static_cast<uint32_t>(list.count), shared);
    chosen = whole ? run_trial<1>(list, row, params.vocabulary, static_cast<double>(shared.row.edited_sum))
                   : run_stages<1>(list, row);
  }
  return chosen.id == kNone ? sample_of_all(params, logits, index, shared) : chosen;
}

__global__ void __launch_bounds__(kThreads, 1) choose_kernel(const __grid_constant__ SampleParams params) {
  extern __shared__ __align__(16) std::byte memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  allow_dependents();
  wait_for_dependencies();
  const auto index = static_cast<int64_t>(blockIdx.x);
  const SamplingRow row = params.rows[index];
  const auto* logits = reinterpret_cast<const float*>(params.logits + index * params.stride);
  const bool greedy = row.temperature == 0.0F;
  if (greedy && threadIdx.x >= 32) return;
  const float tail = tail_temperature(row, params.vocabulary);
  float held[kKeys];
  if (!greedy) load_maxima(params.maxima + index * params.groups, params.groups, held);
  if (threadIdx.x < 32) merge_tiles(params.stats + index * params.tiles, params.tiles, tail, shared);
  if (greedy) {
    __syncwarp();
  } else {
    __syncthreads();
  }
  const DrawStatus status = status_of(shared.row, params.vocabulary);
  Drawn result{0, status, status == DrawStatus::not_finite ? shared.row.culprit : -1, 0.0F, 0.0F};
  if (status == DrawStatus::ok) {
    Chosen chosen{shared.row.best, 1.0F};
    if (!greedy) chosen = draw_token(params, logits, index, row, tail, held, shared);
    result.id = chosen.id;
    if (!greedy && row.mirostat != 0) {
      result.surprise = -static_cast<float>(log2(static_cast<double>(chosen.p)));
    }
    result.logprob = logprob_of(logits[result.id], {shared.row.largest, shared.row.sum});
  }
  if (threadIdx.x != 0) return;
  params.softmax[index] = {shared.row.largest, shared.row.sum};
  params.out[index] = result;
  if (params.mirror != nullptr) (*params.mirror)[index] = result;
}

struct Layout {
  int64_t tiles, groups, slots;
  int64_t softmax, maxima, tickets, slot_memory, bytes;  // offsets; stats are at 0
};
Layout layout_of(int64_t rows, int64_t vocabulary) {
  Layout layout{};
  layout.tiles = (vocabulary + kTile - 1) / kTile;
  layout.groups = (vocabulary + kGroup - 1) / kGroup;
  layout.slots = std::min<int64_t>(rows, kSlots);
  layout.softmax = rows * layout.tiles * static_cast<int64_t>(sizeof(TileStats));
  layout.maxima = layout.softmax + rows * static_cast<int64_t>(sizeof(RowSoftmax));
  layout.tickets = align16(layout.maxima + rows * layout.groups * 4);
  layout.slot_memory = align16(layout.tickets + static_cast<int64_t>(sizeof(SlotTickets)));
  layout.bytes = layout.slot_memory + layout.slots * 2 * vocabulary * 8;
  return layout;
}

}  // namespace
}  // namespace sampling

static_assert(kMaxSampledVocabulary == int64_t{sampling::kMostGroups} * sampling::kGroup);

int64_t sample_scratch_bytes(int64_t rows, int64_t vocabulary) {
  return sampling::layout_of(rows, vocabulary).bytes;
}

void launch_sample(const Queue& queue, const SampleArgs& args) {
  require(args.logits.format == ActivationFormat::f32, "sample reads f32");
  require(args.logits.width >= 1 && args.logits.width <= kMaxSampledVocabulary, "sample's vocabulary");
  require(args.logits.rows <= kMaxSampledRows, "sample's rows");
  if (args.logits.rows == 0) return;
  const sampling::Layout layout = sampling::layout_of(args.logits.rows, args.logits.width);
  sampling::SampleParams params{};
  params.logits = args.logits.data;
  params.stride = row_stride(args.logits.format, args.logits.width);
  params.vocabulary = static_cast<int32_t>(args.logits.width);
  params.tiles = static_cast<int32_t>(layout.tiles);
  params.groups = static_cast<int32_t>(layout.groups);
  params.slots = static_cast<int32_t>(layout.slots);
  params.rows = args.rows;
  params.edits = args.edits;
  params.masks = args.masks;
  params.out = args.out;
  params.mirror = args.mirror;
  params.top = args.top;
  params.softmax = reinterpret_cast<sampling::RowSoftmax*>(args.scratch + layout.softmax);
  params.stats = reinterpret_cast<sampling::TileStats*>(args.scratch);
  params.maxima = reinterpret_cast<float*>(args.scratch + layout.maxima);
  params.tickets = reinterpret_cast<sampling::SlotTickets*>(args.scratch + layout.tickets);
  params.slot_memory = reinterpret_cast<uint64_t*>(args.scratch + layout.slot_memory);
  sampling::launch_tiles(queue, params, args.logits.rows);
  LaunchShape shape;
  shape.grid = dim3(static_cast<uint32_t>(args.logits.rows));
  shape.block = dim3(sampling::kThreads);
  shape.shared_bytes = sizeof(sampling::Shared);
  launch_kernel(queue, "sampling/choose", shape, sampling::choose_kernel, params);
  if (args.top != nullptr) sampling::launch_top(queue, params, args.logits.rows);
}

}  // namespace minfer::cuda
