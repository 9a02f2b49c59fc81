// Writing synthetic models. See synthetic.hpp. The mixes follow llama-quantize's: under q4_k_m and q5_k_m the value and
// down projections of an eighth of the layers at each end and of every third between are Q6_K, and so is the output
// matrix; rows that are no whole super-blocks fall back to a type of 32-element blocks.
#include "model/synthetic.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "base/error.hpp"
#include "gguf/writer.hpp"
#include "model/arch.hpp"
#include "tensor/dtype.hpp"

namespace minfer::model {
namespace {

using tensor::DType;

struct Shape {
  std::string_view name;
  std::string_view architecture;
  int64_t layers, width, ffn_width, heads, kv_heads, head_size, vocabulary;
  bool tied;
  // Of experts; 0: none.
  int64_t experts = 0, experts_used = 0, expert_ffn_width = 0, shared_ffn_width = 0;
  int64_t window = 0;  // 0: none
};

constexpr Shape kShapes[] = {
    {"smollm2-135m", "llama", 30, 576, 1536, 9, 3, 64, 49152, true},
    {"llama3.2-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256, true},
    {"llama3.1-8b", "llama", 32, 4096, 14336, 32, 8, 128, 128256, false},
    {"mistral-7b", "llama", 32, 4096, 14336, 32, 8, 128, 32000, false, 0, 0, 0, 0, 4096},
    {"gemma2-2b", "gemma2", 26, 2304, 9216, 8, 4, 256, 256000, true, 0, 0, 0, 0, 4096},
    {"phi4-mini", "phi3", 32, 3072, 8192, 24, 8, 128, 200064, true},
    {"smollm3-3b", "smollm3", 36, 2048, 11008, 16, 4, 128, 128256, true},
    {"glm4-9b", "glm4", 40, 4096, 13696, 32, 2, 128, 151552, false},
    {"qwen2.5-0.5b", "qwen2", 24, 896, 4864, 14, 2, 64, 151936, true},
    {"qwen2.5-1.5b", "qwen2", 28, 1536, 8960, 12, 2, 128, 151936, true},
    {"qwen2.5-7b", "qwen2", 28, 3584, 18944, 28, 4, 128, 152064, false},
    {"qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, true},
    {"qwen3-1.7b", "qwen3", 28, 2048, 6144, 16, 8, 128, 151936, true},
    {"qwen3-4b", "qwen3", 36, 2560, 9728, 32, 8, 128, 151936, true},
    {"qwen3-8b", "qwen3", 36, 4096, 12288, 32, 8, 128, 151936, false},
    {"qwen3-32b", "qwen3", 64, 5120, 25600, 64, 8, 128, 151936, false},
    {"qwen1.5-moe-a2.7b", "qwen2moe", 24, 2048, 5632, 16, 16, 128, 151936, false, 60, 4, 1408, 5632},
    {"qwen3-30b-a3b", "qwen3moe", 48, 2048, 6144, 32, 4, 128, 151936, false, 128, 8, 768},
    {"gpt-oss-20b", "gpt-oss", 24, 2880, 2880, 64, 8, 64, 201088, false, 32, 4, 2880, 0, 128},
    // No published one: the experts of the one above, half as many and as wide, in a model that fits a small machine.
    {"qwen3-2b-a0.4b", "qwen3moe", 16, 1024, 3072, 16, 4, 128, 151936, true, 64, 8, 512},
};

struct Mix {
  std::string_view name;
  DType base;
  DType high;    // of half the value and down projections
  DType output;  // of the output matrix, and of a tied embedding
};

constexpr Mix kMixes[] = {
    {"f32", DType::f32, DType::f32, DType::f32},           {"f16", DType::f16, DType::f16, DType::f16},
    {"bf16", DType::bf16, DType::bf16, DType::bf16},       {"q8_0", DType::q8_0, DType::q8_0, DType::q8_0},
    {"q6_k", DType::q6_k, DType::q6_k, DType::q6_k},       {"q5_k_m", DType::q5_k, DType::q6_k, DType::q6_k},
    {"q5_0", DType::q5_0, DType::q5_0, DType::q6_k},       {"q5_1", DType::q5_1, DType::q5_1, DType::q6_k},
    {"q4_k_m", DType::q4_k, DType::q6_k, DType::q6_k},     {"q4_0", DType::q4_0, DType::q4_0, DType::q6_k},
    {"q4_1", DType::q4_1, DType::q4_1, DType::q6_k},       {"iq4_nl", DType::iq4_nl, DType::iq4_nl, DType::q6_k},
    {"iq4_xs", DType::iq4_xs, DType::iq4_xs, DType::q6_k}, {"q3_k", DType::q3_k, DType::q3_k, DType::q6_k},
    {"q2_k", DType::q2_k, DType::q2_k, DType::q6_k},       {"mxfp4", DType::mxfp4, DType::mxfp4, DType::q6_k},
};

// Where a block's 16-bit scales lie and what makes its values about 0.03; `exponent_at` is MXFP4's.
struct Scales {
  DType dtype;
  struct Half {
    int32_t offset;
    float value;
  } halves[2];
  int32_t half_count;
};

constexpr Scales kScales[] = {
    {DType::q8_0, {{0, 0.0003F}}, 1},
    {DType::q4_0, {{0, 0.004F}}, 1},
    {DType::q4_1, {{0, 0.004F}, {2, -0.03F}}, 2},
    {DType::q5_0, {{0, 0.002F}}, 1},
    {DType::q5_1, {{0, 0.002F}, {2, -0.03F}}, 2},
    {DType::iq4_nl, {{0, 0.0003F}}, 1},
    {DType::q2_k, {{80, 0.001F}, {82, 0.0015F}}, 2},
    {DType::q3_k, {{108, 0.0003F}}, 1},
    {DType::q4_k, {{0, 0.0001F}, {2, 0.0007F}}, 2},
    {DType::q5_k, {{0, 0.00005F}, {2, 0.0007F}}, 2},
    {DType::q6_k, {{208, 0.00002F}}, 1},
    {DType::iq4_xs, {{0, 0.00001F}}, 1},
};
constexpr std::byte kMxfp4Exponent{120};  // 2^-7

template <class Row, size_t kCount>
const Row& find_row(const Row (&rows)[kCount], std::string_view name, std::string_view kind) {
  std::string known;
  for (const Row& row : rows) {
    if (row.name == name) return row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  fail(ErrorCode::invalid_input, "synthetic {} '{}' is not known; known are {}", kind, name, known);
}

void write_half(std::byte* at, float value) {
  const uint16_t bits = tensor::float_to_half(value);
  std::memcpy(at, &bits, sizeof bits);
}

// Random blocks with scales that keep the values small.
void fill_blocks(DType dtype, std::span<std::byte> bytes, std::mt19937_64& random) {
  const tensor::DTypeInfo& info = tensor::dtype_info(dtype);
  const size_t block = static_cast<size_t>(info.block_bytes);
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    const uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
  for (const Scales& scales : kScales) {
    if (scales.dtype != dtype) continue;
    for (size_t at = 0; at < bytes.size(); at += block) {
      for (int32_t i = 0; i < scales.half_count; ++i) {
        write_half(bytes.data() + at + scales.halves[i].offset, scales.halves[i].value);
      }
    }
  }
  if (dtype != DType::mxfp4) return;
  for (size_t at = 0; at < bytes.size(); at += block) bytes[at] = kMxfp4Exponent;
}

void fill_plain(DType dtype, std::span<std::byte> bytes, std::mt19937_64& random) {
  const size_t size = static_cast<size_t>(tensor::dtype_info(dtype).block_bytes);
  for (size_t at = 0; at < bytes.size(); at += size) {
    const float value = (static_cast<float>(random() >> 40) * 0x1.0p-24F - 0.5F) * 0.07F;
    if (dtype == DType::f32) {
      std::memcpy(bytes.data() + at, &value, sizeof value);
    } else {
      const uint16_t bits = dtype == DType::f16 ? tensor::float_to_half(value) : tensor::float_to_bfloat16(value);
      std::memcpy(bytes.data() + at, &bits, sizeof bits);
    }
  }
}

// Norms are ones, biases zeros.
void fill_vector(std::string_view name, std::span<std::byte> bytes) {
  const float value = name.find("norm") != std::string_view::npos ? 1.0F : 0.0F;
  for (size_t at = 0; at < bytes.size(); at += sizeof value) std::memcpy(bytes.data() + at, &value, sizeof value);
}

Config config_of(const Shape& shape) {
  Config config;
  config.architecture = shape.architecture;
  config.layers = shape.layers;
  config.width = shape.width;
  config.ffn_width = shape.ffn_width;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.key_size = config.value_size = shape.head_size;
  config.vocabulary = shape.vocabulary;
  config.experts = shape.experts;
  config.experts_used = shape.experts_used;
  config.expert_ffn_width = shape.expert_ffn_width;
  config.shared_ffn_width = shape.shared_ffn_width;
  return config;
}

void add_metadata(gguf::Writer& writer, const Shape& shape, std::string_view name) {
  const std::string prefix = std::string(shape.architecture) + ".";
  const auto count = [&](std::string_view key, int64_t value) {
    writer.add<uint32_t>(prefix + std::string(key), static_cast<uint32_t>(value));
  };
  writer.add_string("general.architecture", shape.architecture);
  writer.add_string("general.name", fmt::format("synthetic {}", name));
  count("block_count", shape.layers);
  count("context_length", 131072);
  count("embedding_length", shape.width);
  count("feed_forward_length", shape.ffn_width);
  count("attention.head_count", shape.heads);
  count("attention.head_count_kv", shape.kv_heads);
  count("attention.key_length", shape.head_size);
  count("attention.value_length", shape.head_size);
  count("rope.dimension_count", shape.head_size);
  count("vocab_size", shape.vocabulary);
  if (shape.experts > 0) {
    count("expert_count", shape.experts);
    count("expert_used_count", shape.experts_used);
    count("expert_feed_forward_length", shape.expert_ffn_width);
  }
  if (shape.shared_ffn_width > 0) count("expert_shared_feed_forward_length", shape.shared_ffn_width);
  if (shape.window > 0) count("attention.sliding_window", shape.window);
  writer.add<float>(prefix + "rope.freq_base", 1e6F);
  writer.add<float>(prefix + "attention.layer_norm_rms_epsilon", 1e-6F);
  writer.add_string("tokenizer.ggml.model", "no_vocab");
}

// llama-quantize's choice of the layers that get more bits.
bool has_more_bits(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

int64_t layer_of(std::string_view name) {
  return name.starts_with("blk.") ? std::strtoll(name.data() + 4, nullptr, 10) : -1;
}

DType dtype_of(const WeightRow& row, const Shape& shape, const Mix& mix) {
  // Routers are small, and decide much.
  if (row.role == graph::WeightRole::vector || row.name.find("ffn_gate_inp") != std::string::npos) return DType::f32;
  DType dtype = mix.base;
  const bool is_tied_table = row.role == graph::WeightRole::embedding && shape.tied;
  if (is_tied_table || row.name == "output.weight") dtype = mix.output;
  const bool is_high = row.name.ends_with("attn_v.weight") || row.name.find("ffn_down") != std::string::npos;
  if (is_high && has_more_bits(layer_of(row.name), shape.layers)) dtype = mix.high;
  return row.cols % tensor::dtype_info(dtype).block_elements == 0 ? dtype : DType::q8_0;
}

bool is_written(const WeightRow& row, const Shape& shape) {
  if (row.slice.first_row > 0) return false;  // in the tensor of the first slice
  return !row.optional || (row.name == "output.weight" && !shape.tied);
}

}  // namespace

void write_synthetic(std::string_view shape_and_mix, const std::string& path) {
  const size_t colon = shape_and_mix.find(':');
  if (colon == std::string_view::npos) {
    fail(ErrorCode::invalid_input, "synthetic model '{}': expected SHAPE:MIX, such as qwen3-0.6b:q4_k_m",
         shape_and_mix);
  }
  const Shape& shape = find_row(kShapes, shape_and_mix.substr(0, colon), "shape");
  const Mix& mix = find_row(kMixes, shape_and_mix.substr(colon + 1), "mix");
  gguf::Writer writer(path);
  add_metadata(writer, shape, shape_and_mix);
  std::mt19937_64 random(1);
  for (const WeightRow& row : find_architecture(shape.architecture, path).weights(config_of(shape))) {
    if (!is_written(row, shape)) continue;
    const DType dtype = dtype_of(row, shape, mix);
    const int64_t rows = row.slice.tensor.empty() ? row.rows : row.slice.rows;
    std::vector<int64_t> dims = {row.cols};
    if (row.role != graph::WeightRole::vector) dims.push_back(rows);  // vectors of experts are a matrix
    if (row.experts > 1) dims.push_back(row.experts);
    const std::string& name = row.slice.tensor.empty() ? row.name : row.slice.tensor;
    writer.add_tensor(name, dtype, dims, [&random, row, rows, dtype](const gguf::Writer::Sink& sink) {
      std::vector<std::byte> bytes(static_cast<size_t>(tensor::row_bytes(dtype, row.cols)));
      for (int64_t r = 0; r < row.experts * rows; ++r) {
        if (row.role == graph::WeightRole::vector) {
          fill_vector(row.name, bytes);
        } else if (tensor::dtype_info(dtype).block_elements > 1) {
          fill_blocks(dtype, bytes, random);
        } else {
          fill_plain(dtype, bytes, random);
        }
        sink(bytes);
      }
    });
  }
  writer.finish();
}

}  // namespace minfer::model
