// What a client is told where its request fails: OpenAI's error object with its HTTP status. Thrown by what reads a
// request, and made from the engine's errors; every part of the server answers failures through it, so that clients see
// one shape. Source: https://platform.openai.com/docs/guides/error-codes. Plain data; any thread.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "server/http/exchange.hpp"

namespace minfer::server {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param = {};  // the field: "messages[2].content"; empty: null
  std::string code = {};   // empty: null
  int retry_after_s = 0;   // above 0: the header Retry-After
};

// An ApiError on its way to whoever answers the request.
class ApiFailure : public Error {
 public:
  explicit ApiFailure(ApiError error) : Error(ErrorCode::invalid_input, error.message), error_(std::move(error)) {}
  const ApiError& error() const { return error_; }

 private:
  ApiError error_;
};

// Throws ApiFailure: 400, naming the field.
[[noreturn]] void fail_field(const std::string& param, const std::string& message);

// What the error being handled (in a catch block) is for a client: an ApiFailure's own, a minfer::Error by its code,
// all else 500.
ApiError current_api_error();
// invalid_input and unsupported: 400; busy: 429 with Retry-After; cancelled: 503; all else 500.
ApiError api_error(const Error& error);

// {"error": {"message", "type", "param", "code"}}.
std::string error_body(const ApiError& error);
HttpResponse error_response(const ApiError& error);

}  // namespace minfer::server
