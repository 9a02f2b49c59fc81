// What the endpoints know of the loaded model: made by the command line once it is loaded, shared by all handlers.
// Everything in it may be used from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/template.hpp"
#include "engine/engine.hpp"
#include "engine/grammar/grammar.hpp"
#include "engine/sampler/params.hpp"
#include "tokenizer/tokenizer.hpp"

namespace minfer::server {

// A LoRA adapter, and what a request that says nothing gets of it.
struct ServedAdapter {
  std::string path;
  float scale = 1;
};

struct ServedModel {
  std::string name;             // the alias, or the file's name without folder and ending
  std::string path;             // of the file
  std::string architecture;     // "qwen2"
  std::string description;      // of the file's types: "Q4_K - Medium"
  int64_t created = 0;          // seconds since 1970: the file's time
  int64_t context_tokens = 0;   // most of one request, prompt and answer
  int64_t trained_context = 0;  // of the model
  int64_t embedding_width = 0;
  int64_t parallel = 1;  // requests that run at once
  engine::Engine* engine = nullptr;
  const tokenizer::Tokenizer* tokenizer = nullptr;
  std::shared_ptr<const engine::grammar::TokenTable> token_table;
  // The chat template; none: chat endpoints refuse, with a way out.
  std::optional<chat::Template> chat_template;
  std::string template_source;          // of it
  engine::SamplerParams sampler;        // what a request that says nothing gets
  std::vector<ServedAdapter> adapters;  // by id
};

}  // namespace minfer::server
