// The endpoints' common ground. See service.hpp.
// A model is prepared at the first request for it: the probes of its template take milliseconds.
#include "server/openai/service.hpp"

#include "server/api_error.hpp"

namespace minfer::server::openai {

std::shared_ptr<PreparedModel> Service::model() {
  std::shared_ptr<const ServedModel> served = source_();
  if (served == nullptr) {
    throw ApiFailure({.status = 503,
                      .message = "the model is not loaded yet; ask /health for its progress",
                      .type = "server_error",
                      .code = "model_loading",
                      .retry_after_s = 1});
  }
  const std::lock_guard lock(mutex_);
  if (prepared_ == nullptr || prepared_->served != served) {
    prepared_ = std::make_shared<PreparedModel>(std::move(served));
  }
  return prepared_;
}

void Service::start(const std::shared_ptr<PreparedModel>& model, GrammarWish wish, Job job) {
  if (wish.is_free()) return answers_.start(std::move(job));
  job.grammar_param = wish.param();
  if (const auto grammar = model->grammars.known(wish)) {
    for (Part& part : job.parts) part.request.grammar = grammar;
    return answers_.start(std::move(job));
  }
  struct Waiting {
    std::shared_ptr<PreparedModel> model;
    GrammarWish wish;
    Job job;
  };
  const auto responder = job.responder;
  const std::string param = wish.param();
  const auto waiting = std::make_shared<Waiting>(Waiting{model, std::move(wish), std::move(job)});
  const auto compile = [this, waiting] {
    try {
      const auto grammar = waiting->model->grammars.find(waiting->wish);
      for (Part& part : waiting->job.parts) part.request.grammar = grammar;
      answers_.start(std::move(waiting->job));
    } catch (...) {
      // Without one start() has failed, which has dropped the answer: its client is told.
      if (waiting->job.answer != nullptr) waiting->job.answer->fail(current_api_error());
    }
  };
  grammars_.put(responder, param, {compile, [waiting] { waiting->job.answer->fail(stopping_error()); }});
}

void Service::stop() {
  answers_.stop();
  large_requests_.stop();
  grammars_.stop();
}

void fail_unknown_model(const std::string& name, const ServedModel& model) {
  throw ApiFailure({.status = 404,
                    .message = fmt::format("the model '{}' is not served here; this server has '{}'", name, model.name),
                    .param = "model",
                    .code = "model_not_found"});
}

void read_model_name(Fields& fields, const ServedModel& model) {
  const auto name = fields.text("model");
  if (name && *name != model.name && fields.strict()) fail_unknown_model(*name, model);
}

void check_prompt(const std::vector<int32_t>& prompt, const ServedModel& model, const std::string& param) {
  if (prompt.empty()) fail_field(param, fmt::format("{} has no tokens; the model needs at least one to start", param));
  if (static_cast<int64_t>(prompt.size()) <= model.context_tokens) return;
  throw ApiFailure({.status = 400,
                    .message = fmt::format("the prompt has {} tokens, the context {}; shorten it, or start the server "
                                           "with a larger --ctx",
                                           prompt.size(), model.context_tokens),
                    .param = param,
                    .code = "context_length_exceeded"});
}

void check_prompt_text(std::string_view text, const ServedModel& model, const std::string& param) {
  const size_t least = model.tokenizer->least_tokens(text);
  if (static_cast<int64_t>(least) <= model.context_tokens) return;
  throw ApiFailure(
      {.status = 400,
       .message = fmt::format("the prompt has {} bytes, at least {} tokens, the context {}; shorten it, or "
                              "start the server with a larger --ctx",
                              text.size(), least, model.context_tokens),
       .param = param,
       .code = "context_length_exceeded"});
}

std::vector<int32_t> read_token_ids(const std::vector<chat::Value>& ids, const std::string& path,
                                    const ServedModel& model) {
  std::vector<int32_t> tokens;
  tokens.reserve(ids.size());
  const auto size = static_cast<int64_t>(model.tokenizer->vocab().size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool is_token = ids[i].is(chat::Kind::integer) && ids[i].as_int() >= 0 && ids[i].as_int() < size;
    if (!is_token) fail_type(fmt::format("{}[{}]", path, i), ids[i], fmt::format("a token id of 0 to {}", size - 1));
    tokens.push_back(static_cast<int32_t>(ids[i].as_int()));
  }
  return tokens;
}

std::vector<std::vector<int32_t>> read_prompts(const chat::Value& value, const std::string& path,
                                               const ServedModel& model, size_t most) {
  const auto encode = [&](const std::string& text) {
    check_prompt_text(text, model, path);
    return model.tokenizer->encode(text, {.parse_special = true, .add_special = true});
  };
  if (value.is_string()) return {encode(value.as_string())};
  if (!value.is(chat::Kind::list)) fail_type(path, value, "a text, or a list of texts or token ids");
  const std::vector<chat::Value>& items = value.items();
  if (items.empty()) fail_field(path, fmt::format("{} is an empty list; expected at least one text", path));
  if (items.front().is(chat::Kind::integer)) return {read_token_ids(items, path, model)};
  if (items.size() > most) fail_field(path, fmt::format("{} has {} items; the limit is {}", path, items.size(), most));
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item_path = fmt::format("{}[{}]", path, i);
    if (items[i].is_string()) {
      prompts.push_back(encode(items[i].as_string()));
    } else if (items[i].is(chat::Kind::list)) {
      prompts.push_back(read_token_ids(items[i].items(), item_path, model));
    } else {
      fail_type(item_path, items[i], "a text, or a list of token ids");
    }
  }
  return prompts;
}

}  // namespace minfer::server::openai
