// The server put together. See server.hpp.
// Members are made in an order that matters: requests may come as soon as http_ is there.
#include "server/server.hpp"

#include <utility>

#include "base/free_memory.hpp"
#include "server/props.hpp"
#include "server/web_files.hpp"

namespace minfer::server {

Server::Server(const ServerOptions& options, ServerState& state, Metrics& metrics, std::vector<Route> endpoints)
    : state_(state),
      metrics_(metrics),
      router_(with_own_routes(std::move(endpoints)), options.router, [&state] { return state.refusal(); }),
      http_(options.http,
            {.admit = [this](const HttpRequest& head) { return router_.admit(head); },
             .answered = [&metrics](std::string_view endpoint, int status) { metrics.count_answer(endpoint, status); },
             .idle = release_free_memory}) {}

std::vector<Route> Server::with_own_routes(std::vector<Route> routes) {
  const auto add = [&routes](Route route) { routes.push_back(std::move(route)); };
  add({.method = "GET",
       .path = "/health",
       .needs_key = false,
       .needs_model = false,
       .handler = [this](const HttpRequest&, const auto& responder) { responder->send(state_.health()); }});
  add({.method = "GET",
       .path = "/metrics",
       .needs_model = false,
       .handler = [this](const HttpRequest&, const auto& responder) { responder->send(metrics_page()); }});
  add({.method = "GET", .path = "/props", .handler = [this](const HttpRequest&, const auto& responder) {
         if (const auto model = state_.model()) {
           responder->send({.body = props_json(*model)});
         } else {
           responder->send(error_response(*state_.refusal()));
         }
       }});
  for (Route& route : web_routes()) add(std::move(route));
  return routes;
}

HttpResponse Server::metrics_page() {
  metrics_.set_connections(http_.connections());
  if (const auto model = state_.model()) metrics_.set_engine(model->engine->stats());
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_.text()};
}

int64_t Server::drain(std::chrono::milliseconds most) {
  state_.set_draining();
  return http_.drain(most);
}

void Server::stop() {
  http_.stop();
}

}  // namespace minfer::server
