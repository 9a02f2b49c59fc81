// Common pieces of answers. See answer_json.hpp.
// Ids come from SplitMix64 over a counter: distinct by construction, and no lock.
#include "server/openai/answer_json.hpp"

#include <chrono>
#include <cmath>
#include <random>

namespace minfer::server::openai {
namespace {

constexpr std::string_view kIdCharacters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr size_t kIdLength = 24;

uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

void write_bytes(JsonWriter& json, std::string_view text) {
  json.key("bytes").begin_array();
  for (const char byte : text) json.integer(static_cast<unsigned char>(byte));
  json.end_array();
}

void write_token(JsonWriter& json, const tokenizer::Tokenizer& tokenizer, int32_t id, float logprob) {
  const std::string text = tokenizer.token_bytes(id);
  json.key("token").string(text).key("logprob").number(finite_logprob(logprob));
  write_bytes(json, text);
}

}  // namespace

IdSource::IdSource() {
  std::random_device device;
  start_ = uint64_t{device()} << 32 | device();
}

std::string IdSource::make(std::string_view prefix) {
  constexpr uint64_t kStep = 0x9E3779B97F4A7C15ULL;
  const uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  std::string id(prefix);
  uint64_t bits = 0;
  for (size_t i = 0; i < kIdLength; ++i) {
    // Ten characters of 62 fit in 64 bits.
    if (i % 10 == 0) bits = mix(start_ + (number * 3 + i / 10) * kStep);
    id += kIdCharacters[bits % kIdCharacters.size()];
    bits /= kIdCharacters.size();
  }
  return id;
}

void Usage::add(const engine::Result& result, bool counts_prompt) {
  completion += result.generated_tokens;
  if (!counts_prompt) return;
  prompt += result.prompt_tokens;
  cached += result.reused_tokens;
}

void write_usage(JsonWriter& json, const Usage& usage) {
  json.begin_object();
  json.key("prompt_tokens").integer(usage.prompt);
  json.key("completion_tokens").integer(usage.completion);
  json.key("total_tokens").integer(usage.prompt + usage.completion);
  json.key("prompt_tokens_details").begin_object().key("cached_tokens").integer(usage.cached).end_object();
  json.key("completion_tokens_details").begin_object();
  json.key("reasoning_tokens").integer(usage.reasoning).end_object();
  json.end_object();
}

float finite_logprob(float logprob) {
  constexpr float kUnlikely = -9999.0F;
  return std::isfinite(logprob) ? logprob : kUnlikely;
}

void write_token_logprob(JsonWriter& json, const tokenizer::Tokenizer& tokenizer, const PartToken& token) {
  json.begin_object();
  write_token(json, tokenizer, token.id, token.logprob);
  json.key("top_logprobs").begin_array();
  for (const engine::TokenLogprob& other : token.top) {
    json.begin_object();
    write_token(json, tokenizer, other.token, other.logprob);
    json.end_object();
  }
  json.end_array().end_object();
}

bool is_shown_token(const tokenizer::Tokenizer& tokenizer, int32_t id) {
  return id != engine::kNoToken && !tokenizer.vocab().is_end_of_generation(id);
}

std::string_view finish_reason(engine::StopReason reason) {
  const bool was_cut = reason == engine::StopReason::max_tokens || reason == engine::StopReason::context_full;
  return was_cut ? "length" : "stop";
}

int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace minfer::server::openai
