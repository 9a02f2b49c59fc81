// How AVX2 reads each quantized type from a panel of 8 rows (see launch/panel.hpp): the scales of a group, and the
// quants of a sub-block of 32 as 8 vectors of 8 rows x 4 bytes. Only for the sources in this folder.
//
// A format has:
//   kGroupBytes, kBlocks    bytes of a group of the panel, and its sub-blocks of 32
//   kHalves                 scales a sub-block: 1, or 2 (one for 16 elements)
//   kMins                   whether a minimum goes with each scale: w = scale * q - min
//   kScaled                 whether scales (and minima) are integers, times the group's d (and dmin), which are its
//                           first halves
//   kSign                   plain: quants unsigned from 0; offset: in int8 with their offset taken off, small; wide:
//                           the whole of int8
//   kDepth                  how many quads may be summed in 16 bits: two products each, of quants and q8 activations
//                           (up to 127). `offset`, which reads activations as x + 128, sums all that share a scale:
//                           their sum fits, less 128 times that of the quants
//   scales(group, scales, mins, stride)   writes kBlocks * kHalves vectors of 8 lanes, `stride` vectors apart: floats,
//                           but scales of kScaled as store_pairs has them
//   quads(group, block, w)
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace minfer::cpu::avx2 {
namespace {

enum class Sign { plain, offset, wide };

struct alignas(32) Quads {
  __m256i q[8];
};

// One vector in memory.
struct alignas(32) Lanes {
  std::byte bytes[32];
};
[[gnu::always_inline]] inline void store(Lanes& to, __m256i v) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to.bytes), v);
}
[[gnu::always_inline]] inline void store(Lanes& to, __m256 v) {
  _mm256_store_ps(reinterpret_cast<float*>(to.bytes), v);
}

[[gnu::always_inline]] inline __m256i load(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
[[gnu::always_inline]] inline __m256 load_halves(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
[[gnu::always_inline]] inline __m256i bytes(int value) {
  return _mm256_set1_epi8(static_cast<char>(value));
}
// Bits of v moved left (or right) by a constant, then masked to whole bytes.
template <int kShift>
[[gnu::always_inline]] inline __m256i moved(__m256i v) {
  if constexpr (kShift > 0) return _mm256_slli_epi16(v, kShift);
  if constexpr (kShift < 0) return _mm256_srli_epi16(v, -kShift);
  return v;
}
template <int kShift>
[[gnu::always_inline]] inline __m256i field(__m256i v, __m256i mask) {
  return _mm256_and_si256(moved<kShift>(v), mask);
}
// a | (moved v & mask)
template <int kShift>
[[gnu::always_inline]] inline __m256i with_field(__m256i a, __m256i v, __m256i mask) {
  return _mm256_or_si256(a, field<kShift>(v, mask));
}

[[gnu::always_inline]] inline void nibbles(const uint8_t* words, Quads& w) {
  const __m256i mask = bytes(0x0F);
  for (int i = 0; i < 4; ++i) {
    const __m256i v = load(words + 32 * i);
    w.q[i] = _mm256_and_si256(v, mask);
    w.q[i + 4] = field<-4>(v, mask);
  }
}
// A table of 16 bytes for look-ups by 4 bits: entry i has kZero where bit kBit of i is 0, else 0.
template <int kBit, int kZero>
[[gnu::always_inline]] inline __m256i bit_table() {
  constexpr auto at = [](int i) { return static_cast<char>((i >> kBit & 1) != 0 ? 0 : kZero); };
  return _mm256_broadcastsi128_si256(_mm_setr_epi8(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9),
                                                   at(10), at(11), at(12), at(13), at(14), at(15)));
}
// The same: entry i has kStep times bits kBit, kBit + 1 of i, less kOffset.
template <int kBit, int kStep, int kOffset>
[[gnu::always_inline]] inline __m256i pair_table() {
  constexpr auto at = [](int i) { return static_cast<char>(kStep * (i >> kBit & 3) - kOffset); };
  return _mm256_broadcastsi128_si256(_mm_setr_epi8(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9),
                                                   at(10), at(11), at(12), at(13), at(14), at(15)));
}
// Bit i of the plane's bytes becomes bit 4 of quad i.
[[gnu::always_inline]] inline void add_bit(const uint8_t* plane, Quads& w) {
  const __m256i v = load(plane);
  const __m256i mask = bytes(0x10);
  w.q[0] = with_field<4>(w.q[0], v, mask);
  w.q[1] = with_field<3>(w.q[1], v, mask);
  w.q[2] = with_field<2>(w.q[2], v, mask);
  w.q[3] = with_field<1>(w.q[3], v, mask);
  w.q[4] = with_field<0>(w.q[4], v, mask);
  w.q[5] = with_field<-1>(w.q[5], v, mask);
  w.q[6] = with_field<-2>(w.q[6], v, mask);
  w.q[7] = with_field<-3>(w.q[7], v, mask);
}
// Where bit i of the plane's bytes is 0, takes kWorth off quad i, which has no such bit.
template <int kWorth>
[[gnu::always_inline]] inline void add_bit_signed(const uint8_t* plane, Quads& w) {
  const __m256i mask = bytes(0x0F);
  const __m256i v = load(plane);
  const __m256i halves[2] = {_mm256_and_si256(v, mask), field<-4>(v, mask)};
  for (int h = 0; h < 2; ++h) {
    __m256i* q = w.q + 4 * h;
    q[0] = _mm256_or_si256(q[0], _mm256_shuffle_epi8(bit_table<0, -kWorth>(), halves[h]));
    q[1] = _mm256_or_si256(q[1], _mm256_shuffle_epi8(bit_table<1, -kWorth>(), halves[h]));
    q[2] = _mm256_or_si256(q[2], _mm256_shuffle_epi8(bit_table<2, -kWorth>(), halves[h]));
    q[3] = _mm256_or_si256(q[3], _mm256_shuffle_epi8(bit_table<3, -kWorth>(), halves[h]));
  }
}
// Quads i and 4 + i from bits 2 i, 2 i + 1 of two planes.
[[gnu::always_inline]] inline void two_bits(const uint8_t* planes, Quads& w) {
  const __m256i mask = bytes(3);
  for (int h = 0; h < 2; ++h) {
    const __m256i v = load(planes + 32 * h);
    __m256i* q = w.q + 4 * h;
    q[0] = field<0>(v, mask);
    q[1] = field<-2>(v, mask);
    q[2] = field<-4>(v, mask);
    q[3] = field<-6>(v, mask);
  }
}
// Ors 16 times bits 2 i, 2 i + 1 of two planes, less 32, to quads i and 4 + i.
[[gnu::always_inline]] inline void add_two_bits(const uint8_t* planes, Quads& w) {
  const __m256i mask = bytes(0x0F);
  const __m256i even = pair_table<0, 16, 32>();
  const __m256i odd = pair_table<2, 16, 32>();
  for (int h = 0; h < 2; ++h) {
    const __m256i v = load(planes + 32 * h);
    const __m256i low = _mm256_and_si256(v, mask);
    const __m256i high = field<-4>(v, mask);
    __m256i* q = w.q + 4 * h;
    q[0] = _mm256_or_si256(q[0], _mm256_shuffle_epi8(even, low));
    q[1] = _mm256_or_si256(q[1], _mm256_shuffle_epi8(odd, low));
    q[2] = _mm256_or_si256(q[2], _mm256_shuffle_epi8(even, high));
    q[3] = _mm256_or_si256(q[3], _mm256_shuffle_epi8(odd, high));
  }
}
[[gnu::always_inline]] inline void subtract(int offset, Quads& w) {
  for (__m256i& q : w.q) q = _mm256_sub_epi8(q, bytes(offset));
}
[[gnu::always_inline]] inline void look_up(__m128i table, Quads& w) {
  const __m256i wide = _mm256_broadcastsi128_si256(table);
  for (__m256i& q : w.q) q = _mm256_shuffle_epi8(wide, q);
}
// Four vectors of 8 bytes each.
struct Eighths {
  __m128i parts[4];
};
[[gnu::always_inline]] inline Eighths eighths(__m256i v) {
  const __m128i low = _mm256_castsi256_si128(v);
  const __m128i high = _mm256_extracti128_si256(v, 1);
  return {{low, _mm_unpackhi_epi64(low, low), high, _mm_unpackhi_epi64(high, high)}};
}

// Each of 32 signed or unsigned bytes as a pair of equal 16-bit integers, or for AVX-VNNI, whose sums have 32 bits, as
// one of 32.
template <bool kSignedBytes>
[[gnu::always_inline]] inline void store_pairs(__m256i v, Lanes* out, int64_t stride) {
  const Eighths bytes = eighths(v);
  for (int i = 0; i < 4; ++i) {
    const __m256i wide = kSignedBytes ? _mm256_cvtepi8_epi32(bytes.parts[i]) : _mm256_cvtepu8_epi32(bytes.parts[i]);
#if defined(__AVXVNNI__)
    store(out[i * stride], wide);
#else
    store(out[i * stride], _mm256_blend_epi16(wide, _mm256_slli_epi32(wide, 16), 0xAA));
#endif
  }
}

// Each of 32 unsigned bytes as a float.
[[gnu::always_inline]] inline void store_floats(__m256i v, Lanes* out, int64_t stride) {
  const Eighths bytes = eighths(v);
  for (int i = 0; i < 4; ++i) store(out[i * stride], _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes.parts[i])));
}

struct Q4_0 {
  static constexpr int kGroupBytes = 18 * 8, kBlocks = 1, kHalves = 1;
  static constexpr bool kMins = false;
  static constexpr bool kScaled = false;
  static constexpr Sign kSign = Sign::offset;
  static constexpr int kDepth = 8;
  [[gnu::always_inline]] static void scales(const uint8_t* g, Lanes* scales, Lanes*, int64_t) {
    store(*scales, load_halves(g));
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int, Quads& w) {
    nibbles(g + 16, w);
    subtract(8, w);
  }
};

struct Q4_1 {
  static constexpr int kGroupBytes = 20 * 8, kBlocks = 1, kHalves = 1;
  static constexpr bool kMins = true;
  static constexpr bool kScaled = false;
  static constexpr Sign kSign = Sign::plain;
  static constexpr int kDepth = 8;
  [[gnu::always_inline]] static void scales(const uint8_t* g, Lanes* scales, Lanes* mins, int64_t) {
    store(*scales, load_halves(g));
    store(*mins, _mm256_sub_ps(_mm256_setzero_ps(), load_halves(g + 16)));
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int, Quads& w) { nibbles(g + 32, w); }
};

struct Q5_0 {
  static constexpr int kGroupBytes = 22 * 8, kBlocks = 1, kHalves = 1;
  static constexpr bool kMins = false;
  static constexpr bool kScaled = false;
  static constexpr Sign kSign = Sign::offset;
  static constexpr int kDepth = 8;
  [[gnu::always_inline]] static void scales(const uint8_t* g, Lanes* scales, Lanes*, int64_t) {
    store(*scales, load_halves(g));
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int, Quads& w) {
    nibbles(g + 48, w);
    add_bit_signed<16>(g + 16, w);
  }
};

struct Q5_1 {
  static constexpr int kGroupBytes = 24 * 8, kBlocks = 1, kHalves = 1;
  static constexpr bool kMins = true;
  static constexpr bool kScaled = false;
  static constexpr Sign kSign = Sign::plain;
  static constexpr int kDepth = 4;
  [[gnu::always_inline]] static void scales(const uint8_t* g, Lanes* scales, Lanes* mins, int64_t stride) {
    Q4_1::scales(g, scales, mins, stride);
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int, Quads& w) {
    nibbles(g + 64, w);
    add_bit(g + 32, w);
  }
};

struct Q8_0 {
  static constexpr int kGroupBytes = 34 * 8, kBlocks = 1, kHalves = 1;
  static constexpr bool kMins = false;
  static constexpr bool kScaled = false;
  static constexpr Sign kSign = Sign::wide;
  static constexpr int kDepth = 1;
  [[gnu::always_inline]] static void scales(const uint8_t* g, Lanes* scales, Lanes*, int64_t) {
    store(*scales, load_halves(g));
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int, Quads& w) {
    for (int i = 0; i < 8; ++i) w.q[i] = load(g + 16 + 32 * i);
  }
};

struct IQ4_NL {
  static constexpr int kGroupBytes = 18 * 8, kBlocks = 1, kHalves = 1;
  static constexpr bool kMins = false;
  static constexpr bool kScaled = false;
  static constexpr Sign kSign = Sign::wide;
  static constexpr int kDepth = 1;
  [[gnu::always_inline]] static __m128i table() {
    return _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
  }
  [[gnu::always_inline]] static void scales(const uint8_t* g, Lanes* scales, Lanes*, int64_t) {
    store(*scales, load_halves(g));
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int, Quads& w) {
    nibbles(g + 16, w);
    look_up(table(), w);
  }
};

struct MXFP4 {
  static constexpr int kGroupBytes = 17 * 8, kBlocks = 1, kHalves = 1;
  static constexpr bool kMins = false;
  static constexpr bool kScaled = false;
  static constexpr Sign kSign = Sign::offset;
  static constexpr int kDepth = 8;
  // 2^(e - 128), half of the type's scale, as the values of the table are doubled; subnormal for e under 2.
  [[gnu::always_inline]] static void scales(const uint8_t* g, Lanes* scales, Lanes*, int64_t) {
    const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(g)));
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i is_normal = _mm256_cmpgt_epi32(e, one);
    store(*scales, _mm256_blendv_epi8(small, normal, is_normal));
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int, Quads& w) {
    nibbles(g + 8, w);
    look_up(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12), w);
  }
};

struct Q2_K {
  static constexpr int kGroupBytes = 84 * 8, kBlocks = 8, kHalves = 2;
  static constexpr bool kMins = true;
  static constexpr bool kScaled = true;
  static constexpr Sign kSign = Sign::plain;
  static constexpr int kDepth = 4;
  [[gnu::always_inline]] static void scales(const uint8_t* g, Lanes* scales, Lanes* mins, int64_t stride) {
    const __m256i mask = bytes(0x0F);
    for (int i = 0; i < 4; ++i) {
      const __m256i v = load(g + 32 + 32 * i);
      store_pairs<false>(_mm256_and_si256(v, mask), scales + 4 * i * stride, stride);
      store_floats(field<-4>(v, mask), mins + 4 * i * stride, stride);
    }
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int block, Quads& w) { two_bits(g + 160 + 64 * block, w); }
};

struct Q3_K {
  static constexpr int kGroupBytes = 110 * 8, kBlocks = 8, kHalves = 2;
  static constexpr bool kMins = false;
  static constexpr bool kScaled = true;
  static constexpr Sign kSign = Sign::offset;
  static constexpr int kDepth = 4;
  // Scale i is 6 bits less 32: the low 4 in byte i % 8 (its half i / 8), the top 2 in byte 8 + i % 4, bits 2 (i / 4).
  [[gnu::always_inline]] static void scales(const uint8_t* g, Lanes* scales, Lanes*, int64_t stride) {
    const __m256i low = bytes(0x0F);
    const __m256i top = bytes(0x30);
    const __m256i offset = bytes(32);
    const __m256i a = load(g + 16);
    const __m256i b = load(g + 48);
    const __m256i t = load(g + 80);
    const __m256i s[4] = {with_field<4>(_mm256_and_si256(a, low), t, top),
                          with_field<2>(_mm256_and_si256(b, low), t, top), with_field<0>(field<-4>(a, low), t, top),
                          with_field<-2>(field<-4>(b, low), t, top)};
    for (int i = 0; i < 4; ++i) {
      store_pairs<true>(_mm256_sub_epi8(s[i], offset), scales + 4 * i * stride, stride);
    }
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int block, Quads& w) {
    const uint8_t* words = g + 112 + 96 * block;
    two_bits(words + 32, w);
    add_bit_signed<4>(words, w);
  }
};

struct Q4_K {
  static constexpr int kGroupBytes = 144 * 8, kBlocks = 8, kHalves = 1;
  static constexpr bool kMins = true;
  static constexpr bool kScaled = true;
  static constexpr Sign kSign = Sign::plain;
  static constexpr int kDepth = 8;
  // Scales and minima of 6 bits: those of sub-blocks 0 ... 3 in the low 6 bits of bytes 0 ... 3 and 4 ... 7; of 4 ... 7
  // the low 4 bits in the halves of bytes 8 ... 11, the top 2 in the top bits of bytes 0 ... 3 and 4 ... 7.
  [[gnu::always_inline]] static void scales(const uint8_t* g, Lanes* scales, Lanes* mins, int64_t stride) {
    const __m256i six = bytes(0x3F);
    const __m256i low = bytes(0x0F);
    const __m256i top = bytes(0x30);
    const __m256i a = load(g + 32);
    const __m256i b = load(g + 64);
    const __m256i c = load(g + 96);
    store_pairs<false>(_mm256_and_si256(a, six), scales, stride);
    store_pairs<false>(with_field<-2>(_mm256_and_si256(c, low), a, top), scales + 4 * stride, stride);
    store_floats(_mm256_and_si256(b, six), mins, stride);
    store_floats(with_field<-2>(field<-4>(c, low), b, top), mins + 4 * stride, stride);
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int block, Quads& w) { nibbles(g + 128 + 128 * block, w); }
};

struct Q5_K {
  static constexpr int kGroupBytes = 176 * 8, kBlocks = 8, kHalves = 1;
  static constexpr bool kMins = true;
  static constexpr bool kScaled = true;
  static constexpr Sign kSign = Sign::plain;
  static constexpr int kDepth = 4;
  [[gnu::always_inline]] static void scales(const uint8_t* g, Lanes* scales, Lanes* mins, int64_t stride) {
    Q4_K::scales(g, scales, mins, stride);
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int block, Quads& w) {
    const uint8_t* words = g + 128 + 160 * block;
    nibbles(words + 32, w);
    add_bit(words, w);
  }
};

struct Q6_K {
  static constexpr int kGroupBytes = 210 * 8, kBlocks = 8, kHalves = 2;
  static constexpr bool kMins = false;
  static constexpr bool kScaled = true;
  static constexpr Sign kSign = Sign::offset;
  static constexpr int kDepth = 4;
  [[gnu::always_inline]] static void scales(const uint8_t* g, Lanes* scales, Lanes*, int64_t stride) {
    for (int i = 0; i < 4; ++i) {
      store_pairs<true>(load(g + 16 + 32 * i), scales + 4 * i * stride, stride);
    }
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int block, Quads& w) {
    const uint8_t* words = g + 144 + 192 * block;
    nibbles(words, w);
    add_two_bits(words + 128, w);
  }
};

struct IQ4_XS {
  static constexpr int kGroupBytes = 136 * 8, kBlocks = 8, kHalves = 1;
  static constexpr bool kMins = false;
  static constexpr bool kScaled = false;
  static constexpr Sign kSign = Sign::wide;
  static constexpr int kDepth = 1;
  // Scale i is 6 bits less 32: the low 4 in half i % 2 of byte i / 2, the top 2 in bits 2 i of a 16-bit field.
  [[gnu::always_inline]] static void scales(const uint8_t* g, Lanes* scales, Lanes*, int64_t stride) {
    const __m256 d = load_halves(g);
    const __m256i top = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(g + 16)));
    for (int i = 0; i < 8; ++i) {
      const __m256i low = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(g + 32 + 8 * (i / 2))));
      const __m256i low4 =
          _mm256_and_si256(_mm256_srlv_epi32(low, _mm256_set1_epi32(4 * (i % 2))), _mm256_set1_epi32(0x0F));
      const __m256i top2 = _mm256_and_si256(_mm256_srlv_epi32(top, _mm256_set1_epi32(2 * i)), _mm256_set1_epi32(0x03));
      const __m256i scale = _mm256_sub_epi32(_mm256_or_si256(low4, _mm256_slli_epi32(top2, 4)), _mm256_set1_epi32(32));
      store(scales[i * stride], _mm256_mul_ps(_mm256_cvtepi32_ps(scale), d));
    }
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int block, Quads& w) {
    nibbles(g + 64 + 128 * block, w);
    look_up(IQ4_NL::table(), w);
  }
};

}  // namespace
}  // namespace minfer::cpu::avx2
