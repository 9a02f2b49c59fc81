// From a request's fields to the engine's sampler parameters and requests, by value.
#include "server/openai/generation_fields.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "server/openai/test_support.hpp"

namespace minfer::server::openai {
namespace {

using test::failure_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

GenerationFields read(const std::string& text) {
  static const test::TestModel model;
  const chat::Value body = parse_body(text);
  Fields fields(body, "", true);
  GenerationFields generation = read_generation_fields(fields, *model.model);
  fields.finish();
  return generation;
}

std::string failure(const std::string& text) {
  return failure_of([&] { read(text); });
}

TEST(GenerationFields, NothingGivenIsTheServersSampler) {
  const GenerationFields generation = read("{}");
  const engine::SamplerParams defaults;
  EXPECT_EQ(generation.sampler.temperature, defaults.temperature);
  EXPECT_EQ(generation.sampler.top_k, defaults.top_k);
  EXPECT_EQ(generation.choices, 1);
  EXPECT_FALSE(generation.stream);
  EXPECT_TRUE(generation.stops.empty());
  EXPECT_NE(read("{}").sampler.seed, generation.sampler.seed);
}

TEST(GenerationFields, EveryFieldArrives) {
  const GenerationFields g = read(R"({
    "temperature": 1.5, "top_p": 0.5, "top_k": 7, "min_p": 0.1, "typical_p": 0.9, "frequency_penalty": -1,
    "presence_penalty": 2, "repeat_penalty": 1.1, "repeat_last_n": -1, "dry_multiplier": 0.8, "dry_base": 2,
    "dry_allowed_length": 3, "dry_penalty_last_n": 100, "dry_sequence_breakers": ["\n", "he"], "xtc_probability": 0.5,
    "xtc_threshold": 0.2, "mirostat_tau": 4, "mirostat_eta": 0.2, "seed": -5, "logit_bias": {"17": -100, "3": 2.5},
    "stop": ["a", "bc"], "n": 3, "stream": true, "stream_options": {"include_usage": true}})");
  EXPECT_EQ(g.sampler.temperature, 1.5F);
  EXPECT_EQ(g.sampler.top_p, 0.5F);
  EXPECT_EQ(g.sampler.top_k, 7);
  EXPECT_EQ(g.sampler.min_p, 0.1F);
  EXPECT_EQ(g.sampler.typical_p, 0.9F);
  EXPECT_EQ(g.sampler.frequency_penalty, -1.0F);
  EXPECT_EQ(g.sampler.presence_penalty, 2.0F);
  EXPECT_EQ(g.sampler.repeat_penalty, 1.1F);
  EXPECT_EQ(g.sampler.penalty_last_n, -1);
  EXPECT_EQ(g.sampler.dry_multiplier, 0.8F);
  EXPECT_EQ(g.sampler.dry_base, 2.0F);
  EXPECT_EQ(g.sampler.dry_allowed_length, 3);
  EXPECT_EQ(g.sampler.dry_penalty_last_n, 100);
  EXPECT_THAT(g.sampler.dry_breakers, ElementsAre(10, 256, 258, 259));
  EXPECT_EQ(g.sampler.xtc_probability, 0.5F);
  EXPECT_EQ(g.sampler.xtc_threshold, 0.2F);
  EXPECT_EQ(g.sampler.mirostat_tau, 4.0F);
  EXPECT_EQ(g.sampler.mirostat_eta, 0.2F);
  EXPECT_EQ(g.sampler.seed, static_cast<uint64_t>(-5));
  EXPECT_THAT(g.sampler.logit_bias, ElementsAre(std::pair(17, -100.0F), std::pair(3, 2.5F)));
  EXPECT_THAT(g.stops, ElementsAre("a", "bc"));
  EXPECT_EQ(g.choices, 3);
  EXPECT_TRUE(g.stream);
  EXPECT_TRUE(g.include_usage);
}

TEST(GenerationFields, AdaptersByTheirIds) {
  test::TestModel model;
  model.model->adapters = {{"a.gguf", 1.0F}, {"b.gguf", 0.5F}};
  const auto scales = [&](const std::string& text) {
    const chat::Value body = parse_body(text);
    Fields fields(body, "", false);
    return read_adapter_scales(fields, *model.model);
  };
  EXPECT_THAT(scales("{}"), ElementsAre());
  EXPECT_THAT(scales(R"({"lora": []})"), ElementsAre(0.0F, 0.0F));
  EXPECT_THAT(scales(R"({"lora": [{"id": 1, "scale": 0.25}]})"), ElementsAre(0.0F, 0.25F));
  EXPECT_THAT(scales(R"({"lora": [{"id": 1}, {"id": 0, "scale": -2}]})"), ElementsAre(-2.0F, 1.0F));
  const auto says = [&](const std::string& text) { return failure_of([&] { scales(text); }); };
  EXPECT_THAT(says(R"({"lora": [{"id": 2}]})"), HasSubstr("lora[0].id is the number 2; expected an id of 0 to 1"));
  EXPECT_THAT(says(R"({"lora": [{"id": "0"}]})"), HasSubstr("lora[0].id is"));
  EXPECT_THAT(says(R"({"lora": [{"scale": 1}]})"), HasSubstr("lora[0].id"));
  EXPECT_THAT(says(R"({"lora": [{"id": 0}, {"id": 0}]})"), HasSubstr("lora[1].id names adapter 0 a second time"));
  EXPECT_THAT(says(R"({"lora": [{"id": 0, "scale": 1e9}]})"), HasSubstr("lora[0].scale"));
}

TEST(GenerationFields, ChoicesHaveSeedsOfTheirOwn) {
  const GenerationFields generation = read(R"({"seed": 40, "n": 3, "stop": "x"})");
  const engine::Request request = make_request(generation, {1, 2}, 9, 2);
  EXPECT_EQ(request.sampler.seed, 42U);
  EXPECT_THAT(request.prompt, ElementsAre(1, 2));
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_THAT(request.stops, ElementsAre("x"));
}

TEST(GenerationFields, SomeClientsWords) {
  EXPECT_EQ(read(R"({"top_k": -1})").sampler.top_k, 0);
  EXPECT_EQ(read(R"({"repetition_penalty": 1.2})").sampler.repeat_penalty, 1.2F);
  EXPECT_THAT(read(R"({"ignore_eos": true})").sampler.logit_bias,
              ElementsAre(std::pair(262, -std::numeric_limits<float>::infinity())));
  EXPECT_NE(read(R"({"seed": -1})").sampler.seed, static_cast<uint64_t>(-1));
}

TEST(GenerationFields, WrongValuesAreNamed) {
  EXPECT_EQ(failure(R"({"logit_bias": {"5": 1, "05": 2}})"),
            "400 logit_bias -: logit_bias names the token 5 twice, once as '05'; leave one of them");
  EXPECT_EQ(failure(R"({"temperature": 2.1})"),
            "400 temperature -: temperature is the number 2.1; expected a number of 0 to 2");
  EXPECT_EQ(failure(R"({"temperature": "hot"})"),
            "400 temperature -: temperature is the text 'hot'; expected a number of 0 to 2");
  EXPECT_EQ(failure(R"({"top_p": -0.1})"), "400 top_p -: top_p is the number -0.1; expected a number of 0 to 1");
  EXPECT_EQ(failure(R"({"n": 0})"), "400 n -: n is the number 0; expected an integer of 1 to 128");
  EXPECT_EQ(failure(R"({"stop": ["a", ""]})"),
            "400 stop[1] -: stop[1] is the text ''; expected a text of at least one character");
  EXPECT_EQ(failure(R"({"stop": 5})"), "400 stop -: stop is the number 5; expected a text of at least one character");
  EXPECT_THAT(failure(R"({"logit_bias": {"264": 1}})"),
              HasSubstr("400 logit_bias -: logit_bias names the token '264'; expected an id of 0 to 263"));
  EXPECT_THAT(failure(R"({"logit_bias": {"1x": 1}})"), HasSubstr("names the token '1x'"));
  EXPECT_THAT(failure(R"({"logit_bias": {"1": 101}})"), HasSubstr("400 logit_bias.1 -:"));
  EXPECT_EQ(failure(R"({"stream_options": {}})"), "400 stream_options -: stream_options goes with stream true");
  EXPECT_EQ(failure(R"({"mirostat": 2, "top_k": 4})"),
            "400 top_k -: mirostat 2 and top_k can't both hold; leave one of them out, or send mirostat 0");
  EXPECT_EQ(failure(R"({"stop": ")" + std::string(4097, 'x') + R"("})"),
            "400 stop -: stop has 4097 bytes; the limit is 4096");
  EXPECT_THAT(failure(R"({"seed": 1.5})"), HasSubstr("400 seed -: seed is the number 1.5; expected an integer"));
}

}  // namespace
}  // namespace minfer::server::openai
