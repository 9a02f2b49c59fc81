// How AVX-512 reads each quantized type from a panel of 16 rows (see launch/panel.hpp): the float scales of a group,
// and the quants of a sub-block of 32 as 8 vectors of 16 rows x 4 bytes. Only for the sources in this folder.
//
// A format has:
//   kGroupBytes, kBlocks    bytes of a group of the panel, and its sub-blocks of 32
//   kHalves                 scales a sub-block: 1, or 2 (one for 16 elements)
//   kMins                   whether a minimum goes with each scale: w = scale * q - min
//   kSigned                 quants in int8 with their offset taken off; else unsigned from 0
//   scales(group, scales, mins, stride)   writes kBlocks * kHalves vectors of 16 floats, `stride` floats apart
//   quads(group, block, w)
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace minfer::cpu::avx512 {
namespace {

struct alignas(64) Quads {
  __m512i q[8];
};

[[gnu::always_inline]] inline __m512i load(const uint8_t* p) {
  return _mm512_loadu_si512(p);
}
[[gnu::always_inline]] inline __m512 load_halves(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
[[gnu::always_inline]] inline __m512i bytes(int value) {
  return _mm512_set1_epi8(static_cast<char>(value));
}
// Bits of v moved left (or right) by a constant, then masked to whole bytes.
template <int kShift>
[[gnu::always_inline]] inline __m512i moved(__m512i v) {
  if constexpr (kShift > 0) return _mm512_slli_epi16(v, kShift);
  if constexpr (kShift < 0) return _mm512_srli_epi16(v, -kShift);
  return v;
}
template <int kShift>
[[gnu::always_inline]] inline __m512i field(__m512i v, __m512i mask) {
  return _mm512_and_si512(moved<kShift>(v), mask);
}
// a | (moved v & mask)
template <int kShift>
[[gnu::always_inline]] inline __m512i with_field(__m512i a, __m512i v, __m512i mask) {
  return _mm512_ternarylogic_epi32(a, moved<kShift>(v), mask, 0xF8);
}

[[gnu::always_inline]] inline void nibbles(const uint8_t* words, Quads& w) {
  const __m512i mask = bytes(0x0F);
  for (int i = 0; i < 4; ++i) {
    const __m512i v = load(words + 64 * i);
    w.q[i] = _mm512_and_si512(v, mask);
    w.q[i + 4] = field<-4>(v, mask);
  }
}
// Bit i of the plane's bytes becomes bit kTo of quad i.
template <int kTo>
[[gnu::always_inline]] inline void add_bit(const uint8_t* plane, Quads& w) {
  const __m512i v = load(plane);
  const __m512i mask = bytes(1 << kTo);
  w.q[0] = with_field<kTo>(w.q[0], v, mask);
  w.q[1] = with_field<kTo - 1>(w.q[1], v, mask);
  w.q[2] = with_field<kTo - 2>(w.q[2], v, mask);
  w.q[3] = with_field<kTo - 3>(w.q[3], v, mask);
  w.q[4] = with_field<kTo - 4>(w.q[4], v, mask);
  w.q[5] = with_field<kTo - 5>(w.q[5], v, mask);
  w.q[6] = with_field<kTo - 6>(w.q[6], v, mask);
  w.q[7] = with_field<kTo - 7>(w.q[7], v, mask);
}
// Bits 2 i, 2 i + 1 of two planes become bits kTo, kTo + 1 of quads i and 4 + i.
template <int kTo>
[[gnu::always_inline]] inline void add_two_bits(const uint8_t* planes, Quads& w) {
  const __m512i mask = bytes(3 << kTo);
  for (int h = 0; h < 2; ++h) {
    const __m512i v = load(planes + 64 * h);
    __m512i* q = w.q + 4 * h;
    q[0] = with_field<kTo>(q[0], v, mask);
    q[1] = with_field<kTo - 2>(q[1], v, mask);
    q[2] = with_field<kTo - 4>(q[2], v, mask);
    q[3] = with_field<kTo - 6>(q[3], v, mask);
  }
}
[[gnu::always_inline]] inline void subtract(int offset, Quads& w) {
  for (__m512i& q : w.q) q = _mm512_sub_epi8(q, bytes(offset));
}
[[gnu::always_inline]] inline void look_up(__m128i table, Quads& w) {
  const __m512i wide = _mm512_broadcast_i32x4(table);
  for (__m512i& q : w.q) q = _mm512_shuffle_epi8(wide, q);
}
[[gnu::always_inline]] inline void clear(Quads& w) {
  for (__m512i& q : w.q) q = _mm512_setzero_si512();
}

// Four vectors of 16 signed or unsigned bytes in `v`, times `factor`, as floats.
template <bool kSignedBytes>
[[gnu::always_inline]] inline void store_scaled(__m512i v, __m512 factor, float* out, int64_t stride) {
  const __m128i parts[4] = {_mm512_castsi512_si128(v), _mm512_extracti32x4_epi32(v, 1), _mm512_extracti32x4_epi32(v, 2),
                            _mm512_extracti32x4_epi32(v, 3)};
  for (int i = 0; i < 4; ++i) {
    const __m512i wide = kSignedBytes ? _mm512_cvtepi8_epi32(parts[i]) : _mm512_cvtepu8_epi32(parts[i]);
    _mm512_store_ps(out + i * stride, _mm512_mul_ps(_mm512_cvtepi32_ps(wide), factor));
  }
}

struct Q4_0 {
  static constexpr int kGroupBytes = 18 * 16, kBlocks = 1, kHalves = 1;
  static constexpr bool kMins = false, kSigned = true;
  [[gnu::always_inline]] static void scales(const uint8_t* g, float* scales, float*, int64_t) {
    _mm512_store_ps(scales, load_halves(g));
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int, Quads& w) {
    nibbles(g + 32, w);
    subtract(8, w);
  }
};

struct Q4_1 {
  static constexpr int kGroupBytes = 20 * 16, kBlocks = 1, kHalves = 1;
  static constexpr bool kMins = true, kSigned = false;
  [[gnu::always_inline]] static void scales(const uint8_t* g, float* scales, float* mins, int64_t) {
    _mm512_store_ps(scales, load_halves(g));
    _mm512_store_ps(mins, _mm512_sub_ps(_mm512_setzero_ps(), load_halves(g + 32)));
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int, Quads& w) { nibbles(g + 64, w); }
};

struct Q5_0 {
  static constexpr int kGroupBytes = 22 * 16, kBlocks = 1, kHalves = 1;
  static constexpr bool kMins = false, kSigned = true;
  [[gnu::always_inline]] static void scales(const uint8_t* g, float* scales, float*, int64_t) {
    _mm512_store_ps(scales, load_halves(g));
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int, Quads& w) {
    nibbles(g + 96, w);
    add_bit<4>(g + 32, w);
    subtract(16, w);
  }
};

struct Q5_1 {
  static constexpr int kGroupBytes = 24 * 16, kBlocks = 1, kHalves = 1;
  static constexpr bool kMins = true, kSigned = false;
  [[gnu::always_inline]] static void scales(const uint8_t* g, float* scales, float* mins, int64_t stride) {
    Q4_1::scales(g, scales, mins, stride);
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int, Quads& w) {
    nibbles(g + 128, w);
    add_bit<4>(g + 64, w);
  }
};

struct Q8_0 {
  static constexpr int kGroupBytes = 34 * 16, kBlocks = 1, kHalves = 1;
  static constexpr bool kMins = false, kSigned = true;
  [[gnu::always_inline]] static void scales(const uint8_t* g, float* scales, float*, int64_t) {
    _mm512_store_ps(scales, load_halves(g));
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int, Quads& w) {
    for (int i = 0; i < 8; ++i) w.q[i] = load(g + 32 + 64 * i);
  }
};

struct IQ4_NL {
  static constexpr int kGroupBytes = 18 * 16, kBlocks = 1, kHalves = 1;
  static constexpr bool kMins = false, kSigned = true;
  [[gnu::always_inline]] static __m128i table() {
    return _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
  }
  [[gnu::always_inline]] static void scales(const uint8_t* g, float* scales, float*, int64_t) {
    _mm512_store_ps(scales, load_halves(g));
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int, Quads& w) {
    nibbles(g + 32, w);
    look_up(table(), w);
  }
};

struct MXFP4 {
  static constexpr int kGroupBytes = 17 * 16, kBlocks = 1, kHalves = 1;
  static constexpr bool kMins = false, kSigned = true;
  // 2^(e - 128), half of the type's scale, as the values of the table are doubled; subnormal for e under 2.
  [[gnu::always_inline]] static void scales(const uint8_t* g, float* scales, float*, int64_t) {
    const __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(g)));
    const __m512i one = _mm512_set1_epi32(1);
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
    const __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    const __mmask16 is_small = _mm512_cmple_epu32_mask(e, one);
    _mm512_store_si512(scales, _mm512_mask_mov_epi32(normal, is_small, small));
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int, Quads& w) {
    nibbles(g + 16, w);
    look_up(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12), w);
  }
};

struct Q2_K {
  static constexpr int kGroupBytes = 84 * 16, kBlocks = 8, kHalves = 2;
  static constexpr bool kMins = true, kSigned = false;
  [[gnu::always_inline]] static void scales(const uint8_t* g, float* scales, float* mins, int64_t stride) {
    const __m512 d = load_halves(g);
    const __m512 dmin = load_halves(g + 32);
    const __m512i mask = bytes(0x0F);
    for (int i = 0; i < 4; ++i) {
      const __m512i v = load(g + 64 + 64 * i);
      store_scaled<false>(_mm512_and_si512(v, mask), d, scales + 4 * i * stride, stride);
      store_scaled<false>(field<-4>(v, mask), dmin, mins + 4 * i * stride, stride);
    }
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int block, Quads& w) {
    clear(w);
    add_two_bits<0>(g + 320 + 128 * block, w);
  }
};

struct Q3_K {
  static constexpr int kGroupBytes = 110 * 16, kBlocks = 8, kHalves = 2;
  static constexpr bool kMins = false, kSigned = true;
  // Scale i is 6 bits less 32: the low 4 in byte i % 8 (its half i / 8), the top 2 in byte 8 + i % 4, bits 2 (i / 4).
  [[gnu::always_inline]] static void scales(const uint8_t* g, float* scales, float*, int64_t stride) {
    const __m512 d = load_halves(g);
    const __m512i low = bytes(0x0F);
    const __m512i top = bytes(0x30);
    const __m512i offset = bytes(32);
    const __m512i a = load(g + 32);
    const __m512i b = load(g + 96);
    const __m512i t = load(g + 160);
    const __m512i s[4] = {with_field<4>(_mm512_and_si512(a, low), t, top),
                          with_field<2>(_mm512_and_si512(b, low), t, top), with_field<0>(field<-4>(a, low), t, top),
                          with_field<-2>(field<-4>(b, low), t, top)};
    for (int i = 0; i < 4; ++i) {
      store_scaled<true>(_mm512_sub_epi8(s[i], offset), d, scales + 4 * i * stride, stride);
    }
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int block, Quads& w) {
    const uint8_t* words = g + 224 + 192 * block;
    clear(w);
    add_two_bits<0>(words + 64, w);
    add_bit<2>(words, w);
    subtract(4, w);
  }
};

struct Q4_K {
  static constexpr int kGroupBytes = 144 * 16, kBlocks = 8, kHalves = 1;
  static constexpr bool kMins = true, kSigned = false;
  // Scales and minima of 6 bits: those of sub-blocks 0 ... 3 in the low 6 bits of bytes 0 ... 3 and 4 ... 7; of 4 ... 7
  // the low 4 bits in the halves of bytes 8 ... 11, the top 2 in the top bits of bytes 0 ... 3 and 4 ... 7.
  [[gnu::always_inline]] static void scales(const uint8_t* g, float* scales, float* mins, int64_t stride) {
    const __m512 d = load_halves(g);
    const __m512 dmin = load_halves(g + 32);
    const __m512i six = bytes(0x3F);
    const __m512i low = bytes(0x0F);
    const __m512i top = bytes(0x30);
    const __m512i a = load(g + 64);
    const __m512i b = load(g + 128);
    const __m512i c = load(g + 192);
    store_scaled<false>(_mm512_and_si512(a, six), d, scales, stride);
    store_scaled<false>(with_field<-2>(_mm512_and_si512(c, low), a, top), d, scales + 4 * stride, stride);
    store_scaled<false>(_mm512_and_si512(b, six), dmin, mins, stride);
    store_scaled<false>(with_field<-2>(field<-4>(c, low), b, top), dmin, mins + 4 * stride, stride);
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int block, Quads& w) { nibbles(g + 256 + 256 * block, w); }
};

struct Q5_K {
  static constexpr int kGroupBytes = 176 * 16, kBlocks = 8, kHalves = 1;
  static constexpr bool kMins = true, kSigned = false;
  [[gnu::always_inline]] static void scales(const uint8_t* g, float* scales, float* mins, int64_t stride) {
    Q4_K::scales(g, scales, mins, stride);
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int block, Quads& w) {
    const uint8_t* words = g + 256 + 320 * block;
    nibbles(words + 64, w);
    add_bit<4>(words, w);
  }
};

struct Q6_K {
  static constexpr int kGroupBytes = 210 * 16, kBlocks = 8, kHalves = 2;
  static constexpr bool kMins = false, kSigned = true;
  [[gnu::always_inline]] static void scales(const uint8_t* g, float* scales, float*, int64_t stride) {
    const __m512 d = load_halves(g);
    for (int i = 0; i < 4; ++i) {
      store_scaled<true>(load(g + 32 + 64 * i), d, scales + 4 * i * stride, stride);
    }
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int block, Quads& w) {
    const uint8_t* words = g + 288 + 384 * block;
    nibbles(words, w);
    add_two_bits<4>(words + 256, w);
    subtract(32, w);
  }
};

struct IQ4_XS {
  static constexpr int kGroupBytes = 136 * 16, kBlocks = 8, kHalves = 1;
  static constexpr bool kMins = false, kSigned = true;
  // Scale i is 6 bits less 32: the low 4 in half i % 2 of byte i / 2, the top 2 in bits 2 i of a 16-bit field.
  [[gnu::always_inline]] static void scales(const uint8_t* g, float* scales, float*, int64_t stride) {
    const __m512 d = load_halves(g);
    const __m512i top = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(g + 32)));
    for (int i = 0; i < 8; ++i) {
      const __m512i low =
          _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(g + 64 + 16 * (i / 2))));
      const __m512i low4 =
          _mm512_and_si512(_mm512_srlv_epi32(low, _mm512_set1_epi32(4 * (i % 2))), _mm512_set1_epi32(0x0F));
      const __m512i top2 = _mm512_and_si512(_mm512_srlv_epi32(top, _mm512_set1_epi32(2 * i)), _mm512_set1_epi32(0x03));
      const __m512i scale = _mm512_sub_epi32(_mm512_or_si512(low4, _mm512_slli_epi32(top2, 4)), _mm512_set1_epi32(32));
      _mm512_store_ps(scales + i * stride, _mm512_mul_ps(_mm512_cvtepi32_ps(scale), d));
    }
  }
  [[gnu::always_inline]] static void quads(const uint8_t* g, int block, Quads& w) {
    nibbles(g + 128 + 256 * block, w);
    look_up(IQ4_NL::table(), w);
  }
};

}  // namespace
}  // namespace minfer::cpu::avx512
