// Who is let through to which endpoint, and what the others are told.
#include "server/router.hpp"

#include <gtest/gtest.h>

namespace minfer::server {
namespace {

HttpRequest request(std::string method, std::string path, Headers headers = {}) {
  return {std::move(method), std::move(path), "", std::move(headers), ""};
}

Route route(std::string_view method, std::string_view path, bool needs_key = true, bool needs_model = true) {
  return {method, path, needs_key, needs_model, [](const HttpRequest&, const auto&) {}};
}

std::string find(const Headers& headers, const std::string& name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "none";
}

class RouterTest : public testing::Test {
 protected:
  Router make(RouterOptions options = {}) {
    return {{route("POST", "/chat"), route("GET", "/models"), route("GET", "/models/*"),
             route("GET", "/health", false, false)},
            options,
            [this] { return refusal_; }};
  }
  static int status(const Admission& admission) { return admission.handler ? 0 : admission.refusal.status; }

  std::optional<ApiError> refusal_;
};

TEST_F(RouterTest, Paths) {
  const Router router = make();
  EXPECT_EQ(status(router.admit(request("POST", "/chat"))), 0);
  EXPECT_EQ(router.admit(request("POST", "/chat")).endpoint, "/chat");
  EXPECT_EQ(router.admit(request("GET", "/models/a/b")).endpoint, "/models/*");
  EXPECT_EQ(router.admit(request("HEAD", "/models")).endpoint, "/models");
  EXPECT_EQ(status(router.admit(request("GET", "/models/"))), 404);
  EXPECT_EQ(status(router.admit(request("GET", "/chat/"))), 404);
  EXPECT_EQ(status(router.admit(request("OPTIONS", "/nothing"))), 404);
  const Admission wrong = router.admit(request("GET", "/chat"));
  EXPECT_EQ(status(wrong), 405);
  EXPECT_EQ(find(wrong.refusal.headers, "Allow"), "POST, OPTIONS");
  EXPECT_EQ(wrong.refusal.body.find("\"param\":null") == std::string::npos, false);
  EXPECT_EQ(find(router.admit(request("OPTIONS", "/models")).refusal.headers, "Allow"), "GET, HEAD, OPTIONS");
}

TEST_F(RouterTest, KeysComeBeforeTheModel) {
  refusal_ = ApiError{.status = 503, .message = "loading"};
  const Router router = make({.api_keys = {"k1", "k2"}});
  EXPECT_EQ(status(router.admit(request("GET", "/health"))), 0);
  EXPECT_EQ(status(router.admit(request("POST", "/chat"))), 401);
  EXPECT_EQ(status(router.admit(request("POST", "/chat", {{"authorization", "Bearer k"}}))), 401);
  EXPECT_EQ(status(router.admit(request("POST", "/chat", {{"authorization", "k1"}}))), 401);
  EXPECT_EQ(status(router.admit(request("POST", "/chat", {{"authorization", "Bearer k2"}}))), 503);
  refusal_.reset();
  EXPECT_EQ(status(router.admit(request("POST", "/chat", {{"authorization", "bearer  k2"}}))), 0);
  EXPECT_EQ(status(make().admit(request("POST", "/chat"))), 0);
}

TEST_F(RouterTest, OtherSites) {
  const Headers from = {{"origin", "https://a"}, {"access-control-request-method", "POST"}};
  EXPECT_EQ(find(make().admit(request("OPTIONS", "/chat", from)).headers, "Access-Control-Allow-Origin"), "none");
  const Router router = make({.api_keys = {"k"}, .cors_origins = {"https://a"}});
  const Admission preflight = router.admit(request("OPTIONS", "/chat", from));
  EXPECT_EQ(preflight.refusal.status, 204);
  EXPECT_EQ(find(preflight.headers, "Access-Control-Allow-Origin"), "https://a");
  EXPECT_EQ(find(preflight.refusal.headers, "Access-Control-Allow-Methods"), "POST, OPTIONS");
  const Headers other = {{"origin", "https://b"}};
  EXPECT_EQ(find(router.admit(request("GET", "/health", other)).headers, "Access-Control-Allow-Origin"), "none");
  EXPECT_EQ(find(make({.cors_origins = {"*"}}).admit(request("GET", "/health", other)).headers,
                 "Access-Control-Allow-Origin"),
            "https://b");
}

}  // namespace
}  // namespace minfer::server
