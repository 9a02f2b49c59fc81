// A served model with what the endpoints make of it once: how its template wants its messages, and the grammars that
// were compiled for its vocabulary. Shared by the requests for it; any thread.
#pragma once

#include <memory>
#include <utility>

#include "server/openai/chat_prompt.hpp"
#include "server/openai/constraint.hpp"
#include "server/served_model.hpp"

namespace minfer::server::openai {

struct PreparedModel {
  explicit PreparedModel(std::shared_ptr<const ServedModel> model)
      : served(std::move(model)), prompt(*served), grammars(served->token_table) {}

  std::shared_ptr<const ServedModel> served;
  ChatPrompt prompt;
  GrammarCache grammars;
};

}  // namespace minfer::server::openai
