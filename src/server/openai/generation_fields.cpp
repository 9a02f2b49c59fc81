// Fields common to all that generates. See generation_fields.hpp.
// The sampler's numbers are two tables: a row a field, with its range.
#include "server/openai/generation_fields.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <random>
#include <unordered_set>

#include "engine/sampler/breakers.hpp"
#include "engine/stop_matcher.hpp"
#include "server/api_error.hpp"

namespace minfer::server::openai {
namespace {

using engine::SamplerParams;

struct NumberField {
  std::string_view name;
  double low;
  double high;
  float SamplerParams::* member;
};

constexpr NumberField kNumbers[] = {
    {"temperature", 0, 2, &SamplerParams::temperature},
    {"top_p", 0, 1, &SamplerParams::top_p},
    {"frequency_penalty", -2, 2, &SamplerParams::frequency_penalty},
    {"presence_penalty", -2, 2, &SamplerParams::presence_penalty},
    {"min_p", 0, 1, &SamplerParams::min_p},
    {"typical_p", 0, 1, &SamplerParams::typical_p},
    {"repeat_penalty", 0.01, 100, &SamplerParams::repeat_penalty},
    {"repetition_penalty", 0.01, 100, &SamplerParams::repeat_penalty},
    {"dry_multiplier", 0, 100, &SamplerParams::dry_multiplier},
    {"dry_base", 1, 100, &SamplerParams::dry_base},
    {"xtc_probability", 0, 1, &SamplerParams::xtc_probability},
    {"xtc_threshold", 0, 1, &SamplerParams::xtc_threshold},
    {"mirostat_tau", 0.01, 100, &SamplerParams::mirostat_tau},
    {"mirostat_eta", 0, 1, &SamplerParams::mirostat_eta},
};

struct CountField {
  std::string_view name;
  int64_t low;
  int64_t high;
  int32_t SamplerParams::* member;
};

constexpr int64_t kMostLookBack = 1 << 30;

constexpr CountField kCounts[] = {
    {"top_k", -1, std::numeric_limits<int32_t>::max(), &SamplerParams::top_k},
    {"repeat_last_n", -1, kMostLookBack, &SamplerParams::penalty_last_n},
    {"dry_allowed_length", 1, kMostLookBack, &SamplerParams::dry_allowed_length},
    {"dry_penalty_last_n", -1, kMostLookBack, &SamplerParams::dry_penalty_last_n},
    {"mirostat", 0, 2, &SamplerParams::mirostat},
};

std::vector<std::string> read_stops(Fields& fields) {
  const chat::Value* value = fields.find("stop");
  if (value == nullptr) return {};
  std::vector<std::string> stops;
  const auto add = [&](const chat::Value& stop, const std::string& path) {
    if (!stop.is_string() || stop.as_string().empty()) fail_type(path, stop, "a text of at least one character");
    if (stop.as_string().size() > engine::StopMatcher::kMaxStopBytes) {
      fail_field(path, fmt::format("{} has {} bytes; the limit is {}", path, stop.as_string().size(),
                                   engine::StopMatcher::kMaxStopBytes));
    }
    stops.push_back(stop.as_string());
  };
  if (value->is(chat::Kind::list)) {
    if (value->items().size() > engine::StopMatcher::kMaxStops) {
      fail_type("stop", *value, fmt::format("at most {}", engine::StopMatcher::kMaxStops));
    }
    for (size_t i = 0; i < value->items().size(); ++i) add(value->items()[i], fmt::format("stop[{}]", i));
  } else {
    add(*value, "stop");
  }
  return stops;
}

void read_logit_bias(Fields& fields, const ServedModel& model, SamplerParams& params) {
  auto biases = fields.object("logit_bias");
  if (!biases) return;
  std::unordered_set<int32_t> tokens;  // "05" is 5
  for (const auto& [name, value] : biases->members().entries()) {
    const std::string& text = name.as_string();
    int32_t token = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), token);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size() || !model.tokenizer->vocab().contains(token)) {
      fail_field("logit_bias", fmt::format("logit_bias names the token '{}'; expected an id of 0 to {}", text,
                                           model.tokenizer->vocab().size() - 1));
    }
    const bool is_number = value.is(chat::Kind::integer) || value.is(chat::Kind::floating);
    if (!is_number || !(value.as_double() >= -100 && value.as_double() <= 100)) {
      fail_type(biases->path(text), value, "a number of -100 to 100");
    }
    const bool is_repeated = !tokens.insert(token).second;
    if (is_repeated) {
      fail_field("logit_bias",
                 fmt::format("logit_bias names the token {} twice, once as '{}'; leave one of them", token, text));
    }
    params.logit_bias.emplace_back(token, static_cast<float>(value.as_double()));
  }
}

void read_breakers(Fields& fields, const ServedModel& model, SamplerParams& params) {
  constexpr size_t kMostBreakers = 64;
  const std::vector<chat::Value>* breakers = fields.list("dry_sequence_breakers");
  if (breakers == nullptr) return;
  if (breakers->size() > kMostBreakers) {
    fail_field("dry_sequence_breakers",
               fmt::format("dry_sequence_breakers has {} texts; the limit is {}", breakers->size(), kMostBreakers));
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < breakers->size(); ++i) {
    const chat::Value& breaker = (*breakers)[i];
    if (!breaker.is_string() || breaker.as_string().empty()) {
      fail_type(fmt::format("dry_sequence_breakers[{}]", i), breaker, "a text of at least one character");
    }
    texts.push_back(breaker.as_string());
  }
  if (params.dry_multiplier != 0) params.dry_breakers = engine::dry_breaker_ids(texts, *model.tokenizer);
}

void forbid_end_tokens(const tokenizer::Vocab& vocab, SamplerParams& params) {
  for (size_t id = 0; id < vocab.size(); ++id) {
    const auto token = static_cast<int32_t>(id);
    if (vocab.is_end_of_generation(token)) {
      params.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
    }
  }
}

uint64_t read_seed(Fields& fields) {
  const auto seed = fields.integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  if (seed && *seed != -1) return static_cast<uint64_t>(*seed);
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

// Mirostat takes the place of the filters and of a greedy choice: one that the request asks for would do nothing.
void check_mirostat(Fields& fields, SamplerParams& params) {
  if (params.mirostat == 0) return;
  for (const std::string_view name : {"top_k", "top_p", "min_p", "typical_p", "xtc_probability"}) {
    if (fields.find(name) == nullptr) continue;
    fail_field(std::string(name),
               fmt::format("mirostat {} and {} can't both hold; leave one of them out, or send mirostat 0",
                           params.mirostat, name));
  }
  if (params.temperature == 0) {
    fail_field("temperature",
               fmt::format("mirostat {} and temperature 0 can't both hold; send mirostat 0", params.mirostat));
  }
}

}  // namespace

SamplerParams read_sampler_fields(Fields& fields, const ServedModel& model) {
  SamplerParams params = model.sampler;
  for (const NumberField& row : kNumbers) {
    if (const auto value = fields.number(row.name, row.low, row.high)) params.*row.member = static_cast<float>(*value);
  }
  for (const CountField& row : kCounts) {
    if (const auto value = fields.integer(row.name, row.low, row.high)) {
      params.*row.member = static_cast<int32_t>(*value);
    }
  }
  params.top_k = std::max(params.top_k, 0);  // some clients write -1 for all
  params.seed = read_seed(fields);
  read_logit_bias(fields, model, params);
  read_breakers(fields, model, params);
  if (fields.boolean("ignore_eos").value_or(false)) forbid_end_tokens(model.tokenizer->vocab(), params);
  check_mirostat(fields, params);
  return params;
}

std::vector<float> read_adapter_scales(Fields& fields, const ServedModel& model) {
  const std::vector<chat::Value>* adapters = fields.list("lora");
  if (adapters == nullptr) return {};
  std::vector<float> scales(model.adapters.size(), 0.0F);
  std::vector<bool> given(scales.size(), false);
  for (size_t i = 0; i < adapters->size(); ++i) {
    const std::string path = fmt::format("lora[{}]", i);
    Fields adapter((*adapters)[i], path, fields.strict());
    const chat::Value& id = adapter.require("id", "the number of an adapter");
    const auto number = id.is(chat::Kind::integer) ? id.as_int() : -1;
    if (number < 0 || number >= static_cast<int64_t>(scales.size())) {
      fail_type(path + ".id", id,
                scales.empty() ? "none: the server has no adapters (minfer serve --lora FILE)"
                               : fmt::format("an id of 0 to {} (GET /lora-adapters lists them)", scales.size() - 1));
    }
    const auto index = static_cast<size_t>(number);
    if (given[index]) fail_field(path + ".id", fmt::format("{}.id names adapter {} a second time", path, number));
    given[index] = true;
    const auto scale = adapter.number("scale", -model::kMaxAdapterScale, model::kMaxAdapterScale);
    scales[index] = static_cast<float>(scale.value_or(1.0));
    adapter.finish();
  }
  return scales;
}

GenerationFields read_generation_fields(Fields& fields, const ServedModel& model) {
  GenerationFields generation;
  generation.sampler = read_sampler_fields(fields, model);
  generation.adapter_scales = read_adapter_scales(fields, model);
  generation.stops = read_stops(fields);
  generation.choices = fields.integer("n", 1, kMostChoices).value_or(1);
  generation.stream = fields.boolean("stream").value_or(false);
  if (auto options = fields.object("stream_options")) {
    if (!generation.stream) fail_field("stream_options", "stream_options goes with stream true");
    generation.include_usage = options->boolean("include_usage").value_or(false);
    options->ignore({"include_obfuscation"});
    options->finish();
  }
  return generation;
}

engine::Request make_request(const GenerationFields& generation, std::vector<int32_t> prompt, int64_t max_tokens,
                             int64_t choice) {
  engine::Request request;
  request.prompt = std::move(prompt);
  request.sampler = generation.sampler;
  request.sampler.seed += static_cast<uint64_t>(choice);
  request.stops = generation.stops;
  request.adapter_scales = generation.adapter_scales;
  request.max_tokens = max_tokens;
  return request;
}

}  // namespace minfer::server::openai
