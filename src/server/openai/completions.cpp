// POST /v1/completions: the older endpoint, on bare text. As OpenAI's, max_tokens is 16 where it is not given.
// Source: https://platform.openai.com/docs/api-reference/completions.
#include <algorithm>

#include "server/api_error.hpp"
#include "server/openai/completion_answer.hpp"
#include "server/openai/constraint.hpp"
#include "server/openai/endpoints.hpp"
#include "server/openai/generation_fields.hpp"

namespace minfer::server::openai {
namespace {

constexpr int64_t kDefaultTokens = 16;
constexpr size_t kMostPrompts = 128;

struct CompletionRequest {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> echoes;  // what each answer begins with; empty: nothing
  Constraint constraint;
  GenerationFields generation;
  int64_t max_tokens = kDefaultTokens;
  int32_t top_logprobs = -1;
};

void read_prompt(Fields& fields, const ServedModel& model, CompletionRequest& request) {
  const chat::Value& prompt = fields.require("prompt", "a text, or a list of texts or token ids");
  request.prompts = read_prompts(prompt, "prompt", model, kMostPrompts);
  for (const std::vector<int32_t>& tokens : request.prompts) check_prompt(tokens, model, "prompt");
  if (!fields.boolean("echo").value_or(false)) return;
  if (request.top_logprobs >= 0) {
    fail_field("echo", "echo and logprobs can't both hold: log-probabilities of the prompt are not computed");
  }
  const bool is_texts = prompt.is(chat::Kind::list) && prompt.items().front().is_string();
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    if (prompt.is_string()) {
      request.echoes.push_back(prompt.as_string());
    } else if (is_texts && prompt.items()[i].is_string()) {
      request.echoes.push_back(prompt.items()[i].as_string());
    } else {
      request.echoes.push_back(model.tokenizer->decode(request.prompts[i], {.show_control = true}));
    }
  }
}

CompletionRequest read_completion_request(Fields& fields, const ServedModel& model) {
  CompletionRequest request;
  read_model_name(fields, model);
  request.generation = read_generation_fields(fields, model);
  request.constraint = read_constraint(fields);
  request.max_tokens = fields.integer("max_tokens", 0, kMostTokens).value_or(kDefaultTokens);
  const auto top = fields.integer("logprobs", 0, engine::kMostTopLogprobs);
  request.top_logprobs = static_cast<int32_t>(top.value_or(-1));
  read_prompt(fields, model, request);
  fields.refuse("suffix", "write the model's own marks for filling in the middle into the prompt");
  const auto best_of = fields.integer("best_of", 1, kMostChoices);
  if (best_of && *best_of != request.generation.choices) {
    fail_field("best_of", fmt::format("best_of is {} and n {}; this server gives every answer that it makes", *best_of,
                                      request.generation.choices));
  }
  const auto total = static_cast<int64_t>(request.prompts.size()) * request.generation.choices;
  if (total > kMostChoices) {
    fail_field("n", fmt::format("{} prompts with n {} are {} answers; the limit is {}", request.prompts.size(),
                                request.generation.choices, total, kMostChoices));
  }
  fields.ignore({"user"});
  fields.finish();
  return request;
}

}  // namespace

void handle_completions(Service& service, const HttpRequest& http, const std::shared_ptr<Responder>& responder) {
  const auto model = service.model();
  const chat::Value body = parse_body(http.body);
  Fields fields(body, "", service.is_strict());
  const CompletionRequest request = read_completion_request(fields, *model->served);
  Job job{.endpoint = kCompletionsPath, .model = model->served, .responder = responder, .parts = {}, .answer = {}};
  for (const std::vector<int32_t>& prompt : request.prompts) {
    for (int64_t choice = 0; choice < request.generation.choices; ++choice) {
      engine::Request made = make_request(request.generation, prompt, request.max_tokens, choice);
      made.top_logprobs = request.top_logprobs;
      job.parts.push_back({std::move(made)});
    }
  }
  CompletionAnswerOptions options{.id = service.ids().make("cmpl-"),
                                  .created = unix_seconds(),
                                  .model = model->served->name,
                                  .tokenizer = model->served->tokenizer,
                                  .choices = static_cast<size_t>(request.generation.choices),
                                  .echoes = request.echoes,
                                  .prompts = request.prompts.size(),
                                  .stream = request.generation.stream,
                                  .include_usage = request.generation.include_usage,
                                  .logprobs = request.top_logprobs >= 0};
  job.answer = make_completion_answer(std::move(options), responder);
  service.start(model, {request.constraint, {}, model->prompt.format()}, std::move(job));
}

}  // namespace minfer::server::openai
