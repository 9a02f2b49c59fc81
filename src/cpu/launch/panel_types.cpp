// The reordering of each quantized type's block, on 32-bit words of 4 consecutive quants. See panel.hpp for the order
// in a panel; the order in the file is that of the ggml format (ggml-common.h, ggml-quants.c). Oracle: the codecs in
// tensor/quant (dequantize_panel_row goes back through the file's order).
#include "cpu/launch/panel_types.hpp"

#include <array>
#include <cstring>

namespace minfer::cpu {
namespace {

constexpr int kQuads = 8;      // words of 4 quants in a sub-block of 32
constexpr int kSubBlocks = 8;  // sub-blocks in a group of 256
constexpr int kMaxWords = 64;
constexpr uint32_t kOneBit = 0x01010101;
constexpr uint32_t kTwoBits = 0x03030303;
constexpr uint32_t kFourBits = 0x0F0F0F0F;

using Words = std::array<uint32_t, kMaxWords>;

void load_words(const std::byte* source, int count, uint32_t* words) {
  std::memcpy(words, source, static_cast<size_t>(count) * sizeof(uint32_t));
}

void store_words(const uint32_t* words, int count, std::byte* destination) {
  std::memcpy(destination, words, static_cast<size_t>(count) * sizeof(uint32_t));
}

template <int kBytes>
void copy_block(const std::byte* source, std::byte* destination) {
  std::memcpy(destination, source, kBytes);
}

// The 8 bits at 0, 4, ... 28 of `bits`, as a byte, and back.
uint32_t gather_every_fourth(uint32_t bits) {
  bits &= 0x11111111;
  bits = (bits | bits >> 3) & 0x03030303;
  bits = (bits | bits >> 6) & 0x000F000F;
  return (bits | bits >> 12) & 0xFF;
}

uint32_t spread_every_fourth(uint32_t byte) {
  uint32_t bits = (byte | byte << 12) & 0x000F000F;
  bits = (bits | bits << 6) & 0x03030303;
  return (bits | bits << 3) & 0x11111111;
}

// Q5_0 (kHeader 2) and Q5_1 (kHeader 4): the file has bit e of a 32-bit mask for element e.
template <int kHeader>
void arrange_q5(const std::byte* source, std::byte* destination) {
  copy_block<kHeader + 20>(source, destination);
  uint32_t mask = 0;
  load_words(source + kHeader, 1, &mask);
  uint32_t plane = 0;
  for (int j = 0; j < 4; ++j) plane |= gather_every_fourth(mask >> j) << (8 * j);
  store_words(&plane, 1, destination + kHeader);
}

template <int kHeader>
void restore_q5(const std::byte* source, std::byte* destination) {
  copy_block<kHeader + 20>(source, destination);
  uint32_t plane = 0;
  load_words(source + kHeader, 1, &plane);
  uint32_t mask = 0;
  for (int j = 0; j < 4; ++j) mask |= spread_every_fourth(plane >> (8 * j) & 0xFF) << j;
  store_words(&mask, 1, destination + kHeader);
}

// Top bits of Q3_K and Q5_K: the file has bit s of byte l for element l of sub-block s; a panel one word a sub-block.
// The transposition of an 8 by 8 matrix of bits in each of the 4 byte columns: its own inverse.
void transpose_bits(const uint32_t* source, uint32_t* destination, int destination_stride) {
  for (int s = 0; s < kSubBlocks; ++s) {
    uint32_t word = 0;
    for (int i = 0; i < kQuads; ++i) word |= (source[i] >> s & kOneBit) << i;
    destination[s * destination_stride] = word;
  }
}

void restore_bits(const uint32_t* source, int source_stride, uint32_t* destination) {
  uint32_t rows[kSubBlocks];
  for (int s = 0; s < kSubBlocks; ++s) rows[s] = source[s * source_stride];
  transpose_bits(rows, destination, 1);
}

// Low 4 bits of Q4_K and Q5_K: the file pairs sub-blocks 2 p and 2 p + 1 in the halves of 8 words; a panel pairs
// quads i and i + 4 of one sub-block.
void pair_quads(const uint32_t* source, uint32_t* destination, int destination_stride) {
  for (int p = 0; p < kSubBlocks / 2; ++p) {
    const uint32_t* in = source + kQuads * p;
    uint32_t* even = destination + 2 * p * destination_stride;
    uint32_t* odd = even + destination_stride;
    for (int i = 0; i < 4; ++i) {
      even[i] = (in[i] & kFourBits) | (in[i + 4] & kFourBits) << 4;
      odd[i] = (in[i] >> 4 & kFourBits) | (in[i + 4] & ~kFourBits);
    }
  }
}

void unpair_quads(const uint32_t* source, int source_stride, uint32_t* destination) {
  for (int p = 0; p < kSubBlocks / 2; ++p) {
    const uint32_t* even = source + 2 * p * source_stride;
    const uint32_t* odd = even + source_stride;
    uint32_t* out = destination + kQuads * p;
    for (int i = 0; i < 4; ++i) {
      out[i] = (even[i] & kFourBits) | (odd[i] & kFourBits) << 4;
      out[i + 4] = (even[i] >> 4 & kFourBits) | (odd[i] & ~kFourBits);
    }
  }
}

// 2 bits of Q2_K, Q3_K and Q6_K: the file has sub-block 4 h + j in bits 2 j of words 8 h ... 8 h + 7; a panel has
// quad i in bits 2 (i % 4) of word i / 4 of the sub-block. A transposition again.
void gather_two_bits(const uint32_t* source, uint32_t* destination, int destination_stride) {
  for (int s = 0; s < kSubBlocks; ++s) {
    const uint32_t* in = source + kQuads * (s / 4);
    const int shift = 2 * (s % 4);
    for (int half = 0; half < 2; ++half) {
      uint32_t word = 0;
      for (int i = 0; i < 4; ++i) word |= (in[4 * half + i] >> shift & kTwoBits) << (2 * i);
      destination[s * destination_stride + half] = word;
    }
  }
}

void scatter_two_bits(const uint32_t* source, int source_stride, uint32_t* destination) {
  for (int h = 0; h < 2; ++h) {
    for (int i = 0; i < kQuads; ++i) {
      uint32_t word = 0;
      for (int j = 0; j < 4; ++j) {
        const uint32_t in = source[(4 * h + j) * source_stride + i / 4];
        word |= (in >> (2 * (i % 4)) & kTwoBits) << (2 * j);
      }
      destination[kQuads * h + i] = word;
    }
  }
}

void arrange_q4_k(const std::byte* source, std::byte* destination) {
  Words in;
  Words out;
  std::memcpy(destination, source, 16);
  load_words(source + 16, 32, in.data());
  pair_quads(in.data(), out.data(), 4);
  store_words(out.data(), 32, destination + 16);
}

void restore_q4_k(const std::byte* source, std::byte* destination) {
  Words in;
  Words out;
  std::memcpy(destination, source, 16);
  load_words(source + 16, 32, in.data());
  unpair_quads(in.data(), 4, out.data());
  store_words(out.data(), 32, destination + 16);
}

// File: d, dmin, scales[12], top bits[32], low bits[128].
void arrange_q5_k(const std::byte* source, std::byte* destination) {
  Words in;
  Words out;
  std::memcpy(destination, source, 16);
  load_words(source + 16, 40, in.data());
  transpose_bits(in.data(), out.data(), 5);
  pair_quads(in.data() + 8, out.data() + 1, 5);
  store_words(out.data(), 40, destination + 16);
}

void restore_q5_k(const std::byte* source, std::byte* destination) {
  Words in;
  Words out;
  std::memcpy(destination, source, 16);
  load_words(source + 16, 40, in.data());
  restore_bits(in.data(), 5, out.data());
  unpair_quads(in.data() + 1, 5, out.data() + 8);
  store_words(out.data(), 40, destination + 16);
}

// File: scales[16], quants[64], d, dmin.
void arrange_q2_k(const std::byte* source, std::byte* destination) {
  Words in;
  Words out;
  std::memcpy(destination, source + 80, 4);
  std::memcpy(destination + 4, source, 16);
  load_words(source + 16, 16, in.data());
  gather_two_bits(in.data(), out.data(), 2);
  store_words(out.data(), 16, destination + 20);
}

void restore_q2_k(const std::byte* source, std::byte* destination) {
  Words in;
  Words out;
  std::memcpy(destination + 80, source, 4);
  std::memcpy(destination, source + 4, 16);
  load_words(source + 20, 16, in.data());
  scatter_two_bits(in.data(), 2, out.data());
  store_words(out.data(), 16, destination + 16);
}

// File: top bits[32], quants[64], scales[12], d.
void arrange_q3_k(const std::byte* source, std::byte* destination) {
  Words in;
  Words out;
  std::memcpy(destination, source + 108, 2);
  std::memcpy(destination + 2, source + 96, 12);
  load_words(source, 24, in.data());
  transpose_bits(in.data(), out.data(), 3);
  gather_two_bits(in.data() + 8, out.data() + 1, 3);
  store_words(out.data(), 24, destination + 14);
}

void restore_q3_k(const std::byte* source, std::byte* destination) {
  Words in;
  Words out;
  std::memcpy(destination + 108, source, 2);
  std::memcpy(destination + 96, source + 2, 12);
  load_words(source + 14, 24, in.data());
  restore_bits(in.data(), 3, out.data());
  scatter_two_bits(in.data() + 1, 3, out.data() + 8);
  store_words(out.data(), 24, destination);
}

// File: low bits[128], top bits[64], scales[16], d. In the low bits sub-block 4 h + j is in half j / 2 of words
// 16 h + 8 (j % 2) ... + 7.
void arrange_q6_k(const std::byte* source, std::byte* destination) {
  Words in;
  Words out;
  std::memcpy(destination, source + 208, 2);
  std::memcpy(destination + 2, source + 192, 16);
  load_words(source, 48, in.data());
  for (int s = 0; s < kSubBlocks; ++s) {
    const uint32_t* low = in.data() + 16 * (s / 4) + 8 * (s % 2);
    const int shift = 4 * (s / 2 % 2);
    for (int i = 0; i < 4; ++i) {
      out[6 * s + i] = (low[i] >> shift & kFourBits) | (low[i + 4] >> shift & kFourBits) << 4;
    }
  }
  gather_two_bits(in.data() + 32, out.data() + 4, 6);
  store_words(out.data(), 48, destination + 18);
}

void restore_q6_k(const std::byte* source, std::byte* destination) {
  Words in;
  Words out{};
  std::memcpy(destination + 208, source, 2);
  std::memcpy(destination + 192, source + 2, 16);
  load_words(source + 18, 48, in.data());
  for (int s = 0; s < kSubBlocks; ++s) {
    uint32_t* low = out.data() + 16 * (s / 4) + 8 * (s % 2);
    const int shift = 4 * (s / 2 % 2);
    for (int i = 0; i < 4; ++i) {
      low[i] |= (in[6 * s + i] & kFourBits) << shift;
      low[i + 4] |= (in[6 * s + i] >> 4 & kFourBits) << shift;
    }
  }
  scatter_two_bits(in.data() + 4, 6, out.data() + 32);
  store_words(out.data(), 48, destination);
}

using tensor::DType;

// Elements, halves, bytes, words.
constexpr std::array kTypes = {
    PanelType{DType::q4_0, 32, 1, 0, 4, copy_block<18>, copy_block<18>},
    PanelType{DType::q4_1, 32, 2, 0, 4, copy_block<20>, copy_block<20>},
    PanelType{DType::q5_0, 32, 1, 0, 5, arrange_q5<2>, restore_q5<2>},
    PanelType{DType::q5_1, 32, 2, 0, 5, arrange_q5<4>, restore_q5<4>},
    PanelType{DType::q8_0, 32, 1, 0, 8, copy_block<34>, copy_block<34>},
    PanelType{DType::q2_k, 256, 2, 16, 16, arrange_q2_k, restore_q2_k},
    PanelType{DType::q3_k, 256, 1, 12, 24, arrange_q3_k, restore_q3_k},
    PanelType{DType::q4_k, 256, 2, 12, 32, arrange_q4_k, restore_q4_k},
    PanelType{DType::q5_k, 256, 2, 12, 40, arrange_q5_k, restore_q5_k},
    PanelType{DType::q6_k, 256, 1, 16, 48, arrange_q6_k, restore_q6_k},
    PanelType{DType::iq4_nl, 32, 1, 0, 4, copy_block<18>, copy_block<18>},
    PanelType{DType::iq4_xs, 256, 2, 4, 32, copy_block<136>, copy_block<136>},
    PanelType{DType::mxfp4, 32, 0, 1, 4, copy_block<17>, copy_block<17>},
};

constexpr bool groups_fit() {
  for (const PanelType& type : kTypes) {
    if (type.group_bytes() > kMaxGroupBytes || type.words > kMaxWords) return false;
  }
  return true;
}
static_assert(groups_fit());

}  // namespace

const PanelType* find_panel_type(tensor::DType dtype) {
  for (const PanelType& type : kTypes) {
    if (type.dtype == dtype) return &type;
  }
  return nullptr;
}

}  // namespace minfer::cpu
