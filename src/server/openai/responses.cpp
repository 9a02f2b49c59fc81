// POST /v1/responses: reads the request, makes the engine's request, and leaves the rest to the answers' thread.
// Nothing is stored: `store` is answered with false.
#include "server/openai/endpoints.hpp"
#include "server/openai/response_answer.hpp"
#include "server/openai/response_request.hpp"

namespace minfer::server::openai {

void handle_responses(Service& service, const HttpRequest& http, const std::shared_ptr<Responder>& responder) {
  const auto model = service.model();
  const chat::Value body = parse_body(http.body);
  Fields fields(body, "", service.is_strict());
  ResponseRequest request = read_response_request(fields, *model);
  PreparedChat prepared = prepare_chat(*model, request.chat);
  ResponseAnswerOptions options{.id = service.ids().make("resp_"),
                                .created = unix_seconds(),
                                .model = model->served->name,
                                .echo = std::move(request.echo),
                                .tokenizer = model->served->tokenizer,
                                .ids = &service.ids(),
                                .stream = request.chat.generation.stream,
                                .logprobs = request.chat.top_logprobs >= 0,
                                .parallel_calls = request.chat.tools.parallel};
  service.start(model, std::move(prepared.wish),
                {.endpoint = kResponsesPath,
                 .model = model->served,
                 .responder = responder,
                 .parts = std::move(prepared.parts),
                 .answer = make_response_answer(std::move(options), std::move(prepared.parsers.front()), responder)});
}

}  // namespace minfer::server::openai
