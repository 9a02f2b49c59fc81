// POST /v1/chat/completions: reads the request, makes the engine's requests, and leaves the rest to the answers'
// thread.
#include "server/openai/chat_answer.hpp"
#include "server/openai/chat_request.hpp"
#include "server/openai/endpoints.hpp"

namespace minfer::server::openai {

void handle_chat(Service& service, const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
  const auto model = service.model();
  const chat::Value body = parse_body(request.body);
  Fields fields(body, "", service.is_strict());
  const ChatRequest chat = read_chat_request(fields, *model);
  PreparedChat prepared = prepare_chat(*model, chat);
  ChatAnswerOptions options{.id = service.ids().make("chatcmpl-"),
                            .created = unix_seconds(),
                            .model = model->served->name,
                            .tokenizer = model->served->tokenizer,
                            .ids = &service.ids(),
                            .stream = chat.generation.stream,
                            .include_usage = chat.generation.include_usage,
                            .logprobs = chat.top_logprobs >= 0,
                            .parallel_calls = chat.tools.parallel};
  service.start(model, std::move(prepared.wish),
                {.endpoint = kChatPath,
                 .model = model->served,
                 .responder = responder,
                 .parts = std::move(prepared.parts),
                 .answer = make_chat_answer(std::move(options), std::move(prepared.parsers), responder)});
}

}  // namespace minfer::server::openai
