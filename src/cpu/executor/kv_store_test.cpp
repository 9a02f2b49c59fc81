// The KV store over several groups and layers: moves reach every layer of their group in order and no other layer,
// pages read without the tokens of others and written back are the same pages.
#include "cpu/executor/kv_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "cpu/executor/cpu_backend.hpp"
#include "cpu/launch/kv_append.hpp"
#include "cpu/launch/kv_test_data.hpp"

namespace minfer::cpu {
namespace {

using graph::KvMove;

graph::KvSpec two_groups(KvFormat format) {
  const graph::KvRotation turning = {{1.0F, 0.25F, 0.01F}, graph::RopeStyle::halves};
  graph::KvSpec spec;
  spec.layers = {{2, 64, 32, 0, turning}, {2, 64, 32, 100, turning}, {1, 32, 32, 0, {}}, {3, 96, 64, 100, turning}};
  spec.groups = {{0, {0, 2}, 5}, {100, {1, 3}, 4}};
  spec.key_format = spec.value_format = format;
  return spec;
}

// Random tokens in every page of every layer.
void fill(CpuKvStore& store) {
  unsigned seed = 1;
  for (const graph::KvGroup& group : store.spec().groups) {
    for (const int32_t index : group.layers) {
      const CpuKvStore::Layer& layer = store.layer(index);
      std::vector<int64_t> slots(static_cast<size_t>(group.pages * kKvPageTokens));
      for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
      KvAppendArgs args;
      args.spec = layer.spec;
      args.tokens = static_cast<int64_t>(slots.size());
      args.slots = slots.data();
      args.k_stride = layer.spec.kv_heads * layer.spec.head_dim_k;
      args.v_stride = layer.spec.kv_heads * layer.spec.head_dim_v;
      const std::vector<float> k = normal_floats(args.tokens * args.k_stride, seed++);
      const std::vector<float> v = normal_floats(args.tokens * args.v_stride, seed++);
      args.k = k.data();
      args.v = v.data();
      args.k_base = layer.k_base;
      args.v_base = layer.v_base;
      args.k_page_stride = layer.k_page_stride;
      args.v_page_stride = layer.v_page_stride;
      ThreadPool pool(1);
      pool.run([&](Worker& worker) { launch_kv_append(Isa::scalar, worker, args); });
    }
  }
}

std::vector<std::byte> page_of(const CpuKvStore& store, int32_t group, int32_t page, int64_t tokens = 64) {
  std::vector<std::byte> bytes(static_cast<size_t>(store.page_bytes(group)), std::byte{0x77});
  store.read_page(group, page, tokens, bytes);
  return bytes;
}

std::vector<float> key_of(const CpuKvStore& store, int32_t layer_index, int32_t page, int64_t token) {
  const CpuKvStore::Layer& layer = store.layer(layer_index);
  std::vector<float> row(static_cast<size_t>(layer.spec.head_dim_k));
  read_kv_k(layer.spec, layer.k_base + page * layer.k_page_stride, 0, token, layer.spec.head_dim_k, row.data());
  return row;
}

TEST(KvStore, BytesAndAlignment) {
  ThreadPool pool(2);
  for (const KvFormat format : kKvFormats) {
    const CpuKvStore store(two_groups(format), pool);
    const int64_t elements = 64 * (2 * (64 + 32) + 1 * (32 + 32));
    const int64_t per_block = format == KvFormat::q8_0 ? 34 : format == KvFormat::f32 ? 128 : 64;
    EXPECT_EQ(store.page_bytes(0), elements / 32 * per_block);
    EXPECT_EQ(store.bytes(), 5 * store.page_bytes(0) + 4 * store.page_bytes(1));
    EXPECT_EQ(store.bytes(), kv_store_bytes(store.spec()));
    for (int32_t layer = 0; layer < 4; ++layer) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(store.layer(layer).k_base) % 64, 0U);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(store.layer(layer).v_base) % 64, 0U);
      EXPECT_EQ(store.layer(layer).k_page_stride % 64, 0);
    }
  }
}

TEST(KvStore, PagesReadAndWrittenAreTheSame) {
  ThreadPool pool(2);
  for (const KvFormat format : kKvFormats) {
    CpuKvStore store(two_groups(format), pool);
    fill(store);
    CpuKvStore other(two_groups(format), pool);
    for (const int32_t group : {0, 1}) {
      other.write_page(group, 2, page_of(store, group, 1));
      EXPECT_EQ(page_of(other, group, 2), page_of(store, group, 1));
      EXPECT_NE(page_of(other, group, 1), page_of(store, group, 1));
    }
    for (const int32_t layer : {0, 1, 2, 3}) EXPECT_EQ(key_of(other, layer, 2, 63), key_of(store, layer, 1, 63));
  }
}

TEST(KvStore, ReadingZeroesTokensBeyond) {
  ThreadPool pool(2);
  for (const KvFormat format : kKvFormats) {
    CpuKvStore store(two_groups(format), pool);
    fill(store);
    CpuKvStore other(two_groups(format), pool);
    fill(other);
    const std::vector<std::byte> whole = page_of(store, 1, 3);
    other.write_page(1, 3, page_of(store, 1, 3, 21));
    EXPECT_EQ(key_of(other, 3, 3, 20), key_of(store, 3, 3, 20));
    EXPECT_EQ(key_of(other, 3, 3, 21), std::vector<float>(96, 0.0F));
    EXPECT_EQ(page_of(store, 1, 3), whole);  // reading changed nothing
    const std::vector<std::byte> none = page_of(store, 1, 3, 0);
    EXPECT_EQ(std::count(none.begin(), none.end(), std::byte{0}), static_cast<int64_t>(none.size()));
  }
}

TEST(KvStore, MovesGoInOrderThroughTheLayersOfTheirGroup) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    CpuKvStore store(two_groups(KvFormat::f16), pool);
    fill(store);
    const auto old_window = page_of(store, 1, 0);
    const auto old_target = page_of(store, 0, 3, 2);
    const std::vector<float> second = key_of(store, 2, 1, 7);
    const std::vector<float> first = key_of(store, 0, 1, 7);
    // The second move takes what the first has brought.
    const std::vector<KvMove> moves = {{0, 1, 7, 3, 10, 20, 0}, {0, 3, 12, 3, 2, 5, 0}};
    store.move(moves);
    EXPECT_EQ(key_of(store, 0, 3, 10), first);
    EXPECT_EQ(key_of(store, 2, 3, 10), second);
    EXPECT_EQ(key_of(store, 0, 3, 2), key_of(store, 0, 1, 9));
    EXPECT_EQ(key_of(store, 2, 3, 6), key_of(store, 2, 1, 13));
    EXPECT_EQ(page_of(store, 0, 3, 2), old_target);
    EXPECT_EQ(page_of(store, 1, 0), old_window);
  }
}

TEST(KvStore, OnlyLayersWithARotationAreTurned) {
  ThreadPool pool(2);
  CpuKvStore store(two_groups(KvFormat::f32), pool);
  fill(store);
  const std::vector<float> turning = key_of(store, 0, 1, 5);
  const std::vector<float> still = key_of(store, 2, 1, 5);
  store.move(std::vector<KvMove>{{0, 1, 5, 4, 0, 1, -3}, {0, 1, 5, 4, 1, 1, 2}});
  EXPECT_EQ(key_of(store, 2, 4, 0), still);
  EXPECT_EQ(key_of(store, 2, 4, 1), still);
  const std::vector<float> frequencies = {1.0F, 0.25F, 0.01F};
  for (const auto& [token, by] : {std::pair{0, -3.0}, {1, 2.0}}) {
    const std::vector<float> got = key_of(store, 0, 4, token);
    for (size_t i = 0; i < 3; ++i) {
      const double c = std::cos(by * frequencies[i]);
      const double s = std::sin(by * frequencies[i]);
      EXPECT_NEAR(got[i], turning[i] * c - turning[i + 3] * s, 1e-6);
      EXPECT_NEAR(got[i + 3], turning[i] * s + turning[i + 3] * c, 1e-6);
    }
    for (size_t i = 6; i < got.size(); ++i) EXPECT_EQ(got[i], turning[i]);
  }
}

TEST(KvStore, MovesThatLeaveTheirPageAreRefused) {
  ThreadPool pool(1);
  CpuKvStore store(two_groups(KvFormat::f16), pool);
  for (const KvMove& move : {KvMove{0, 5, 0, 1, 0, 1, 0}, KvMove{0, 1, 60, 2, 0, 5, 0}, KvMove{0, 1, 0, 1, 1, 5, 0},
                             KvMove{2, 0, 0, 1, 0, 1, 0}, KvMove{0, 0, 0, 1, 0, 0, 0}}) {
    EXPECT_THROW(store.move(std::span(&move, 1)), Error);
  }
}

TEST(KvStore, HeadSizesThatBlocksCannotKeepAreRefusedByName) {
  const auto backend = create_cpu_backend({1, ""});
  graph::KvSpec spec = two_groups(KvFormat::q8_0);
  EXPECT_NO_THROW(backend->check_kv(spec));
  spec.layers[3].key_size = 80;
  try {
    backend->check_kv(spec);
    FAIL() << "keys of 80 in q8_0";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), testing::HasSubstr("layer 3: keys of 80 elements can't be kept in q8_0"));
  }
  spec.key_format = KvFormat::bf16;
  EXPECT_NO_THROW(backend->check_kv(spec));
  spec.layers[0].value_size = 40;
  EXPECT_THROW(backend->check_kv(spec), Error);
}

}  // namespace
}  // namespace minfer::cpu
