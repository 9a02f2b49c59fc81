// From a request's head to the endpoint that answers it, or to the reason why none does: unknown path or method, no
// key, no model yet. Also what other sites' pages may do (CORS), and the headers that go with every answer. Immutable;
// any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/api_error.hpp"
#include "server/api_keys.hpp"
#include "server/http/http_server.hpp"

namespace minfer::server {

struct RouterOptions {
  std::vector<std::string> api_keys = {};      // none: no key is needed
  std::vector<std::string> cors_origins = {};  // whose pages may use the server: "https://example.org", or "*"
};

class Router {
 public:
  // `refusal` says why the model can't be used now.
  Router(std::vector<Route> routes, const RouterOptions& options, std::function<std::optional<ApiError>()> refusal);
  Admission admit(const HttpRequest& head) const;

 private:
  const Route* find(const HttpRequest& head, std::string& allowed) const;
  Headers common_headers(const HttpRequest& head) const;
  HttpResponse preflight(const HttpRequest& head, const std::string& allowed) const;

  std::vector<Route> routes_;
  ApiKeys keys_;
  std::vector<std::string> cors_origins_;
  std::function<std::optional<ApiError>()> refusal_;
};

}  // namespace minfer::server
