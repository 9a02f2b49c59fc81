// The table of endpoints. See routes.hpp.
// What a handler throws becomes an answer here.
#include "server/openai/routes.hpp"

#include <string_view>

#include "server/api_error.hpp"
#include "server/openai/endpoints.hpp"

namespace minfer::server::openai {
namespace {

struct Row {
  std::string_view method;
  std::string_view path;
  EndpointHandler* handler;
};

constexpr Row kRows[] = {
    {"POST", kChatPath, handle_chat},
    {"POST", kCompletionsPath, handle_completions},
    {"POST", kResponsesPath, handle_responses},
    {"POST", kEmbeddingsPath, handle_embeddings},
    {"POST", "/tokenize", handle_tokenize},
    {"POST", "/detokenize", handle_detokenize},
    {"POST", "/apply-template", handle_apply_template},
    {"GET", kModelsPath, handle_models},
    {"GET", "/lora-adapters", handle_adapters},
    {"GET", "/v1/models/*", handle_model},  // kModelPathPrefix
};

// Larger bodies are read on a thread of their own.
constexpr size_t kMostBytesAtOnce = size_t{64} << 10;

void answer(EndpointHandler* handler, Service& service, const HttpRequest& request,
            const std::shared_ptr<Responder>& responder) {
  try {
    handler(service, request, responder);
  } catch (...) {
    responder->send(error_response(current_api_error()));
  }
}

// An EndpointHandler that leaves the work to the thread of large requests, which the service outlives.
void answer_later(EndpointHandler* handler, Service& service, const HttpRequest& request,
                  const std::shared_ptr<Responder>& responder) {
  service.large_requests().put(
      responder, "",
      {[handler, &service, request, responder] { answer(handler, service, request, responder); },
       [responder] { responder->send(error_response(stopping_error())); }});
}

}  // namespace

Endpoints::Endpoints(EndpointOptions options)
    : service_(
          std::make_shared<Service>(std::move(options.model), options.strict_fields, std::move(options.on_result))) {}

std::vector<Route> Endpoints::routes() const {
  std::vector<Route> routes;
  for (const Row& row : kRows) {
    Route route{.method = row.method, .path = row.path, .handler = {}};
    route.handler = [service = service_, handler = row.handler](const HttpRequest& request,
                                                                const std::shared_ptr<Responder>& responder) {
      if (request.body.size() <= kMostBytesAtOnce) return answer(handler, *service, request, responder);
      try {
        answer_later(handler, *service, request, responder);
      } catch (...) {
        responder->send(error_response(current_api_error()));
      }
    };
    routes.push_back(std::move(route));
  }
  return routes;
}

void Endpoints::stop() {
  service_->stop();
}

}  // namespace minfer::server::openai
