// Errors as clients see them. See api_error.hpp.
// The status of each ErrorCode is one table here.
#include "server/api_error.hpp"

#include <new>

#include "server/json_writer.hpp"

namespace minfer::server {
namespace {

constexpr int kRetryAfterS = 1;

void nullable(JsonWriter& json, std::string_view key, const std::string& value) {
  json.key(key);
  if (value.empty()) {
    json.null();
  } else {
    json.string(value);
  }
}

}  // namespace

void fail_field(const std::string& param, const std::string& message) {
  throw ApiFailure({.status = 400, .message = message, .param = param});
}

ApiError api_error(const Error& error) {
  switch (error.code()) {
    case ErrorCode::invalid_input:
      return {.status = 400, .message = error.what()};
    case ErrorCode::unsupported:
      return {.status = 400, .message = error.what(), .code = "unsupported"};
    case ErrorCode::busy:
      return {.status = 429,
              .message = error.what(),
              .type = "rate_limit_error",
              .code = "queue_full",
              .retry_after_s = kRetryAfterS};
    case ErrorCode::cancelled:
      return {.status = 503,
              .message = error.what(),
              .type = "server_error",
              .code = "shutting_down",
              .retry_after_s = kRetryAfterS};
    case ErrorCode::out_of_memory:
      return {.status = 500, .message = error.what(), .type = "server_error", .code = "out_of_memory"};
    case ErrorCode::io:
    case ErrorCode::device:
    case ErrorCode::internal:
      break;
  }
  return {.status = 500,
          .message = error.what(),
          .type = "server_error",
          .code = std::string(error_code_name(error.code()))};
}

ApiError current_api_error() {
  try {
    throw;
  } catch (const ApiFailure& failure) {
    return failure.error();
  } catch (const Error& error) {
    return api_error(error);
  } catch (const std::bad_alloc&) {
    return api_error({ErrorCode::out_of_memory, "memory is used up; ask for less at once"});
  } catch (const std::exception& error) {
    return api_error({ErrorCode::internal, fmt::format("internal error: {}", error.what())});
  }
}

std::string error_body(const ApiError& error) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.key("message").string(error.message);
  json.key("type").string(error.type);
  nullable(json, "param", error.param);
  nullable(json, "code", error.code);
  json.end_object().end_object();
  return json.take();
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response{.status = error.status, .body = error_body(error)};
  if (error.retry_after_s > 0) response.headers.emplace_back("Retry-After", fmt::to_string(error.retry_after_s));
  return response;
}

}  // namespace minfer::server
