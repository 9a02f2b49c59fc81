// The answer of /v1/chat/completions: whole, or as a stream of chunks. Each choice's text goes through the parser of
// the model's format, which tells content, reasoning and tool calls apart. Chunks as OpenAI sends them: the role first,
// then deltas, the finish reason, the usage where asked for, [DONE]. On the answers' thread. Source:
// https://platform.openai.com/docs/api-reference/chat.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chat/output_parser.hpp"
#include "server/openai/answer_json.hpp"
#include "server/openai/answer_thread.hpp"

namespace minfer::server::openai {

struct ChatAnswerOptions {
  std::string id;
  int64_t created = 0;
  std::string model;
  const tokenizer::Tokenizer* tokenizer = nullptr;
  IdSource* ids = nullptr;  // of tool calls
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
  bool parallel_calls = true;  // else the first call ends an answer
};

// `parsers`: one a choice. ids and tokenizer outlive the answer.
std::unique_ptr<Answer> make_chat_answer(ChatAnswerOptions options, std::vector<chat::OutputParser> parsers,
                                         std::shared_ptr<Responder> responder);

}  // namespace minfer::server::openai
