// The body of /v1/responses, read into a chat request: input items become messages, flat tools become those of the
// chat form. Stateless: what refers to an earlier response or a stored conversation is refused by name.
// Source: https://platform.openai.com/docs/api-reference/responses/create.
#pragma once

#include <string>

#include "server/openai/chat_request.hpp"

namespace minfer::server::openai {

struct ResponseRequest {
  ChatRequest chat;
  std::string echo;  // members of the response that repeat the request, as JSON without braces
};

// Errors: ApiFailure.
ResponseRequest read_response_request(Fields& fields, const PreparedModel& model);

}  // namespace minfer::server::openai
