// The table of endpoints, asked. See router.hpp.
// Few routes: a scan. HEAD is answered as GET, without the body; OPTIONS by the table itself.
#include "server/router.hpp"

#include <algorithm>
#include <utility>

namespace minfer::server {
namespace {

constexpr std::string_view kAnyBelow = "/*";

bool matches(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with(kAnyBelow)) return path == pattern;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.starts_with(pattern);
}

void add_method(std::string& allowed, std::string_view method) {
  if (!allowed.empty()) allowed += ", ";
  allowed += method;
}

}  // namespace

Router::Router(std::vector<Route> routes, const RouterOptions& options,
               std::function<std::optional<ApiError>()> refusal)
    : routes_(std::move(routes)),
      keys_(options.api_keys),
      cors_origins_(options.cors_origins),
      refusal_(std::move(refusal)) {}

// The row, or null; `allowed` are the methods of the path, empty where there is no such path.
const Route* Router::find(const HttpRequest& head, std::string& allowed) const {
  const std::string_view method = head.method == "HEAD" ? "GET" : std::string_view(head.method);
  const Route* found = nullptr;
  for (const Route& route : routes_) {
    if (!matches(route.path, head.path)) continue;
    add_method(allowed, route.method);
    if (route.method == "GET") add_method(allowed, "HEAD");
    if (route.method == method && found == nullptr) found = &route;
  }
  if (!allowed.empty()) add_method(allowed, "OPTIONS");
  return found;
}

// Those for all answers; a response's own of the same name takes their place.
Headers Router::common_headers(const HttpRequest& head) const {
  Headers headers = {
      {"X-Content-Type-Options", "nosniff"}, {"Referrer-Policy", "no-referrer"}, {"Cache-Control", "no-store"}};
  const auto origin = head.header("origin");
  if (cors_origins_.empty()) return headers;
  headers.emplace_back("Vary", "Origin");
  const auto is_allowed = [&](const std::string& allowed) { return allowed == "*" || allowed == origin; };
  if (origin && std::any_of(cors_origins_.begin(), cors_origins_.end(), is_allowed)) {
    headers.emplace_back("Access-Control-Allow-Origin", std::string(*origin));
    headers.emplace_back("Access-Control-Expose-Headers", "Retry-After");
  }
  return headers;
}

// What a browser asks before it lets another site's page send a request.
HttpResponse Router::preflight(const HttpRequest& head, const std::string& allowed) const {
  constexpr int kNoContent = 204;
  HttpResponse response{.status = kNoContent, .content_type = {}, .headers = {{"Allow", allowed}}};
  if (cors_origins_.empty() || !head.header("access-control-request-method")) return response;
  response.headers.emplace_back("Access-Control-Allow-Methods", allowed);
  if (const auto wanted = head.header("access-control-request-headers")) {
    response.headers.emplace_back("Access-Control-Allow-Headers", std::string(*wanted));
  }
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

Admission Router::admit(const HttpRequest& head) const {
  Admission admission{.handler = nullptr, .headers = common_headers(head)};
  const auto refuse = [&](const ApiError& error) {
    admission.refusal = error_response(error);
    return std::move(admission);
  };
  std::string allowed;
  const Route* const route = find(head, allowed);
  if (head.method == "OPTIONS") {
    if (allowed.empty() && head.path == "*") allowed = "GET, HEAD, POST, OPTIONS";
    if (!allowed.empty()) {
      admission.refusal = preflight(head, allowed);
      return admission;
    }
  }
  if (allowed.empty()) {
    return refuse(
        {.status = 404, .message = fmt::format("unknown path: {} {}", head.method, head.path), .code = "unknown_url"});
  }
  if (route == nullptr) {
    admission.refusal =
        error_response({.status = 405,
                        .message = fmt::format("{} does not go with {}; allowed: {}", head.method, head.path, allowed),
                        .code = "method_not_allowed"});
    admission.refusal.headers.emplace_back("Allow", allowed);
    return admission;
  }
  admission.endpoint = std::string(route->path);
  if (route->needs_key && !keys_.empty() && !keys_.accepts(head.header("authorization").value_or(""))) {
    const bool has_one = head.header("authorization").has_value();
    admission.refusal = error_response({.status = 401,
                                        .message = has_one ? "the API key is not one of the server's"
                                                           : "an API key is needed: Authorization: Bearer KEY",
                                        .code = "invalid_api_key"});
    admission.refusal.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"minfer\"");
    return admission;
  }
  if (route->needs_model) {
    if (const auto error = refusal_()) return refuse(*error);
  }
  admission.handler = route->handler;
  return admission;
}

}  // namespace minfer::server
