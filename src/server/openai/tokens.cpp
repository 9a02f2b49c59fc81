// POST /tokenize, /detokenize and /apply-template: what the model would get, without running it. Names of the fields as
// llama.cpp's users know them: {"content", "add_special", "parse_special", "with_pieces"} -> {"tokens"}, {"tokens"} ->
// {"content"}, {"messages", "tools", ...} -> {"prompt"}.
#include "server/api_error.hpp"
#include "server/json_writer.hpp"
#include "server/openai/chat_request.hpp"
#include "server/openai/endpoints.hpp"

namespace minfer::server::openai {

void handle_tokenize(Service& service, const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
  const auto model = service.model();
  const chat::Value body = parse_body(request.body);
  Fields fields(body, "", service.is_strict());
  read_model_name(fields, *model->served);
  fields.require("content", "a text");
  const std::string content = *fields.text("content");
  const tokenizer::EncodeOptions options{.parse_special = fields.boolean("parse_special").value_or(true),
                                         .add_special = fields.boolean("add_special").value_or(false)};
  const bool with_pieces = fields.boolean("with_pieces").value_or(false);
  fields.finish();
  const tokenizer::Tokenizer& tokenizer = *model->served->tokenizer;
  JsonWriter json;
  json.begin_object().key("tokens").begin_array();
  for (const int32_t id : tokenizer.encode(content, options)) {
    if (with_pieces) {
      json.begin_object().key("id").integer(id).key("piece").string(tokenizer.token_bytes(id)).end_object();
    } else {
      json.integer(id);
    }
  }
  json.end_array().end_object();
  responder->send({.body = json.take()});
}

void handle_detokenize(Service& service, const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
  const auto model = service.model();
  const chat::Value body = parse_body(request.body);
  Fields fields(body, "", service.is_strict());
  read_model_name(fields, *model->served);
  fields.require("tokens", "a list of token ids");
  const std::vector<int32_t> ids = read_token_ids(*fields.list("tokens"), "tokens", *model->served);
  fields.finish();
  const std::string content = model->served->tokenizer->decode(ids, {.show_control = true});
  JsonWriter json;
  json.begin_object().key("content").string(content).end_object();
  responder->send({.body = json.take()});
}

void handle_apply_template(Service& service, const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
  const auto model = service.model();
  const chat::Value body = parse_body(request.body);
  Fields fields(body, "", service.is_strict());
  ChatRequest chat;
  read_model_name(fields, *model->served);
  read_conversation(fields, *model, chat);
  fields.finish();
  JsonWriter json;
  json.begin_object().key("prompt").string(render_chat(*model, chat)).end_object();
  responder->send({.body = json.take()});
}

}  // namespace minfer::server::openai
