// The server as a whole: HTTP, the table of endpoints, and those that are about the server itself (/health, /metrics,
// /props and the web page). The endpoints of the models are given to it. It listens from its making on, and refuses
// what needs the model until ServerState has it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "server/http/http_server.hpp"
#include "server/metrics.hpp"
#include "server/router.hpp"
#include "server/state.hpp"

namespace minfer::server {

struct ServerOptions {
  HttpOptions http;
  RouterOptions router;
};

class Server {
 public:
  // `endpoints` are rows of the table; state and metrics outlive the server. Errors: io, where it can't listen.
  Server(const ServerOptions& options, ServerState& state, Metrics& metrics, std::vector<Route> endpoints);

  const std::string& address() const { return http_.address(); }
  // Takes no connections and no work any more, and waits for the running answers, at most so long. How many are not at
  // their end then.
  int64_t drain(std::chrono::milliseconds most);
  // Drops what is left. The model may go after it.
  void stop();

 private:
  std::vector<Route> with_own_routes(std::vector<Route> endpoints);
  HttpResponse metrics_page();

  ServerState& state_;
  Metrics& metrics_;
  Router router_;
  HttpServer http_;
};

}  // namespace minfer::server
