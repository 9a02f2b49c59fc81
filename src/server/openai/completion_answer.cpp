// Completion answers. See completion_answer.hpp.
// One class for both forms: a stream writes what is new of a choice, a whole answer all of it at the end.
#include "server/openai/completion_answer.hpp"

#include <algorithm>
#include <utility>

#include "server/api_error.hpp"

namespace minfer::server::openai {
namespace {

// Text and log-probabilities that are not written yet: parallel lists, as this endpoint has them.
struct Choice {
  std::string text;
  std::vector<PartToken> tokens;
  int64_t offset = 0;  // in characters of the answer, of the first of `tokens`
  std::string_view finish_reason;
};

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

class CompletionAnswer : public Answer {
 public:
  CompletionAnswer(CompletionAnswerOptions options, std::shared_ptr<Responder> responder)
      : options_(std::move(options)), responder_(std::move(responder)), choices_(options_.prompts * options_.choices) {
    if (options_.echoes.empty()) return;
    for (size_t i = 0; i < choices_.size(); ++i) {
      choices_[i].text = options_.echoes[i / options_.choices];
      choices_[i].offset = count_characters(choices_[i].text);
    }
  }

  void begin() override {
    if (!options_.stream) return;
    responder_->begin_events();
    began_ = true;
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (!choices_[i].text.empty()) send_chunk(i);
    }
  }

  bool token(size_t part, const PartToken& token) override {
    Choice& choice = choices_[part];
    choice.text += token.text;
    if (options_.logprobs && is_shown_token(*options_.tokenizer, token.id)) choice.tokens.push_back(token);
    if (options_.stream && !choice.text.empty()) send_chunk(part);
    return true;
  }

  void end(size_t part, const engine::Result& result) override {
    choices_[part].finish_reason = finish_reason(result.reason);
    usage_.add(result, part % options_.choices == 0);
    if (options_.stream) send_chunk(part);
  }

  void finish() override {
    if (!options_.stream) {
      JsonWriter json = begin_json();
      for (size_t i = 0; i < choices_.size(); ++i) write_choice(json, i);
      json.end_array().key("usage");
      write_usage(json, usage_);
      json.end_object();
      responder_->send({.body = json.take()});
      return;
    }
    if (options_.include_usage) {
      JsonWriter json = begin_json();
      json.end_array().key("usage");
      write_usage(json, usage_);
      json.end_object();
      responder_->send_event(json.take());
    }
    end_stream();
  }

  void fail(const ApiError& error) override {
    if (!began_) {
      responder_->send(error_response(error));
      return;
    }
    responder_->send_event(error_body(error));
    end_stream();
  }

 private:
  void end_stream() {
    responder_->send_event("[DONE]");
    responder_->end_events();
  }

  JsonWriter begin_json() const {
    JsonWriter json;
    json.begin_object().key("id").string(options_.id).key("object").string("text_completion");
    json.key("created").integer(options_.created).key("model").string(options_.model);
    json.key("choices").begin_array();
    return json;
  }

  void send_chunk(size_t part) {
    JsonWriter json = begin_json();
    write_choice(json, part);
    json.end_array();
    if (options_.include_usage) json.key("usage").null();
    json.end_object();
    responder_->send_event(json.take());
  }

  // What is new of it, which counts as written.
  void write_choice(JsonWriter& json, size_t part) {
    Choice& choice = choices_[part];
    json.begin_object().key("text").string(choice.text).key("index").integer(static_cast<int64_t>(part));
    json.key("logprobs");
    write_logprobs(json, choice);
    json.key("finish_reason");
    if (choice.finish_reason.empty()) {
      json.null();
    } else {
      json.string(choice.finish_reason);
    }
    json.end_object();
    choice.text.clear();
  }

  void write_logprobs(JsonWriter& json, Choice& choice) {
    if (!options_.logprobs) {
      json.null();
      return;
    }
    json.begin_object().key("tokens").begin_array();
    for (const PartToken& token : choice.tokens) json.string(options_.tokenizer->token_bytes(token.id));
    json.end_array().key("token_logprobs").begin_array();
    for (const PartToken& token : choice.tokens) json.number(finite_logprob(token.logprob));
    json.end_array().key("top_logprobs").begin_array();
    for (const PartToken& token : choice.tokens) write_top(json, token);
    json.end_array().key("text_offset").begin_array();
    for (const PartToken& token : choice.tokens) {
      json.integer(choice.offset);
      choice.offset += count_characters(options_.tokenizer->token_bytes(token.id));
    }
    json.end_array().end_object();
    choice.tokens.clear();
  }

  // The likeliest tokens and the drawn one. Of tokens that read the same, the likelier one.
  void write_top(JsonWriter& json, const PartToken& token) {
    std::vector<engine::TokenLogprob> top = token.top;
    const auto is_drawn = [&token](const engine::TokenLogprob& other) { return other.token == token.id; };
    if (std::none_of(top.begin(), top.end(), is_drawn)) top.push_back({token.id, token.logprob});
    std::vector<std::string> names;
    json.begin_object();
    for (const engine::TokenLogprob& other : top) {
      std::string name = options_.tokenizer->token_bytes(other.token);
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      json.key(name).number(finite_logprob(other.logprob));
      names.push_back(std::move(name));
    }
    json.end_object();
  }

  CompletionAnswerOptions options_;
  std::shared_ptr<Responder> responder_;
  std::vector<Choice> choices_;
  Usage usage_;
  bool began_ = false;
};

}  // namespace

std::unique_ptr<Answer> make_completion_answer(CompletionAnswerOptions options, std::shared_ptr<Responder> responder) {
  return std::make_unique<CompletionAnswer>(std::move(options), std::move(responder));
}

}  // namespace minfer::server::openai
