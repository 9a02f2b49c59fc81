// launch_stage against plain loops: what is fetched, tokens drawn before, and edits with a token counted once more.
#include "cuda/launch/stage.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/launch/test_device.hpp"

namespace minfer::cuda {
namespace {

using Random = std::mt19937;

int32_t below(Random& random, int32_t n) {
  return static_cast<int32_t>(random() % static_cast<uint32_t>(n));
}

// Pinned memory, poisoned.
class Pinned {
 public:
  explicit Pinned(size_t bytes) {
    check_status(cudaMallocHost(&data_, bytes), "test/pinned");
    std::memset(data_, 0xFF, bytes);
  }
  ~Pinned() { cudaFreeHost(data_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  template <class T>
  T* at(int64_t offset) const {
    return reinterpret_cast<T*>(data() + offset);
  }

 private:
  void* data_ = nullptr;
};

std::vector<LogitEdit> some_edits(Random& random, int32_t count, int32_t vocabulary) {
  std::vector<LogitEdit> edits;
  for (int32_t i = 0; i < count; ++i) {
    edits.push_back({below(random, vocabulary), static_cast<float>(i), below(random, 3), 0.5F});
  }
  std::sort(edits.begin(), edits.end(), [](const LogitEdit& a, const LogitEdit& b) { return a.token < b.token; });
  const auto same = [](const LogitEdit& a, const LogitEdit& b) { return a.token == b.token; };
  edits.erase(std::unique(edits.begin(), edits.end(), same), edits.end());
  return edits;
}

std::vector<LogitEdit> counted_once_more(std::vector<LogitEdit> edits, int32_t token) {
  for (LogitEdit& edit : edits) {
    if (edit.token == token) {
      ++edit.count;
      return edits;
    }
  }
  const auto place =
      std::find_if(edits.begin(), edits.end(), [&](const LogitEdit& edit) { return edit.token > token; });
  edits.insert(place, {token, 0.0F, 1, 0.0F});
  return edits;
}

// A step of `tokens` ids, `more` ints behind them, and a row for each of `counts`, with so many edits.
void expect_staged(Random& random, int64_t tokens, int64_t more, const std::vector<int32_t>& counts) {
  constexpr int32_t kVocabulary = 300;  // small: drawn tokens are often among the edits
  constexpr int64_t kDrawn = 9;
  std::vector<Drawn> drawn(kDrawn);
  for (Drawn& d : drawn) d = {below(random, kVocabulary), DrawStatus::ok, -1, 0.0F, 0.0F};
  const auto align = [](int64_t bytes) { return (bytes + 15) / 16 * 16; };
  const auto rows = static_cast<int64_t>(counts.size());
  StageArgs args;
  args.bytes = align((tokens + more) * 4);
  args.tokens = tokens;
  args.draws_offset = args.bytes + 64;
  args.draws = rows;
  args.edits_offset = args.draws_offset + rows * static_cast<int64_t>(sizeof(SamplingRow));
  const auto bytes = static_cast<size_t>(args.edits_offset) + counts.size() * kMostRowEdits * sizeof(LogitEdit);
  const Pinned host(bytes);
  auto* ints = host.at<int32_t>(0);
  for (int64_t i = 0; i < tokens; ++i) {
    ints[i] = random() % 2 == 0 ? below(random, kVocabulary) : graph::kNoOutput - below(random, kDrawn);
  }
  for (int64_t i = tokens; i < args.bytes / 4; ++i) ints[i] = below(random, 9) - 4;
  std::vector<std::vector<LogitEdit>> expected;
  int32_t used = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const bool counted = random() % 3 != 0;
    const int32_t most = static_cast<int32_t>(kMostRowEdits) - (counted ? 1 : 0);
    auto edits = some_edits(random, std::min(counts[static_cast<size_t>(r)], most), kVocabulary);
    const auto count = static_cast<int32_t>(edits.size());
    SamplingRow row{};
    row.first_edit = used;
    row.edits = count;
    row.counted = counted ? below(random, kDrawn) : -1;
    row.uniform = static_cast<double>(r);
    host.at<SamplingRow>(args.draws_offset)[r] = row;
    std::copy(edits.begin(), edits.end(), host.at<LogitEdit>(args.edits_offset) + used);
    used += count + (counted ? 1 : 0);
    expected.push_back(counted ? counted_once_more(edits, drawn[static_cast<size_t>(row.counted)].id) : edits);
  }
  const TestQueue queue(true);
  const TestArray device(static_cast<int64_t>(bytes));
  const TestArray device_drawn(drawn);
  args.host = host.data();
  args.device = device.data();
  args.drawn = device_drawn.as<Drawn>();
  launch_stage(*queue, args);
  queue.finish();
  const auto out = device.download();
  const auto* out_ints = reinterpret_cast<const int32_t*>(out.data());
  for (int64_t i = 0; i < args.bytes / 4; ++i) {
    const bool names = i < tokens && ints[i] < 0;
    ASSERT_EQ(out_ints[i], names ? drawn[static_cast<size_t>(-1 - ints[i])].id : ints[i]) << i << " of " << tokens;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const auto& row = reinterpret_cast<const SamplingRow*>(out.data() + args.draws_offset)[r];
    const auto& edits = expected[static_cast<size_t>(r)];
    ASSERT_EQ(row.edits, static_cast<int32_t>(edits.size())) << "row " << r;
    EXPECT_EQ(row.uniform, static_cast<double>(r));
    const auto* staged = reinterpret_cast<const LogitEdit*>(out.data() + args.edits_offset) + row.first_edit;
    for (size_t e = 0; e < edits.size(); ++e) {
      ASSERT_EQ(staged[e].token, edits[e].token) << "row " << r << ", edit " << e;
      ASSERT_EQ(staged[e].bias, edits[e].bias) << "row " << r << ", edit " << e;
      ASSERT_EQ(staged[e].count, edits[e].count) << "row " << r << ", edit " << e;
    }
  }
}

TEST(StageDevice, PutsDrawnTokensIntoIdsAndEdits) {
  Random random(3);
  expect_staged(random, 1, 0, {});
  expect_staged(random, 1, 5, {0});
  expect_staged(random, 3, 2000, {1, 256, 0});
  expect_staged(random, 2049, 30000, {255, 3, 256, 17, 0, 2});
  for (int i = 0; i < 20; ++i) {
    std::vector<int32_t> counts(static_cast<size_t>(below(random, 70)));
    for (int32_t& count : counts) count = below(random, 4) == 0 ? below(random, 257) : below(random, 5);
    expect_staged(random, 1 + below(random, 100), below(random, 3000), counts);
  }
}

}  // namespace
}  // namespace minfer::cuda
