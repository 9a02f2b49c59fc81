// The fields that every endpoint that generates has in common: how many tokens, when to stop, how to draw. OpenAI's own
// have OpenAI's ranges; the sampler extensions have the names that llama.cpp's users send and the engine's ranges.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.hpp"
#include "server/openai/fields.hpp"
#include "server/served_model.hpp"

namespace minfer::server::openai {

inline constexpr int64_t kMostChoices = 128;
inline constexpr int64_t kMostTokens = int64_t{1} << 31;

struct GenerationFields {
  engine::SamplerParams sampler;  // the server's, with what the request asks
  std::vector<std::string> stops;
  int64_t choices = 1;  // `n`; choice i has the seed + i
  bool stream = false;
  bool include_usage = false;         // of a stream, at its end
  std::vector<float> adapter_scales;  // of the server's adapters; empty: as they were loaded
};

// Reads n, stream, stream_options, stop, seed (none or -1: a random one) and the fields of the sampler. Errors:
// ApiFailure.
GenerationFields read_generation_fields(Fields& fields, const ServedModel& model);
// `lora`: [{"id", "scale"}], as llama.cpp's server has it: adapters that are not named get nothing. Empty where it is
// not given. Errors: ApiFailure.
std::vector<float> read_adapter_scales(Fields& fields, const ServedModel& model);
// The sampler's fields alone, of an endpoint that has its own names for others.
engine::SamplerParams read_sampler_fields(Fields& fields, const ServedModel& model);
// The engine's request of choice `choice`.
engine::Request make_request(const GenerationFields& generation, std::vector<int32_t> prompt, int64_t max_tokens,
                             int64_t choice);

}  // namespace minfer::server::openai
