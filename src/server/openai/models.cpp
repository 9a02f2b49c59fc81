// GET /v1/models and /v1/models/{id}: the one model that is served; GET /lora-adapters: its adapters, by the ids that a
// request's `lora` names. `meta` is an extension: what a client may want to
// know before it sends a long prompt.
#include "server/api_error.hpp"
#include "server/json_writer.hpp"
#include "server/openai/endpoints.hpp"

namespace minfer::server::openai {
namespace {

void write_model(JsonWriter& json, const ServedModel& model) {
  json.begin_object().key("id").string(model.name).key("object").string("model");
  json.key("created").integer(model.created).key("owned_by").string("minfer");
  json.key("meta").begin_object();
  json.key("architecture").string(model.architecture).key("file_type").string(model.description);
  json.key("context_tokens").integer(model.context_tokens).key("trained_context").integer(model.trained_context);
  json.key("vocabulary").integer(static_cast<int64_t>(model.tokenizer->vocab().size()));
  json.key("embedding_width").integer(model.embedding_width);
  json.end_object().end_object();
}

}  // namespace

void handle_models(Service& service, const HttpRequest&, const std::shared_ptr<Responder>& responder) {
  JsonWriter json;
  json.begin_object().key("object").string("list").key("data").begin_array();
  write_model(json, *service.model()->served);
  json.end_array().end_object();
  responder->send({.body = json.take()});
}

void handle_model(Service& service, const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
  const auto model = service.model();
  const std::string name = request.path.substr(kModelPathPrefix.size());
  if (name != model->served->name) fail_unknown_model(name, *model->served);
  JsonWriter json;
  write_model(json, *model->served);
  responder->send({.body = json.take()});
}

void handle_adapters(Service& service, const HttpRequest&, const std::shared_ptr<Responder>& responder) {
  JsonWriter json;
  json.begin_array();
  int64_t id = 0;
  for (const ServedAdapter& adapter : service.model()->served->adapters) {
    json.begin_object().key("id").integer(id++).key("path").string(adapter.path).key("scale").number(adapter.scale);
    json.end_object();
  }
  json.end_array();
  responder->send({.body = json.take()});
}

}  // namespace minfer::server::openai
