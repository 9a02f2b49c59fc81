// The answer of /v1/responses: whole, or as the named events of that API. The answer's text goes through the parser of
// the model's format and becomes output items: reasoning, messages, function calls. On the answers' thread.
// Source: https://platform.openai.com/docs/api-reference/responses-streaming.
#pragma once

#include <memory>
#include <string>

#include "chat/output_parser.hpp"
#include "server/openai/answer_json.hpp"
#include "server/openai/answer_thread.hpp"

namespace minfer::server::openai {

struct ResponseAnswerOptions {
  std::string id;
  int64_t created = 0;
  std::string model;
  // Members of the response object that repeat the request, as JSON without braces.
  std::string echo;
  const tokenizer::Tokenizer* tokenizer = nullptr;
  IdSource* ids = nullptr;
  bool stream = false;
  bool logprobs = false;
  bool parallel_calls = true;  // else the first call ends the answer
};

std::unique_ptr<Answer> make_response_answer(ResponseAnswerOptions options, chat::OutputParser parser,
                                             std::shared_ptr<Responder> responder);

}  // namespace minfer::server::openai
