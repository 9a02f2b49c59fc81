// What precedes attention, and moves, on the device: rotation, norm and append in all formats against plain code in
// double precision; every byte of the cache that should not change is compared.
#include <gtest/gtest.h>

#include "cuda/launch/attention_test_data.hpp"

namespace minfer::cuda {
namespace {

using graph::KvFormat;
using graph::RopeStyle;

constexpr float kEps = 1e-5F;
constexpr double kFloatError = 2e-6;  // of a number of size 1

struct HeadCase {
  int64_t heads, kv_heads, key_size, value_size, rotated;
  RopeStyle style;
};

// A head after its norm (weight may be empty) and rotation.
std::vector<double> prepared(const float* x, int64_t size, const std::vector<float>& weight, const float* angles,
                             int64_t rotated, RopeStyle style) {
  std::vector<double> out(x, x + size);
  if (!weight.empty()) {
    double squares = 0;
    for (const double value : out) squares += value * value;
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(size) + static_cast<double>(kEps));
    for (size_t i = 0; i < out.size(); ++i) out[i] *= factor * static_cast<double>(weight[i]);
  }
  for (int64_t i = 0; i < rotated / 2; ++i) {
    double& a = out[static_cast<size_t>(style == RopeStyle::halves ? i : 2 * i)];
    double& b = out[static_cast<size_t>(style == RopeStyle::halves ? i + rotated / 2 : 2 * i + 1)];
    const double c = static_cast<double>(angles[2 * i]);
    const double s = static_cast<double>(angles[2 * i + 1]);
    const double first = a * c - b * s;
    b = a * s + b * c;
    a = first;
  }
  return out;
}

// How far a stored number may be from the exact one: half a step of the format and the float arithmetic before it.
double stored_error(KvFormat format, const std::vector<double>& head, size_t i) {
  const double base = 4 * kFloatError * std::max(1.0, std::fabs(head[i]));
  switch (format) {
    case KvFormat::f32:
      return base;
    case KvFormat::f16:
      return base + std::ldexp(std::fabs(head[i]), -11);
    case KvFormat::bf16:
      return base + std::ldexp(std::fabs(head[i]), -8);
    case KvFormat::q8_0: {
      double top = 0;
      for (size_t k = i / 32 * 32; k < i / 32 * 32 + 32; ++k) top = std::max(top, std::fabs(head[k]));
      return base + top / 127 * 0.5 + std::ldexp(top, -11);
    }
  }
  return 0;
}

std::vector<float> random_angles(Random& random, int64_t rows, int64_t rotated) {
  std::vector<float> angles;
  for (int64_t i = 0; i < rows * rotated / 2; ++i) {
    const float angle = 10.0F * random.normal();
    angles.push_back(std::cos(angle));
    angles.push_back(std::sin(angle));
  }
  return angles;
}

// Rows at row_stride(f32, width).
std::vector<float> strided(const std::vector<float>& rows, int64_t width) {
  const int64_t stride = row_stride(ActivationFormat::f32, width) / 4;
  const int64_t count = static_cast<int64_t>(rows.size()) / width;
  std::vector<float> out(static_cast<size_t>(count * stride), NAN);
  for (int64_t r = 0; r < count; ++r) std::copy_n(rows.begin() + r * width, width, out.begin() + r * stride);
  return out;
}

void expect_heads(const std::vector<float>& out, const std::vector<float>& x, const HeadCase& test,
                  const std::vector<float>& weight, const std::vector<float>& angles, int64_t rows) {
  const int64_t width = test.heads * test.key_size;
  const int64_t stride = row_stride(ActivationFormat::f32, width) / 4;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t h = 0; h < test.heads; ++h) {
      const auto want = prepared(x.data() + r * width + h * test.key_size, test.key_size, weight,
                                 angles.data() + r * test.rotated, test.rotated, test.style);
      for (int64_t i = 0; i < test.key_size; ++i) {
        const double got = static_cast<double>(out[static_cast<size_t>(r * stride + h * test.key_size + i)]);
        ASSERT_NEAR(got, want[static_cast<size_t>(i)], stored_error(KvFormat::f32, want, static_cast<size_t>(i)))
            << "row " << r << " head " << h << " element " << i;
      }
    }
  }
}

const HeadCase kHeadCases[] = {
    {5, 2, 64, 64, 64, RopeStyle::halves},    {4, 4, 128, 96, 64, RopeStyle::pairs},
    {3, 1, 256, 256, 192, RopeStyle::halves}, {1, 1, 32, 32, 2, RopeStyle::pairs},
    {7, 7, 80, 80, 32, RopeStyle::halves},    {2, 1, 6, 5, 4, RopeStyle::halves},
    {2, 2, 512, 512, 512, RopeStyle::pairs},
};

void check_rope_append(const HeadCase& test, KvFormat key_format, KvFormat value_format, bool norms, bool fused) {
  Random random(3);
  TestQueue queue;
  const std::vector<int32_t> slots{130, 0, -1, 63, 64 + 17, -1, 191};
  const auto rows = static_cast<int64_t>(slots.size());
  const CacheSpec spec{key_format, value_format, test.kv_heads, test.key_size, test.value_size};
  HostCache before(spec, 3);
  const auto q = random.normals(static_cast<size_t>(rows * test.heads * test.key_size));
  const auto k = random.normals(static_cast<size_t>(rows * test.kv_heads * test.key_size));
  const auto v = random.normals(static_cast<size_t>(rows * test.kv_heads * test.value_size));
  const auto angles = random_angles(random, rows, test.rotated);
  const auto q_norm = norms ? random.normals(static_cast<size_t>(test.key_size)) : std::vector<float>{};
  const auto k_norm = norms ? random.normals(static_cast<size_t>(test.key_size)) : std::vector<float>{};
  DeviceArray<float> device_q(strided(q, test.heads * test.key_size));
  DeviceArray<float> device_k(strided(k, test.kv_heads * test.key_size));
  DeviceArray<float> device_v(strided(v, test.kv_heads * test.value_size));
  DeviceArray<float> device_angles(strided(angles, test.rotated));
  DeviceArray<float> device_q_norm(q_norm);
  DeviceArray<float> device_k_norm(k_norm);
  DeviceArray<int32_t> device_slots(slots);
  DeviceArray<std::byte> cache(before.bytes());
  RopeAppendArgs args;
  args.q = args.q_out = f32_rows(device_q.data(), rows, test.heads * test.key_size);
  args.k = f32_rows(device_k.data(), rows, test.kv_heads * test.key_size);
  args.v = f32_rows(device_v.data(), rows, test.kv_heads * test.value_size);
  args.angles = f32_rows(device_angles.data(), rows, test.rotated);
  args.q_norm = norms ? device_q_norm.data() : nullptr;
  args.k_norm = norms ? device_k_norm.data() : nullptr;
  args.eps = kEps;
  args.heads = test.heads;
  args.style = test.style;
  args.kv = before.view(cache.data());
  args.step.slots = device_slots.data();
  if (fused) {
    launch_rope_append(queue.get(), args);
    expect_heads(device_q.download(), q, test, q_norm, angles, rows);
  } else {
    launch_kv_append(queue.get(), args.k, args.v, args.kv, args.step);
  }
  HostCache after(spec, 3);
  after.bytes() = cache.download();
  const int64_t rotated = fused ? test.rotated : 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t slot = slots[static_cast<size_t>(r)];
    if (slot < 0) continue;
    for (int64_t h = 0; h < test.kv_heads; ++h) {
      for (const bool key : {true, false}) {
        const int64_t size = key ? test.key_size : test.value_size;
        const float* x = (key ? k.data() : v.data()) + (r * test.kv_heads + h) * size;
        const auto want = prepared(x, size, key && fused ? k_norm : std::vector<float>{},
                                   angles.data() + r * test.rotated, key ? rotated : 0, test.style);
        const KvFormat format = key ? key_format : value_format;
        for (int64_t i = 0; i < size; ++i) {
          ASSERT_NEAR(static_cast<double>(after.read(key, slot / 64, slot % 64, h, i)), want[static_cast<size_t>(i)],
                      stored_error(format, want, static_cast<size_t>(i)))
              << (key ? "key" : "value") << " row " << r << " head " << h << " element " << i;
          // Forget what was to be written: all else must be as before.
          const size_t width = format == KvFormat::f32 ? 4 : format == KvFormat::q8_0 ? 1 : 2;
          std::fill_n(after.element(key, slot / 64, slot % 64, h, i), width, std::byte{0xFF});
          if (format == KvFormat::q8_0 && i % 32 == 31) {
            std::fill_n(after.scale(key, slot / 64, slot % 64, h, i / 32), 2, std::byte{0xFF});
          }
        }
      }
    }
  }
  EXPECT_TRUE(after.bytes() == before.bytes()) << "bytes beside the rows' slots changed";
}

TEST(CudaRope, RopeAppendOfAllFormats) {
  const KvFormat formats[] = {KvFormat::f32, KvFormat::f16, KvFormat::bf16, KvFormat::q8_0};
  for (const HeadCase& test : kHeadCases) {
    for (const KvFormat key : formats) {
      if (key == KvFormat::q8_0 && test.key_size % 32 != 0) continue;
      for (const KvFormat value : formats) {
        if (value == KvFormat::q8_0 && test.value_size % 32 != 0) continue;
        SCOPED_TRACE(testing::Message() << "size " << test.key_size << " formats " << static_cast<int>(key) << " "
                                        << static_cast<int>(value));
        check_rope_append(test, key, value, key == value, true);
        check_rope_append(test, key, value, false, false);
      }
    }
  }
}

TEST(CudaRope, RopeAlone) {
  for (const HeadCase& test : kHeadCases) {
    Random random(8);
    TestQueue queue;
    const int64_t rows = 9;
    const int64_t width = test.heads * test.key_size;
    const auto x = random.normals(static_cast<size_t>(rows * width));
    const auto angles = random_angles(random, rows, test.rotated);
    DeviceArray<float> device_x(strided(x, width));
    DeviceArray<float> device_angles(strided(angles, test.rotated));
    DeviceArray<float> out(static_cast<size_t>(rows * row_stride(ActivationFormat::f32, width) / 4));
    launch_rope(queue.get(), {.x = f32_rows(device_x.data(), rows, width),
                              .angles = f32_rows(device_angles.data(), rows, test.rotated),
                              .heads = test.heads,
                              .head_size = test.key_size,
                              .style = test.style,
                              .out = f32_rows(out.data(), rows, width)});
    expect_heads(out.download(), x, test, {}, angles, rows);
  }
}

struct MoveCase {
  KvFormat key_format, value_format;
  RopeStyle style;
  int64_t key_size, pairs, rotate_by;
  int32_t from_page, from_token, to_page, to_token, tokens;
};

void check_move(const MoveCase& test) {
  Random random(6);
  TestQueue queue;
  const CacheSpec spec{test.key_format, test.value_format, 2, test.key_size, 96};
  HostCache before(spec, 2);
  for (int64_t i = 0; i < 2 * 64 * 2; ++i) {
    before.write(true, i / 128, i / 2 % 64, i % 2, random.normals(static_cast<size_t>(test.key_size)).data());
    before.write(false, i / 128, i / 2 % 64, i % 2, random.normals(96).data());
  }
  std::vector<float> frequencies;
  for (int64_t i = 0; i < test.pairs; ++i) frequencies.push_back(std::pow(10000.0F, -static_cast<float>(i) / 32.0F));
  DeviceArray<float> device_frequencies(frequencies);
  DeviceArray<std::byte> cache(before.bytes());
  launch_kv_move(queue.get(), {.kv = before.view(cache.data()),
                               .from_page = test.from_page,
                               .from_token = test.from_token,
                               .to_page = test.to_page,
                               .to_token = test.to_token,
                               .tokens = test.tokens,
                               .inverse_frequencies = test.pairs > 0 ? device_frequencies.data() : nullptr,
                               .pairs = test.pairs,
                               .rotate_by = test.rotate_by,
                               .style = test.style});
  HostCache after(spec, 2);
  after.bytes() = cache.download();
  std::vector<float> angles;
  for (const float f : frequencies) {
    angles.push_back(static_cast<float>(std::cos(static_cast<double>(test.rotate_by) * static_cast<double>(f))));
    angles.push_back(static_cast<float>(std::sin(static_cast<double>(test.rotate_by) * static_cast<double>(f))));
  }
  const int64_t rotated = test.rotate_by != 0 ? 2 * test.pairs : 0;
  for (int64_t i = 0; i < 2 * 64 * 2 * 2; ++i) {
    const bool key = i % 2 == 0;
    const int64_t h = i / 2 % 2;
    const int64_t token = i / 4 % 64;
    const int64_t page = i / 256;
    const bool moved = page == test.to_page && token >= test.to_token && token < test.to_token + test.tokens;
    const int64_t from_page = moved ? test.from_page : page;
    const int64_t from_token = moved ? test.from_token + token - test.to_token : token;
    const int64_t size = key ? test.key_size : 96;
    std::vector<float> x;
    for (int64_t d = 0; d < size; ++d) x.push_back(before.read(key, from_page, from_token, h, d));
    const int64_t turned = key && moved ? rotated : 0;
    const auto want = prepared(x.data(), size, {}, angles.data(), turned, test.style);
    const int64_t exact_from = key && test.key_format == KvFormat::q8_0 ? (turned + 31) / 32 * 32 : turned;
    for (int64_t d = 0; d < size; ++d) {
      const double got = static_cast<double>(after.read(key, page, token, h, d));
      const double error = d >= exact_from ? 0 : stored_error(test.key_format, want, static_cast<size_t>(d));
      ASSERT_NEAR(got, want[static_cast<size_t>(d)], error)
          << (key ? "key" : "value") << " page " << page << " token " << token << " head " << h << " element " << d;
    }
  }
}

TEST(CudaKvMove, MovesAndTurns) {
  for (const KvFormat format : {KvFormat::f32, KvFormat::f16, KvFormat::bf16, KvFormat::q8_0}) {
    SCOPED_TRACE(static_cast<int>(format));
    check_move({format, KvFormat::f16, RopeStyle::halves, 64, 32, -37, 0, 20, 1, 3, 44});
    check_move({format, format, RopeStyle::pairs, 64, 20, 12, 1, 5, 1, 0, 59});  // down inside a page
    check_move({format, format, RopeStyle::halves, 96, 48, 100, 1, 1, 1, 0, 63});
    check_move({format, format, RopeStyle::halves, 96, 48, -5, 0, 0, 0, 0, 64});  // in place
    check_move({format, format, RopeStyle::halves, 64, 32, 0, 0, 0, 1, 0, 64});   // a whole page, as it is
    check_move({format, format, RopeStyle::halves, 64, 0, 9, 0, 30, 0, 2, 34});   // keys that don't rotate
  }
}

}  // namespace
}  // namespace minfer::cuda
