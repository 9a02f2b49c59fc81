// The model's properties as JSON. See props.hpp.
// Names of sampler fields are those of requests.
#include "server/props.hpp"

#include "server/json_writer.hpp"

namespace minfer::server {
namespace {

void write_sampler(JsonWriter& json, const engine::SamplerParams& sampler) {
  json.begin_object();
  json.key("temperature").number(sampler.temperature);
  json.key("top_k").integer(sampler.top_k);
  json.key("top_p").number(sampler.top_p);
  json.key("min_p").number(sampler.min_p);
  json.key("typical_p").number(sampler.typical_p);
  json.key("repeat_last_n").integer(sampler.penalty_last_n);
  json.key("repeat_penalty").number(sampler.repeat_penalty);
  json.key("frequency_penalty").number(sampler.frequency_penalty);
  json.key("presence_penalty").number(sampler.presence_penalty);
  json.key("dry_multiplier").number(sampler.dry_multiplier);
  json.key("dry_base").number(sampler.dry_base);
  json.key("dry_allowed_length").integer(sampler.dry_allowed_length);
  json.key("dry_penalty_last_n").integer(sampler.dry_penalty_last_n);
  json.key("xtc_probability").number(sampler.xtc_probability);
  json.key("xtc_threshold").number(sampler.xtc_threshold);
  json.key("mirostat").integer(sampler.mirostat);
  json.key("mirostat_tau").number(sampler.mirostat_tau);
  json.key("mirostat_eta").number(sampler.mirostat_eta);
  json.end_object();
}

}  // namespace

std::string props_json(const ServedModel& model) {
  JsonWriter json;
  json.begin_object();
  json.key("model").string(model.name);
  json.key("model_path").string(model.path);
  json.key("architecture").string(model.architecture);
  json.key("description").string(model.description);
  json.key("context").integer(model.context_tokens);
  json.key("trained_context").integer(model.trained_context);
  json.key("embedding_width").integer(model.embedding_width);
  json.key("parallel").integer(model.parallel);
  json.key("vocabulary").integer(static_cast<int64_t>(model.tokenizer->vocab().size()));
  json.key("chat_template");
  if (model.chat_template) {
    json.string(model.template_source);
  } else {
    json.null();
  }
  json.key("sampler");
  write_sampler(json, model.sampler);
  json.end_object();
  return json.take();
}

}  // namespace minfer::server
