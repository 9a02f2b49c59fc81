// Moves of cached tokens. Oracle: the tokens read back before, rotated in double. A turned key differs from that by the
// rounding of its format alone; a copied one by nothing. Every move is also looked at from outside: tokens and heads
// that it does not name keep their bytes.
#include "cpu/launch/kv_move.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cpu/launch/kv_test_data.hpp"
#include "cpu/launch/rope.hpp"

namespace minfer::cpu {
namespace {

using graph::RopeStyle;

constexpr int64_t kPages = 3;

struct Move {
  int64_t from_page;
  int64_t from_token;
  int64_t to_page;
  int64_t to_token;
  int64_t tokens;
};
// Whole pages, odd tokens, one token, in place with and without overlap, the same slots.
const std::vector<Move> kMoves = {{0, 0, 2, 0, 64}, {1, 13, 0, 5, 37}, {2, 63, 1, 0, 1}, {1, 7, 1, 3, 50},
                                  {1, 40, 1, 0, 9}, {0, 1, 0, 0, 63},  {2, 5, 2, 5, 40}};

std::vector<float> frequencies(int64_t pairs) {
  std::vector<float> result;
  for (int64_t i = 0; i < pairs; ++i) {
    result.push_back(static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(pairs))));
  }
  return result;
}

KvPages filled(const KvLayerSpec& spec) {
  KvPages pages(spec, kPages);
  std::vector<int64_t> slots(kPages * kKvPageTokens);
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
  const auto tokens = static_cast<int64_t>(slots.size());
  pages.append(Isa::scalar, 1, slots, normal_floats(tokens * spec.kv_heads * spec.head_dim_k, 3),
               normal_floats(tokens * spec.kv_heads * spec.head_dim_v, 4));
  return pages;
}

void run(KvPages& pages, const Move& move, const KvTurn* turn) {
  std::vector<float> scratch;
  const KvMoveArgs args = {pages.spec,
                           {pages.k_page(move.from_page), pages.v_page(move.from_page), move.from_token},
                           {pages.k_page(move.to_page), pages.v_page(move.to_page), move.to_token},
                           move.tokens,
                           turn};
  for (int64_t head = 0; head < pages.spec.kv_heads; ++head) move_kv_head(args, head, scratch);
}

std::vector<double> rotated(const std::vector<float>& row, const KvLayerSpec& spec, const std::vector<float>& inverse,
                            RopeStyle style, int64_t positions) {
  std::vector<double> out(row.begin(), row.end());
  const auto pairs = static_cast<int64_t>(inverse.size());
  for (int64_t head = 0; head < spec.kv_heads; ++head) {
    for (int64_t i = 0; i < pairs; ++i) {
      const int64_t base = head * spec.head_dim_k;
      const size_t a = static_cast<size_t>(base + (style == RopeStyle::pairs ? 2 * i : i));
      const size_t b = static_cast<size_t>(base + (style == RopeStyle::pairs ? 2 * i + 1 : i + pairs));
      const double angle = static_cast<double>(positions) * inverse[static_cast<size_t>(i)];
      out[a] = row[a] * std::cos(angle) - row[b] * std::sin(angle);
      out[b] = row[a] * std::sin(angle) + row[b] * std::cos(angle);
    }
  }
  return out;
}

// The most that rounding to a format changes element i of a row of a head's values.
double rounding(KvFormat format, const std::vector<double>& row, size_t i) {
  const double own = std::abs(row[i]);
  if (format == KvFormat::f32) return own * 0x1p-24 + 1e-6;
  if (format == KvFormat::f16) return own * 0x1p-11 + 1e-6;
  if (format == KvFormat::bf16) return own * 0x1p-8 + 1e-6;
  double top = 0.0;
  for (size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) top = std::max(top, std::abs(row[j]));
  // Half a quant, and the rounding of the scale times the quant.
  return top / 127.0 * 0.5 + own * 0x1p-11 + 1e-6;
}

struct Case {
  KvLayerSpec spec;
  int64_t pairs;
  RopeStyle style;
};

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const KvFormat format : kKvFormats) {
    for (const RopeStyle style : {RopeStyle::pairs, RopeStyle::halves}) {
      for (const auto& [head_dim, pairs] : {std::pair{64, 32}, {128, 64}, {96, 24}, {64, 5}, {256, 128}}) {
        result.push_back({{2, head_dim, 32, format, format}, pairs, style});
      }
      if (format != KvFormat::q8_0) result.push_back({{3, 20, 13, format, KvFormat::f16}, 10, style});
    }
  }
  return result;
}

std::string describe(const Case& c, const Move& m) {
  return format_text(c.spec.k_format) + " head " + std::to_string(c.spec.head_dim_k) + " pairs " +
         std::to_string(c.pairs) + " tokens " + std::to_string(m.tokens) + " from " + std::to_string(m.from_page) +
         "/" + std::to_string(m.from_token) + " to " + std::to_string(m.to_page) + "/" + std::to_string(m.to_token);
}

// Every slot's rows before a move; where the move wrote, the rows that it took.
struct Rows {
  std::vector<std::vector<float>> keys;
  std::vector<std::vector<float>> values;
  std::vector<bool> moved;
};
Rows expected_rows(KvPages& pages, const Move& move) {
  Rows rows;
  for (int64_t slot = 0; slot < kPages * kKvPageTokens; ++slot) {
    const int64_t to = move.to_page * kKvPageTokens + move.to_token;
    const bool moved = slot >= to && slot < to + move.tokens;
    const int64_t from = moved ? slot - to + move.from_page * kKvPageTokens + move.from_token : slot;
    rows.keys.push_back(pages.key(from));
    rows.values.push_back(pages.value(from));
    rows.moved.push_back(moved);
  }
  return rows;
}

TEST(KvMove, CopiesAreExact) {
  for (const Case& c : cases()) {
    for (const Move& move : kMoves) {
      KvPages pages = filled(c.spec);
      const Rows expected = expected_rows(pages, move);
      run(pages, move, nullptr);
      for (int64_t slot = 0; slot < kPages * kKvPageTokens; ++slot) {
        ASSERT_EQ(pages.key(slot), expected.keys[static_cast<size_t>(slot)]) << describe(c, move) << " slot " << slot;
        ASSERT_EQ(pages.value(slot), expected.values[static_cast<size_t>(slot)]) << describe(c, move);
      }
    }
  }
}

// Down to the bits, which decoded values do not show: a NaN's, a scale's of a block of zeros.
TEST(KvMove, CopiesOfWholePagesAreExactInBits) {
  for (const KvFormat format : kKvFormats) {
    KvPages pages({2, 64, 32, format, format}, 2);
    std::mt19937 random(9);
    for (std::vector<std::byte>* bytes : {&pages.k, &pages.v}) {
      for (std::byte& byte : *bytes) byte = static_cast<std::byte>(random() & 0xFF);
    }
    run(pages, {0, 0, 1, 0, 64}, nullptr);
    EXPECT_TRUE(std::equal(pages.k_page(0), pages.k_page(1), pages.k_page(1))) << format_text(format);
    EXPECT_TRUE(std::equal(pages.v_page(0), pages.v_page(1), pages.v_page(1))) << format_text(format);
  }
}

TEST(KvMove, TurnedKeysAreTheRotatedOnes) {
  for (const Case& c : cases()) {
    const std::vector<float> inverse = frequencies(c.pairs);
    for (const int64_t by : {-1, -777, 30000}) {
      const KvTurn turn(inverse, c.style, by);
      for (const Move& move : kMoves) {
        KvPages pages = filled(c.spec);
        const Rows expected = expected_rows(pages, move);
        run(pages, move, &turn);
        for (size_t slot = 0; slot < expected.keys.size(); ++slot) {
          const std::vector<float> got = pages.key(static_cast<int64_t>(slot));
          ASSERT_EQ(pages.value(static_cast<int64_t>(slot)), expected.values[slot]) << describe(c, move);
          if (!expected.moved[slot]) {
            ASSERT_EQ(got, expected.keys[slot]) << describe(c, move) << " slot " << slot;
            continue;
          }
          const std::vector<double> want = rotated(expected.keys[slot], c.spec, inverse, c.style, by);
          for (size_t i = 0; i < got.size(); ++i) {
            const bool turns = static_cast<int64_t>(i) % c.spec.head_dim_k < 2 * c.pairs;
            const double allowed = turns || kv_has_scales(c.spec.k_format) ? rounding(c.spec.k_format, want, i) : 0.0;
            ASSERT_LE(std::abs(got[i] - want[i]), allowed) << describe(c, move) << " slot " << slot << " element " << i;
          }
        }
      }
    }
  }
}

// A key appended at position p and turned by -n against the same key appended at p - n.
TEST(KvMove, TurningBackEqualsAppendingEarlier) {
  constexpr int64_t kTokens = 50;
  constexpr int32_t kBack = 129;
  for (const Case& c : cases()) {
    const int64_t width = c.spec.kv_heads * c.spec.head_dim_k;
    const std::vector<float> raw = normal_floats(kTokens * width, 8);
    const std::vector<float> values = normal_floats(kTokens * c.spec.kv_heads * c.spec.head_dim_v, 9);
    const std::vector<float> inverse = frequencies(c.pairs);
    const auto appended = [&](int32_t first_position) {
      std::vector<int32_t> positions;
      std::vector<int64_t> slots;
      for (int32_t t = 0; t < kTokens; ++t) {
        positions.push_back(first_position + t);
        slots.push_back(t);
      }
      std::vector<float> angles(static_cast<size_t>(kTokens * c.pairs * 2));
      std::vector<float> keys(raw.size());
      ThreadPool pool(1);
      pool.run([&](Worker& worker) {
        launch_rope_angles(worker, {positions.data(), kTokens, inverse.data(), c.pairs, 1.0F, angles.data()});
        PrepareHeadsArgs args{};
        args.x = raw.data();
        args.x_stride = args.out_stride = width;
        args.rows = kTokens;
        args.heads = c.spec.kv_heads;
        args.head_dim = c.spec.head_dim_k;
        args.angles = angles.data();
        args.rotated = 2 * c.pairs;
        args.style = c.style;
        args.out = keys.data();
        launch_prepare_heads(Isa::scalar, worker, args);
      });
      KvPages pages(c.spec, 1);
      pages.append(Isa::scalar, 1, slots, keys, values);
      return pages;
    };
    KvPages shifted = appended(1000);
    KvPages fresh = appended(1000 - kBack);
    const KvTurn turn(inverse, c.style, -kBack);
    run(shifted, {0, 0, 0, 0, kTokens}, &turn);
    EXPECT_EQ(shifted.v, fresh.v);
    for (int64_t t = 0; t < kTokens; ++t) {
      const std::vector<float> got = shifted.key(t);
      const std::vector<float> want = fresh.key(t);
      for (size_t i = 0; i < got.size(); ++i) {
        // Rounded at append, turned and rounded again, against rounded once: values of up to some 5 deviations.
        const double step = c.spec.k_format == KvFormat::f32    ? 2e-6
                            : c.spec.k_format == KvFormat::f16  ? 5 * 0x1p-11
                            : c.spec.k_format == KvFormat::bf16 ? 5 * 0x1p-8
                                                                : 5.0 / 127.0 * 0.5;
        ASSERT_NEAR(got[i], want[i], 3.5 * step) << describe(c, {0, 0, 0, 0, kTokens}) << " element " << i;
      }
    }
  }
}

TEST(KvMove, ClearingLeavesNothingBehind) {
  for (const KvFormat format : kKvFormats) {
    for (const int64_t first : {0, 1, 37, 63, 64}) {
      KvPages pages = filled({2, 64, 32, format, format});
      KvPages before = pages;
      clear_kv_tokens(pages.spec, pages.k_page(1), pages.v_page(1), first);
      for (int64_t slot = 0; slot < kPages * kKvPageTokens; ++slot) {
        const bool cleared = slot >= 64 + first && slot < 128;
        ASSERT_EQ(pages.key(slot), cleared ? std::vector<float>(128, 0.0F) : before.key(slot));
        ASSERT_EQ(pages.value(slot), cleared ? std::vector<float>(64, 0.0F) : before.value(slot));
      }
      const auto zeros = [](const std::byte* page, int64_t bytes) {
        return std::count(page, page + bytes, std::byte{0}) == bytes;
      };
      EXPECT_EQ(zeros(pages.k_page(1), kv_k_page_bytes(pages.spec)), first == 0) << format_text(format);
      EXPECT_EQ(zeros(pages.v_page(1), kv_v_page_bytes(pages.spec)), first == 0) << format_text(format);
    }
  }
}

}  // namespace
}  // namespace minfer::cpu
