// POST /v1/embeddings: texts, or lists of token ids, to vectors of length 1, as numbers or as base64 of little-endian
// 32-bit floats. Each input is an engine request of its own; no more of them wait at once than the model runs at once.
// Source: https://platform.openai.com/docs/api-reference/embeddings.
#include <bit>
#include <cmath>
#include <utility>

#include "server/api_error.hpp"
#include "server/json_writer.hpp"
#include "server/openai/endpoints.hpp"
#include "server/openai/generation_fields.hpp"

namespace minfer::server::openai {
namespace {

constexpr size_t kMostInputs = 2048;

static_assert(std::endian::native == std::endian::little, "base64 has the floats as they lie in memory");

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (size_t j = 0; j < 4; ++j) text += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

// Of length 1; a vector of zeros stays one.
std::vector<float> normalized(const std::vector<float>& vector) {
  double sum = 0;
  for (const float x : vector) sum += static_cast<double>(x) * x;
  if (sum == 0) return vector;
  std::vector<float> result;
  result.reserve(vector.size());
  const double scale = 1 / std::sqrt(sum);
  for (const float x : vector) result.push_back(static_cast<float>(x * scale));
  return result;
}

class EmbeddingAnswer : public Answer {
 public:
  EmbeddingAnswer(std::string model, size_t inputs, bool as_base64, std::shared_ptr<Responder> responder)
      : model_(std::move(model)), as_base64_(as_base64), responder_(std::move(responder)), vectors_(inputs) {}

  void begin() override {}
  bool token(size_t, const PartToken&) override { return true; }

  void end(size_t part, const engine::Result& result) override {
    vectors_[part] = normalized(result.embedding);
    tokens_ += result.prompt_tokens;
  }

  void finish() override {
    JsonWriter json;
    json.begin_object().key("object").string("list").key("data").begin_array();
    for (size_t i = 0; i < vectors_.size(); ++i) {
      json.begin_object().key("object").string("embedding").key("index").integer(static_cast<int64_t>(i));
      json.key("embedding");
      write_vector(json, vectors_[i]);
      json.end_object();
    }
    json.end_array().key("model").string(model_);
    json.key("usage").begin_object().key("prompt_tokens").integer(tokens_);
    json.key("total_tokens").integer(tokens_).end_object().end_object();
    responder_->send({.body = json.take()});
  }

  void fail(const ApiError& error) override { responder_->send(error_response(error)); }

 private:
  void write_vector(JsonWriter& json, const std::vector<float>& vector) const {
    if (as_base64_) {
      json.string(base64({reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)}));
      return;
    }
    json.begin_array();
    for (const float x : vector) json.number(x);
    json.end_array();
  }

  std::string model_;
  bool as_base64_;
  std::shared_ptr<Responder> responder_;
  std::vector<std::vector<float>> vectors_;
  int64_t tokens_ = 0;
};

}  // namespace

void handle_embeddings(Service& service, const HttpRequest& http, const std::shared_ptr<Responder>& responder) {
  const auto model = service.model();
  const ServedModel& served = *model->served;
  const chat::Value body = parse_body(http.body);
  Fields fields(body, "", service.is_strict());
  read_model_name(fields, served);
  const chat::Value& input = fields.require("input", "a text, or a list of texts or token ids");
  const auto prompts = read_prompts(input, "input", served, kMostInputs);
  for (const std::vector<int32_t>& prompt : prompts) check_prompt(prompt, served, "input");
  const auto format = fields.choice("encoding_format", {"float", "base64"});
  const auto dimensions = fields.integer("dimensions", 1, kMostTokens);
  if (dimensions && *dimensions != served.embedding_width) {
    fail_field("dimensions",
               fmt::format("dimensions is {}; the model's embeddings have {}", *dimensions, served.embedding_width));
  }
  const std::vector<float> adapter_scales = read_adapter_scales(fields, served);
  fields.ignore({"user"});
  fields.finish();
  const auto window = static_cast<size_t>(std::max<int64_t>(served.parallel, 1));
  Job job{.endpoint = kEmbeddingsPath, .model = model->served, .responder = responder, .parts = {}, .answer = {}};
  for (size_t i = 0; i < prompts.size(); ++i) {
    engine::Request request;
    request.prompt = prompts[i];
    request.pooling = engine::Pooling::of_model;
    request.adapter_scales = adapter_scales;
    job.parts.push_back({std::move(request)});
    if (i >= window) job.parts.back().after = i - window;
  }
  job.answer = std::make_unique<EmbeddingAnswer>(served.name, prompts.size(), format == 1, responder);
  service.answers().start(std::move(job));
}

}  // namespace minfer::server::openai
