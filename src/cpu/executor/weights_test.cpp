// Loading of weights: what is asked of the file's pages, and in which order. The values are tested with the kernels and
// whole models.
#include "cpu/executor/weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace minfer::cpu {
namespace {

using Events = std::vector<std::string>;

// `count` F32 vectors of 1024, which every instruction set copies, over the same data; they note what is done with
// their pages.
std::vector<graph::WeightSource> noted_sources(size_t count, const std::vector<float>& data, Events& events) {
  std::vector<graph::WeightSource> sources;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = std::to_string(i);
    graph::WeightSource& source = sources.emplace_back();
    source.shape = {name, 1, 1024};
    source.dtype = tensor::DType::f32;
    source.role = graph::WeightRole::vector;
    source.data = std::as_bytes(std::span(data));
    source.prefetch = [&events, name] { events.push_back("prefetch " + name); };
    source.release = [&events, name] { events.push_back("release " + name); };
  }
  return sources;
}

size_t index_of(const Events& events, const std::string& event) {
  return static_cast<size_t>(std::find(events.begin(), events.end(), event) - events.begin());
}

TEST(CpuWeights, EveryWeightIsReadAheadOnceBeforeItIsPacked) {
  const std::vector<float> data(1024, 1.0F);
  for (const size_t count : {1, 3, 4, 5, 9}) {
    Events events;
    const auto sources = noted_sources(count, data, events);
    ThreadPool pool(1);
    const CpuWeights weights(choose_isa(""), pool, sources, {});
    ASSERT_EQ(events.size(), 2 * count);
    for (size_t i = 0; i < count; ++i) {
      const size_t read = index_of(events, "prefetch " + std::to_string(i));
      const size_t packed = index_of(events, "release " + std::to_string(i));
      ASSERT_LT(packed, events.size()) << i << " of " << count;
      EXPECT_LT(read, packed) << i << " of " << count;
    }
    EXPECT_EQ(events.front(), "prefetch 0");
  }
}

TEST(CpuWeights, ProgressEndsAtTheWhole) {
  const std::vector<float> data(1024, 1.0F);
  Events events;
  const auto sources = noted_sources(3, data, events);
  ThreadPool pool(1);
  std::vector<int64_t> done;
  int64_t planned = 0;
  for (const auto& source : sources) {
    planned += choose_weight_layout(Isa::scalar, source.shape, source.dtype, source.role).bytes;
  }
  const CpuWeights weights(Isa::scalar, pool, sources, [&](int64_t at, int64_t total) {
    EXPECT_EQ(total, planned);
    done.push_back(at);
  });
  EXPECT_EQ(done, (std::vector<int64_t>{planned / 3, 2 * planned / 3, planned}));
}

}  // namespace
}  // namespace minfer::cpu
