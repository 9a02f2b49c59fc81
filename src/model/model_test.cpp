// Opening model files: what a whole one gives, and the error of each way to be broken. The files are tiny ones of the
// architecture llama, written here with one thing changed.
#include "model/model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <variant>

#include "gguf/test_support.hpp"
#include "gguf/writer.hpp"
#include "model/synthetic.hpp"

namespace minfer::model {
namespace {

using minfer::error_of;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// A file before it is written: two layers of width 8 with 2 heads of 4, one for K and V.
struct Draft {
  std::string architecture = "llama";
  using Value = std::variant<uint32_t, float, std::string, std::vector<uint8_t>>;  // the last: flags
  std::map<std::string, Value> keys = {
      {"llama.block_count", 2u},          {"llama.context_length", 64u},
      {"llama.embedding_length", 8u},     {"llama.feed_forward_length", 12u},
      {"llama.attention.head_count", 2u}, {"llama.attention.head_count_kv", 1u},
      {"llama.vocab_size", 6u},           {"llama.attention.layer_norm_rms_epsilon", 1e-5F},
  };
  std::map<std::string, std::vector<int64_t>> tensors = {
      {"token_embd.weight", {8, 6}},
      {"output_norm.weight", {8}},
  };
  float fill = 1;

  Draft() {
    for (const std::string block : {"blk.0.", "blk.1."}) {
      tensors[block + "attn_norm.weight"] = tensors[block + "ffn_norm.weight"] = {8};
      tensors[block + "attn_q.weight"] = tensors[block + "attn_output.weight"] = {8, 8};
      tensors[block + "attn_k.weight"] = tensors[block + "attn_v.weight"] = {8, 4};
      tensors[block + "ffn_gate.weight"] = tensors[block + "ffn_up.weight"] = {8, 12};
      tensors[block + "ffn_down.weight"] = {12, 8};
    }
  }

  // The same file as one of another architecture.
  void rename(const std::string& other) {
    architecture = other;
    std::map<std::string, Value> renamed;
    for (const auto& [key, value] : keys) renamed[other + key.substr(key.find('.'))] = value;
    keys = renamed;
  }

  void write(const std::string& path) const {
    gguf::Writer writer(path);
    writer.add_string("general.architecture", architecture);
    for (const auto& [key, value] : keys) {
      std::visit(
          [&](const auto& v) {
            if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string>) {
              writer.add_string(key, v);
            } else if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::vector<uint8_t>>) {
              std::array<bool, 4> flags{};
              std::copy(v.begin(), v.end(), flags.begin());
              writer.add_array<bool>(key, std::span(flags).first(v.size()));
            } else {
              writer.add(key, v);
            }
          },
          value);
    }
    for (const auto& [name, shape] : tensors) {
      int64_t count = 1;
      for (const int64_t size : shape) count *= size;
      writer.add_tensor(name, tensor::DType::f32, shape, [count, this](const gguf::Writer::Sink& sink) {
        const std::vector<float> values(static_cast<size_t>(count), fill);
        sink(std::as_bytes(std::span(values)));
      });
    }
    writer.finish();
  }
};

class ModelFile : public ::testing::Test {
 protected:
  ModelFile() : folder_(std::string("model_") + ::testing::UnitTest::GetInstance()->current_test_info()->name()) {}

  Model open(const Draft& draft) const {
    draft.write(folder_.file("m.gguf"));
    return Model(gguf::File(folder_.file("m.gguf")));
  }
  std::string error(const Draft& draft) const {
    return error_of([&] { open(draft); });
  }
  // The error where one key has another value.
  template <class T>
  std::string error_with(const std::string& key, T value) const {
    Draft draft;
    draft.keys["llama." + key] = value;
    return error(draft);
  }
  // An error of this code that names the file and has this text.
  static auto is(const std::string& code, const std::string& text) {
    return ::testing::AllOf(::testing::StartsWith(code + ": "), HasSubstr("m.gguf: "), HasSubstr(text));
  }

  gguf::test::Folder folder_;
};

// The draft as a qwen3moe: four experts 6 wide, two of them a token.
Draft expert_draft() {
  Draft draft;
  draft.rename("qwen3moe");
  draft.keys["qwen3moe.expert_count"] = 4u;
  draft.keys["qwen3moe.expert_used_count"] = 2u;
  draft.keys["qwen3moe.expert_feed_forward_length"] = 6u;
  for (const std::string block : {"blk.0.", "blk.1."}) {
    for (const char* part : {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"}) draft.tensors.erase(block + part);
    draft.tensors[block + "attn_q_norm.weight"] = draft.tensors[block + "attn_k_norm.weight"] = {4};
    draft.tensors[block + "ffn_gate_inp.weight"] = {8, 4};
    draft.tensors[block + "ffn_gate_exps.weight"] = draft.tensors[block + "ffn_up_exps.weight"] = {8, 6, 4};
    draft.tensors[block + "ffn_down_exps.weight"] = {6, 8, 4};
  }
  return draft;
}

TEST_F(ModelFile, SaysHowItsHiddenStatesArePooled) {
  EXPECT_EQ(open(Draft()).config().pooling, Pooling::none);
  for (const auto& [type, pooling] : {std::pair<uint32_t, Pooling>{1, Pooling::mean}, {3, Pooling::last}}) {
    Draft draft;
    draft.keys["llama.pooling_type"] = type;
    EXPECT_EQ(open(draft).config().pooling, pooling);
  }
  EXPECT_THAT(error_with("pooling_type", 5u), is("invalid_input", "llama.pooling_type is 5, expected 0 to 4"));
}

TEST_F(ModelFile, HasAMatrixForEachExpert) {
  const Model model = open(expert_draft());
  EXPECT_EQ(model.config().experts, 4);
  EXPECT_EQ(model.config().experts_used, 2);
  EXPECT_EQ(model.config().expert_ffn_width, 6);
  EXPECT_EQ(model.config().shared_ffn_width, 0);
  EXPECT_TRUE(model.config().normalised_routes);
  for (const graph::WeightShape& shape : model.weight_shapes()) {
    EXPECT_EQ(shape.experts, shape.name.find("_exps") == std::string::npos ? 1 : 4) << shape.name;
  }
  Draft draft = expert_draft();
  draft.tensors["blk.1.ffn_down_exps.weight"] = {6, 8, 3};
  EXPECT_THAT(error(draft), is("invalid_input", "blk.1.ffn_down_exps.weight has shape 6 x 8 x 3, expected 6 x 8 x 4"));
  draft = expert_draft();
  draft.keys["qwen3moe.expert_used_count"] = 5u;
  EXPECT_THAT(error(draft), is("invalid_input", "expert_used_count is 5, expected at most the expert count 4"));
  draft = expert_draft();
  draft.keys["qwen3moe.expert_count"] = 5000u;
  EXPECT_THAT(error(draft), is("invalid_input", "expert_count is 5000, expected 1 to 1024"));
  draft = expert_draft();
  draft.keys.erase("qwen3moe.expert_feed_forward_length");
  EXPECT_THAT(error(draft), HasSubstr("expert_feed_forward_length"));
}

TEST_F(ModelFile, OpensWithTheConfigOfItsKeys) {
  Draft draft;
  draft.keys["llama.rope.freq_base"] = 5000.0F;
  draft.keys["general.name"] = std::string("tiny");
  const Model model = open(draft);
  const Config& config = model.config();
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.name, "tiny");
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.width, 8);
  EXPECT_EQ(config.ffn_width, 12);
  EXPECT_EQ(config.heads, 2);
  EXPECT_EQ(config.kv_heads, 1);
  EXPECT_EQ(config.key_size, 4);
  EXPECT_EQ(config.value_size, 4);
  EXPECT_EQ(config.vocabulary, 6);
  EXPECT_EQ(config.context_length, 64);
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-5F);
  EXPECT_FLOAT_EQ(config.attention_scale, 0.5F);
  EXPECT_FLOAT_EQ(config.rope.base, 5000);
  EXPECT_EQ(config.rope.dims, 4);
  EXPECT_EQ(config.rope.style, graph::RopeStyle::pairs);
  EXPECT_EQ(config.rope.scaling, Rope::Scaling::none);
  EXPECT_EQ(config.window, 0);
  EXPECT_EQ(model.weights().size(), 2u + 2 * 9);
  EXPECT_EQ(model.weights()[0].role, graph::WeightRole::tied_embedding);
  EXPECT_EQ(model.kv_layers(64).size(), 2u);
}

TEST_F(ModelFile, TakesOptionalTensors) {
  Draft draft;
  draft.tensors["output.weight"] = {8, 6};
  draft.tensors["blk.1.attn_q.bias"] = {8};
  const Model model = open(draft);
  EXPECT_EQ(model.weights().size(), 2u + 2 * 9 + 2);
  EXPECT_EQ(model.weights()[0].role, graph::WeightRole::embedding) << "there is an output matrix of its own";
}

TEST_F(ModelFile, RefusesAnUnknownArchitecture) {
  Draft draft;
  draft.architecture = "mamba";
  EXPECT_THAT(error(draft),
              is("unsupported",
                 "architecture 'mamba' is not supported; supported are: llama, qwen2, qwen3, qwen2moe, qwen3moe, "
                 "gemma3"));
}

TEST_F(ModelFile, RefusesAFileWithoutAKeyThatItNeeds) {
  for (const std::string key : {"block_count", "context_length", "embedding_length", "feed_forward_length",
                                "attention.head_count", "vocab_size", "attention.layer_norm_rms_epsilon"}) {
    Draft draft;
    draft.keys.erase("llama." + key);
    EXPECT_THAT(error(draft), is("invalid_input", "llama." + key));
  }
}

TEST_F(ModelFile, RefusesAbsurdValues) {
  EXPECT_THAT(error_with("block_count", 0u), is("invalid_input", "llama.block_count is 0, expected 1 to 1024"));
  EXPECT_THAT(error_with("block_count", 1025u), is("invalid_input", "is 1025, expected 1 to 1024"));
  EXPECT_THAT(error_with("embedding_length", 1u << 21), is("invalid_input", "llama.embedding_length is 2097152"));
  EXPECT_THAT(error_with("feed_forward_length", 0u), is("invalid_input", "llama.feed_forward_length is 0"));
  EXPECT_THAT(error_with("attention.head_count", 4097u), is("invalid_input", "llama.attention.head_count is 4097"));
  EXPECT_THAT(error_with("attention.key_length", 5000u), is("invalid_input", "llama.attention.key_length is 5000"));
  EXPECT_THAT(error_with("vocab_size", 4000000000u), is("invalid_input", "llama.vocab_size is 4000000000"));
  EXPECT_THAT(error_with("context_length", 4000000000u), is("invalid_input", "llama.context_length is 4000000000"));
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float value : {0.0F, -1.0F, kNan, std::numeric_limits<float>::infinity()}) {
    EXPECT_THAT(error_with("attention.layer_norm_rms_epsilon", value),
                is("invalid_input", "llama.attention.layer_norm_rms_epsilon is"));
    EXPECT_THAT(error_with("rope.freq_base", value), is("invalid_input", "llama.rope.freq_base is"));
  }
}

TEST_F(ModelFile, RefusesValuesOfAWrongType) {
  EXPECT_THAT(error_with("block_count", std::string("two")), is("invalid_input", "llama.block_count"));
  EXPECT_THAT(error_with("rope.scaling.type", 1u), is("invalid_input", "llama.rope.scaling.type"));
}

TEST_F(ModelFile, RefusesHeadsThatDoNotDivide) {
  EXPECT_THAT(error_with("attention.head_count_kv", 3u),
              is("invalid_input", "llama.attention.head_count_kv is 3, expected a divisor of the head count 2"));
  EXPECT_THAT(error_with("attention.head_count", 3u),
              is("invalid_input", "llama.attention.head_count is 3, expected a divisor of the embedding length 8"));
}

TEST_F(ModelFile, RefusesRotatedDimensionsThatDoNotFit) {
  EXPECT_THAT(error_with("rope.dimension_count", 3u),
              is("invalid_input", "llama.rope.dimension_count is 3, expected an even number up to the head size 4"));
  EXPECT_THAT(error_with("rope.dimension_count", 6u), is("invalid_input", "llama.rope.dimension_count is 6"));
}

TEST_F(ModelFile, ReadsRopeScaling) {
  Draft draft;
  draft.keys["llama.rope.scaling.type"] = std::string("yarn");
  EXPECT_THAT(error(draft), is("invalid_input", "llama.rope.scaling.factor"));
  draft.keys["llama.rope.scaling.factor"] = 2.0F;
  Rope rope = open(draft).config().rope;
  EXPECT_EQ(rope.scaling, Rope::Scaling::yarn);
  EXPECT_EQ(rope.original_context, 64) << "the model's context where the file gives none";
  EXPECT_EQ(rope.factor, 2.0F);
  draft.keys["llama.rope.scaling.type"] = std::string("linear");
  EXPECT_EQ(open(draft).config().rope.scaling, Rope::Scaling::linear);
  draft.keys["llama.rope.scaling.type"] = std::string("none");
  EXPECT_EQ(open(draft).config().rope.scaling, Rope::Scaling::none);
  draft.keys["llama.rope.scaling.type"] = std::string("cubic");
  EXPECT_THAT(error(draft), is("unsupported", "llama.rope.scaling.type is 'cubic'; supported are none, linear, yarn"));
  draft.keys["llama.rope.scaling.type"] = std::string("longrope");
  EXPECT_THAT(error(draft), is("invalid_input", "tensor rope_factors_short.weight is missing"));
  draft.keys.erase("llama.rope.scaling.type");
  draft.keys["llama.rope.scale_linear"] = 3.0F;
  EXPECT_EQ(open(draft).config().rope.factor, 3.0F);
}

TEST_F(ModelFile, ReadsFrequencyDivisors) {
  Draft draft;
  draft.tensors["rope_freqs.weight"] = {2};
  EXPECT_EQ(open(draft).config().rope.frequency_divisors, std::vector<float>(2, 1.0F));
  draft.fill = 0;
  EXPECT_THAT(error(draft), is("invalid_input", "tensor rope_freqs.weight has 0, expected finite numbers above 0"));
  draft.tensors["rope_freqs.weight"] = {3};
  EXPECT_THAT(error(draft), is("invalid_input", "tensor rope_freqs.weight must be F32 with 2 elements"));
}

TEST_F(ModelFile, LongRopeFollowsTheContextOfTheRun) {
  Draft draft;
  draft.tensors["rope_factors_short.weight"] = {2};
  EXPECT_THAT(error(draft), is("invalid_input", "tensor rope_factors_long.weight is missing; RoPE's scaling"));
  draft.tensors["rope_factors_long.weight"] = {2};
  draft.keys["llama.rope.scaling.original_context_length"] = 16u;
  draft.keys["llama.rope.scaling.attn_factor"] = 1.25F;
  const Rope rope = open(draft).config().rope;
  EXPECT_EQ(rope.scaling, Rope::Scaling::longrope);
  EXPECT_EQ(rope.original_context, 16);
  EXPECT_EQ(rope.yarn_attention_factor, 1.25F);
  Rope other = rope;
  other.long_divisors = {4.0F, 8.0F};
  EXPECT_FALSE(other.is_long(16));
  EXPECT_TRUE(other.is_long(17));
  EXPECT_EQ(other.for_context(16).frequency_divisors, rope.frequency_divisors);
  EXPECT_EQ(other.for_context(17).frequency_divisors, other.long_divisors);
  draft.tensors["rope_freqs.weight"] = {2};
  EXPECT_THAT(error(draft), is("unsupported", "has both rope_freqs.weight and rope_factors_short.weight"));
}

TEST_F(ModelFile, ReadsTheSlidingWindow) {
  Draft draft;
  EXPECT_EQ(open(draft).config().window, 0);
  draft.keys["llama.attention.sliding_window"] = 0u;
  EXPECT_EQ(open(draft).config().window, 0);
  draft.keys["llama.attention.sliding_window"] = 24u;
  const Config all = open(draft).config();
  EXPECT_EQ(all.window, 24);
  EXPECT_TRUE(all.is_window_layer(0) && all.is_window_layer(1));
  draft.keys["llama.attention.sliding_window_pattern"] = 2u;
  const Config half = open(draft).config();
  EXPECT_TRUE(half.is_window_layer(0) && !half.is_window_layer(1));
  const auto flagged = [&](std::vector<uint8_t> flags) {
    draft.keys["llama.attention.sliding_window_pattern"] = std::move(flags);
    return draft;
  };
  EXPECT_EQ(open(flagged({1, 0})).config().window_period, 2);
  EXPECT_EQ(open(flagged({1, 1})).config().window_period, 0);
  EXPECT_EQ(open(flagged({0, 0})).config().window_period, 1);
  EXPECT_THAT(error(flagged({0, 1})), is("unsupported", "llama.attention.sliding_window_pattern has 2 flags for 2"));
  EXPECT_THAT(error(flagged({1, 0, 1})), is("unsupported", "has 3 flags for 2 layers"));
}

// What a layer adds is scaled in granite: the state is kept divided by that, its norms' epsilon by its square.
TEST_F(ModelFile, ScalesOfGranite) {
  Draft draft;
  draft.rename("granite");
  draft.keys["granite.residual_scale"] = 0.25F;
  draft.keys["granite.embedding_scale"] = 12.0F;
  draft.keys["granite.attention.scale"] = 0.125F;
  draft.keys["granite.logit_scale"] = 8.0F;
  const Config config = open(draft).config();
  EXPECT_EQ(config.embedding_scale, 48.0F);
  EXPECT_FLOAT_EQ(config.norm_eps, 16e-5F);
  EXPECT_EQ(config.attention_scale, 0.125F);
  EXPECT_EQ(config.logit_scale, 0.125F);
  draft.keys["granite.residual_scale"] = 1e-30F;
  EXPECT_THAT(error(draft), is("invalid_input", "granite.residual_scale is 1e-30 and granite.logit_scale is 8, which"));
}

TEST_F(ModelFile, ATemperatureNeedsALengthAndWholeHeads) {
  Draft draft;
  draft.rename("mistral3");
  draft.keys["mistral3.attention.temperature_scale"] = 0.5F;
  EXPECT_THAT(error(draft), is("invalid_input", "mistral3.attention.temperature_scale is 0.5 without RoPE's scaling"));
  draft.keys["mistral3.rope.scaling.type"] = std::string("yarn");
  draft.keys["mistral3.rope.scaling.factor"] = 2.0F;
  draft.keys["mistral3.rope.scaling.yarn_log_multiplier"] = 1.0F;
  EXPECT_EQ(open(draft).config().attention_temperature, 0.5F);
  EXPECT_EQ(open(draft).config().rope.yarn_log_multiplier, 1.0F);
  draft.keys["mistral3.rope.dimension_count"] = 2u;
  EXPECT_THAT(error(draft), is("unsupported", "where only 2 of a head's 4 elements are rotated"));
}

// phi3's q, k and v are rows of one matrix, gate and up of another.
TEST_F(ModelFile, ViewsTheRowsOfFusedMatrices) {
  Draft draft;
  draft.rename("phi3");
  for (const std::string block : {"blk.0.", "blk.1."}) {
    for (const char* part : {"attn_q", "attn_k", "attn_v", "ffn_gate"}) draft.tensors.erase(block + part + ".weight");
    draft.tensors[block + "attn_qkv.weight"] = {8, 16};
    draft.tensors[block + "ffn_up.weight"] = {8, 24};
  }
  const Model model = open(draft);
  std::map<std::string, std::pair<int64_t, size_t>> views;  // rows; bytes from the matrix's start
  for (const graph::WeightSource& source : model.weights()) {
    if (source.shape.layer != 1) continue;
    for (const char* name : {"blk.1.attn_qkv.weight", "blk.1.ffn_up.weight"}) {
      const gguf::TensorInfo& tensor = *model.file().find_tensor(name);
      const auto* begin = source.data.data();
      if (begin < tensor.data || begin >= tensor.data + tensor.bytes) continue;
      EXPECT_EQ(source.data.size(), static_cast<size_t>(source.shape.rows) * 8 * sizeof(float));
      views[source.shape.name] = {source.shape.rows, static_cast<size_t>(begin - tensor.data)};
    }
  }
  const std::map<std::string, std::pair<int64_t, size_t>> expected = {{"blk.1.attn_q.weight", {8, 0}},
                                                                      {"blk.1.attn_k.weight", {4, 8 * 32}},
                                                                      {"blk.1.attn_v.weight", {4, 12 * 32}},
                                                                      {"blk.1.ffn_gate.weight", {12, 0}},
                                                                      {"blk.1.ffn_up.weight", {12, 12 * 32}}};
  EXPECT_EQ(views, expected);
  draft.tensors["blk.1.ffn_up.weight"] = {8, 12};
  EXPECT_THAT(error(draft), is("invalid_input", "tensor blk.1.ffn_up.weight has shape 8 x 12, expected 8 x 24"));
}

TEST_F(ModelFile, RefusesRopeThatGivesNoNumbers) {
  constexpr float kTiny = 1e-45F;
  for (const float base : {kTiny, 0.5F, 1.0F}) {
    EXPECT_THAT(error_with("rope.freq_base", base), is("invalid_input", "llama.rope.freq_base is"));
    EXPECT_THAT(error_with("rope.freq_base", base), HasSubstr(", expected a finite number above 1"));
  }
  EXPECT_THAT(error_with("rope.freq_base", 1.5F), "no error");
  EXPECT_THAT(error_with("rope.scale_linear", kTiny), is("invalid_input", "llama.rope.scale_linear 1e-45 gives RoPE"));
  for (const std::string type : {"linear", "yarn"}) {
    Draft draft;
    draft.keys["llama.rope.scaling.type"] = type;
    draft.keys["llama.rope.scaling.factor"] = kTiny;
    EXPECT_THAT(error(draft), is("invalid_input", "llama.rope.scaling.factor 1e-45 gives RoPE pair")) << type;
    for (const float factor : {0.0F, -2.0F, std::numeric_limits<float>::infinity()}) {
      draft.keys["llama.rope.scaling.factor"] = factor;
      EXPECT_THAT(error(draft), is("invalid_input", "llama.rope.scaling.factor is")) << type;
    }
  }
  Draft draft;
  draft.keys["llama.rope.scaling.type"] = std::string("yarn");
  draft.keys["llama.rope.scaling.factor"] = 1e-6F;
  EXPECT_THAT(error(draft), is("invalid_input",
                               "llama.rope.scaling.attn_factor is 1 and llama.rope.scaling.factor is "
                               "1e-06: RoPE's magnitude is -0.38"));
  draft.keys["llama.rope.scaling.factor"] = 8.0F;
  draft.keys["llama.rope.scaling.attn_factor"] = 3e38F;
  EXPECT_THAT(error(draft), is("invalid_input", "RoPE's magnitude is inf, expected a finite one above 0"));
}

TEST_F(ModelFile, RefusesFrequencyDivisorsThatGiveNoNumbers) {
  Draft draft;
  draft.tensors["rope_freqs.weight"] = {2};
  for (const float divisor : {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    draft.fill = divisor;
    EXPECT_THAT(error(draft), is("invalid_input", "tensor rope_freqs.weight has "));
  }
  draft.fill = 1e-45F;
  EXPECT_THAT(error(draft),
              is("invalid_input", "1e-45 in tensor rope_freqs.weight gives RoPE pair 0 the frequency inf"));
}

TEST_F(ModelFile, RefusesAMissingTensor) {
  const Draft whole;
  for (const auto& [name, shape] : whole.tensors) {
    Draft draft;
    draft.tensors.erase(name);
    EXPECT_THAT(error(draft), is("invalid_input", "tensor " + name + " is missing; architecture llama needs it"));
  }
}

TEST_F(ModelFile, RefusesAWrongShape) {
  Draft draft;
  draft.tensors["blk.1.attn_k.weight"] = {8, 8};
  EXPECT_THAT(error(draft), is("invalid_input", "tensor blk.1.attn_k.weight has shape 8 x 8, expected 8 x 4"));
  draft = {};
  draft.tensors["output_norm.weight"] = {8, 1, 2};
  EXPECT_THAT(error(draft), is("invalid_input", "tensor output_norm.weight has shape 8 x 1 x 2, expected 8 x 1"));
}

TEST_F(ModelFile, RefusesATensorThatItWouldNotUse) {
  Draft draft;
  draft.tensors["blk.0.attn_q_norm.weight"] = {4};
  EXPECT_THAT(error(draft), is("unsupported", "tensor blk.0.attn_q_norm.weight is not part of architecture llama"));
  draft = {};
  draft.tensors["blk.2.attn_norm.weight"] = {8};
  EXPECT_THAT(error(draft), is("unsupported", "tensor blk.2.attn_norm.weight is not part of architecture llama"));
}

TEST_F(ModelFile, EachArchitectureHasItsTensors) {
  Config config;
  config.layers = 1;
  config.width = 8;
  config.ffn_width = 12;
  config.heads = 2;
  config.kv_heads = 1;
  config.key_size = config.value_size = 4;
  config.vocabulary = 6;
  const std::set<std::string> head_norms = {"blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight"};
  const std::set<std::string> pre_norms = {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"};
  const std::set<std::string> post_norms = {"blk.0.post_attention_norm.weight", "blk.0.post_ffw_norm.weight"};
  std::set<std::string> both_norms = head_norms;
  both_norms.insert(post_norms.begin(), post_norms.end());
  const std::set<std::string> norm_biases = {"blk.0.attn_norm.bias", "blk.0.ffn_norm.bias", "output_norm.bias"};
  std::set<std::string> biases = norm_biases;
  biases.insert({"blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_v.bias"});
  const std::map<std::string_view, std::set<std::string>> less = {
      {"olmo2", pre_norms}, {"exaone4", pre_norms}, {"cohere2", {"blk.0.ffn_norm.weight"}}};
  const std::map<std::string_view, std::set<std::string>> more = {
      {"llama", {}},
      {"qwen2", {"blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_v.bias"}},
      {"qwen3", {"blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight"}},
      {"qwen2moe",
       {"blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_v.bias", "blk.0.ffn_gate_inp_shexp.weight",
        "blk.0.ffn_gate_shexp.weight", "blk.0.ffn_up_shexp.weight", "blk.0.ffn_down_shexp.weight"}},
      {"qwen3moe", {"blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight"}},
      {"gemma", {}},
      {"gemma2", post_norms},
      {"gemma3", both_norms},
      {"mistral3", {}},
      {"phi3", {}},
      {"granite", {}},
      {"olmo2", both_norms},
      {"smollm3", {}},
      {"glm4", post_norms},
      {"starcoder2", biases},
      {"stablelm", norm_biases},
      {"cohere2", {}},
      {"exaone4", both_norms},
      {"gpt-oss",
       {"blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_v.bias", "blk.0.attn_sinks.weight",
        "blk.0.post_attention_norm.weight", "blk.0.ffn_gate_inp.bias", "blk.0.ffn_gate_exps.bias",
        "blk.0.ffn_up_exps.bias", "blk.0.ffn_down_exps.bias"}}};
  std::set<std::string> standard = {"token_embd.weight", "output_norm.weight"};
  for (const char* part :
       {"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"}) {
    standard.insert(std::string("blk.0.") + part + ".weight");
  }
  for (const auto& [name, own] : more) {
    const Architecture& architecture = find_architecture(name, "test");
    std::set<std::string> expected = standard, required;
    const bool has_experts = architecture.name.ends_with("moe") || architecture.name == "gpt-oss";
    config.experts = has_experts ? 4 : 0;
    if (architecture.name == "gpt-oss") expected.erase("blk.0.ffn_norm.weight");
    config.experts_used = 2;
    config.expert_ffn_width = 6;
    config.shared_ffn_width = architecture.name == "qwen2moe" ? 10 : 0;
    if (config.experts > 0) {
      for (const char* part : {"gate", "up", "down"}) {
        expected.erase(std::string("blk.0.ffn_") + part + ".weight");
        expected.insert(std::string("blk.0.ffn_") + part + "_exps.weight");
      }
      expected.insert("blk.0.ffn_gate_inp.weight");
    }
    expected.insert(own.begin(), own.end());
    if (less.contains(name)) {
      for (const std::string& part : less.at(name)) expected.erase(part);
    }
    for (const WeightRow& row : architecture.weights(config)) {
      if (!row.optional) required.insert(row.name);
    }
    EXPECT_EQ(required, expected) << architecture.name;
  }
}

// A prompt's last layer works on the rows whose logits are wanted, once their attention has seen the others.
TEST(Graphs, TheLastLayerFollowsOnlyTheOutputs) {
  Config config;
  config.layers = 3;
  config.width = 8;
  config.ffn_width = 12;
  config.heads = 2;
  config.kv_heads = 1;
  config.key_size = config.value_size = config.rope.dims = config.window_rope.dims = 4;
  config.vocabulary = 6;
  for (const Architecture& architecture : architectures()) {
    // Of other matrices.
    const std::set<std::string_view> others = {"gpt-oss", "deepseek2", "bert", "nomic-bert"};
    if (others.contains(architecture.name)) continue;
    std::vector<graph::WeightShape> shapes;
    for (const WeightRow& row : architecture.weights(config)) {
      if (!row.optional) shapes.push_back({row.name, row.rows, row.cols});
    }
    graph::Builder builder(shapes, {16, 4});
    const graph::Graph graph = architecture.build(builder, config);
    std::map<std::string, graph::Rows> rows;
    for (const graph::Node& node : graph.nodes) {
      if (node.op != graph::Op::linear) continue;
      rows[shapes[static_cast<size_t>(node.weights[0])].name] =
          graph.values[static_cast<size_t>(node.outputs[0])].type.rows;
    }
    EXPECT_EQ(rows.size(), 3u * 7 + 1) << architecture.name;
    for (const auto& [name, height] : rows) {
      const bool after =
          name == "token_embd.weight" || name.starts_with("blk.2.attn_output") || name.starts_with("blk.2.ffn");
      EXPECT_EQ(height, after ? graph::Rows::outputs : graph::Rows::tokens) << architecture.name << ": " << name;
    }
  }
}

TEST(Synthetic, NamesWhatItKnows) {
  const auto error = [](std::string_view name) { return error_of([&] { write_synthetic(name, "unused.gguf"); }); };
  EXPECT_THAT(error("qwen3-0.6b"), HasSubstr("invalid_input: synthetic model 'qwen3-0.6b': expected SHAPE:MIX"));
  EXPECT_THAT(error("gpt2:q4_0"), MatchesRegex("invalid_input: synthetic shape 'gpt2' is not known; known are smollm2-"
                                               "135m, .*, qwen3-2b-a0.4b"));
  EXPECT_THAT(error("qwen3-0.6b:q9"), MatchesRegex("invalid_input: synthetic mix 'q9' is not known; known are f32, .*, "
                                                   "mxfp4"));
}

}  // namespace
}  // namespace minfer::model
