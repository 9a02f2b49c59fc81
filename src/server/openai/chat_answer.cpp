// Chat answers. See chat_answer.hpp.
// A base takes the parts in and keeps what both forms need; a derived class writes each event, or all at the end.
#include "server/openai/chat_answer.hpp"

#include <algorithm>
#include <utility>

#include "server/api_error.hpp"

namespace minfer::server::openai {
namespace {

using chat::OutputEvent;
using Kind = chat::OutputEvent::Kind;

struct Choice {
  explicit Choice(chat::OutputParser parser_in) : parser(std::move(parser_in)) {}

  chat::OutputParser parser;
  size_t calls = 0;  // that stand: whole ones, or the beginning of one where the answer was cut
  // Log-probabilities that no chunk has told yet, or all of them: tokens as JSON, separated by commas.
  std::string logprobs;
  std::string_view finish_reason = "stop";
};

class ChatAnswer : public Answer {
 public:
  ChatAnswer(ChatAnswerOptions options, std::vector<chat::OutputParser> parsers, std::shared_ptr<Responder> responder)
      : options_(std::move(options)), responder_(std::move(responder)) {
    for (chat::OutputParser& parser : parsers) choices_.emplace_back(std::move(parser));
  }

  bool token(size_t part, const PartToken& token) override {
    Choice& choice = choices_[part];
    if (options_.logprobs && is_shown_token(*options_.tokenizer, token.id)) {
      JsonWriter json;
      write_token_logprob(json, *options_.tokenizer, token);
      if (!choice.logprobs.empty()) choice.logprobs += ',';
      choice.logprobs += json.take();
    }
    events_.clear();
    choice.parser.push(token.text, events_);
    const auto is_reasoning = [](const OutputEvent& event) { return event.kind == Kind::reasoning; };
    const bool is_token = token.id != engine::kNoToken;
    if (is_token && !events_.empty() && std::all_of(events_.begin(), events_.end(), is_reasoning)) ++usage_.reasoning;
    write_events(part);
    const auto ends_call = [](const OutputEvent& event) { return event.kind == Kind::call_end && !event.cut; };
    return options_.parallel_calls || std::none_of(events_.begin(), events_.end(), ends_call);
  }

  void end(size_t part, const engine::Result& result) override {
    Choice& choice = choices_[part];
    events_.clear();
    choice.parser.finish(events_);
    write_events(part);
    usage_.add(result, part == 0);
    choice.finish_reason = finish_reason(result.reason);
    if (choice.calls > 0 && choice.finish_reason == "stop") choice.finish_reason = "tool_calls";
  }

 protected:
  virtual void write(size_t part, const OutputEvent& event) = 0;

  const ChatAnswerOptions& options() const { return options_; }
  Responder& responder() { return *responder_; }
  std::vector<Choice>& choices() { return choices_; }
  const Usage& usage() const { return usage_; }

  // What comes before the choices.
  JsonWriter begin_json(std::string_view object) const {
    JsonWriter json;
    json.begin_object().key("id").string(options_.id).key("object").string(object);
    json.key("created").integer(options_.created).key("model").string(options_.model);
    json.key("choices").begin_array();
    return json;
  }

  static void write_logprobs(JsonWriter& json, Choice& choice) {
    json.key("logprobs");
    if (choice.logprobs.empty()) {
      json.null();
      return;
    }
    json.begin_object().key("content").begin_array().raw(choice.logprobs).end_array();
    json.key("refusal").null().end_object();
    choice.logprobs.clear();
  }

 private:
  void write_events(size_t part) {
    for (const OutputEvent& event : events_) {
      if (event.kind == Kind::call_begin) ++choices_[part].calls;
      if (event.kind == Kind::call_broken) --choices_[part].calls;
      write(part, event);
    }
  }

  ChatAnswerOptions options_;
  std::shared_ptr<Responder> responder_;
  std::vector<Choice> choices_;
  Usage usage_;
  std::vector<OutputEvent> events_;
};

// --- whole --------------------------------------------------------------------------------------------------------

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;
};

struct Message {
  std::string content;
  std::string reasoning;
  std::vector<std::pair<size_t, ToolCall>> calls;  // by the parser's number
};

class WholeChat : public ChatAnswer {
 public:
  WholeChat(ChatAnswerOptions options, std::vector<chat::OutputParser> parsers, std::shared_ptr<Responder> responder)
      : ChatAnswer(std::move(options), std::move(parsers), std::move(responder)), messages_(choices().size()) {}

  void begin() override {}

  void finish() override {
    JsonWriter json = begin_json("chat.completion");
    for (size_t i = 0; i < messages_.size(); ++i) write_choice(json, i);
    json.end_array().key("usage");
    write_usage(json, usage());
    json.end_object();
    responder().send({.body = json.take()});
  }

  void fail(const ApiError& error) override { responder().send(error_response(error)); }

 protected:
  void write(size_t part, const OutputEvent& event) override {
    Message& message = messages_[part];
    switch (event.kind) {
      case Kind::content:
        message.content += event.text;
        break;
      case Kind::reasoning:
        message.reasoning += event.text;
        break;
      case Kind::call_begin:
        message.calls.push_back({event.call, {options().ids->make("call_"), event.text, {}}});
        break;
      case Kind::arguments:
        message.calls.back().second.arguments += event.text;
        break;
      case Kind::call_end:
        break;
      case Kind::call_broken:
        std::erase_if(message.calls, [&](const auto& call) { return call.first == event.call; });
        message.content += event.text;
        break;
    }
  }

 private:
  void write_choice(JsonWriter& json, size_t index) {
    const Message& message = messages_[index];
    json.begin_object().key("index").integer(static_cast<int64_t>(index));
    json.key("message").begin_object().key("role").string("assistant").key("content");
    if (message.content.empty() && !message.calls.empty()) {
      json.null();
    } else {
      json.string(message.content);
    }
    json.key("refusal").null();
    if (!message.reasoning.empty()) json.key("reasoning_content").string(message.reasoning);
    if (!message.calls.empty()) {
      json.key("tool_calls").begin_array();
      for (const auto& [number, call] : message.calls) {
        json.begin_object().key("id").string(call.id).key("type").string("function");
        json.key("function").begin_object().key("name").string(call.name);
        json.key("arguments").string(call.arguments).end_object().end_object();
      }
      json.end_array();
    }
    json.end_object();
    write_logprobs(json, choices()[index]);
    json.key("finish_reason").string(choices()[index].finish_reason).end_object();
  }

  std::vector<Message> messages_;
};

// --- stream -------------------------------------------------------------------------------------------------------

class ChatStream : public ChatAnswer {
 public:
  ChatStream(ChatAnswerOptions options, std::vector<chat::OutputParser> parsers, std::shared_ptr<Responder> responder)
      : ChatAnswer(std::move(options), std::move(parsers), std::move(responder)),
        head_(begin_json("chat.completion.chunk").take()) {}

  void begin() override {
    responder().begin_events();
    began_ = true;
    for (size_t i = 0; i < choices().size(); ++i) {
      JsonWriter delta;
      delta.begin_object().key("role").string("assistant").key("content").string("").key("refusal").null().end_object();
      send_delta(i, delta.take(), {});
    }
  }

  void end(size_t part, const engine::Result& result) override {
    ChatAnswer::end(part, result);
    send_delta(part, "{}", choices()[part].finish_reason);
  }

  void finish() override {
    if (options().include_usage) {
      JsonWriter json;
      write_usage(json, usage());
      responder().send_event(head_ + "],\"usage\":" + json.take() + "}");
    }
    responder().send_event("[DONE]");
    responder().end_events();
  }

  void fail(const ApiError& error) override {
    if (!began_) {
      responder().send(error_response(error));
      return;
    }
    responder().send_event(error_body(error));
    responder().send_event("[DONE]");
    responder().end_events();
  }

 protected:
  void write(size_t part, const OutputEvent& event) override {
    JsonWriter delta;
    delta.begin_object();
    switch (event.kind) {
      case Kind::content:
      case Kind::call_broken:  // what was told of the call can't be taken back; its text is not lost
        delta.key("content").string(event.text);
        break;
      case Kind::reasoning:
        delta.key("reasoning_content").string(event.text);
        break;
      case Kind::call_begin:
        delta.key("tool_calls").begin_array().begin_object();
        delta.key("index").integer(static_cast<int64_t>(event.call)).key("id").string(options().ids->make("call_"));
        delta.key("type").string("function").key("function").begin_object();
        delta.key("name").string(event.text).key("arguments").string("").end_object();
        delta.end_object().end_array();
        break;
      case Kind::arguments:
        delta.key("tool_calls").begin_array().begin_object();
        delta.key("index").integer(static_cast<int64_t>(event.call)).key("function").begin_object();
        delta.key("arguments").string(event.text).end_object().end_object().end_array();
        break;
      case Kind::call_end:
        return;
    }
    delta.end_object();
    send_delta(part, delta.take(), {});
  }

 private:
  // An empty reason is null.
  void send_delta(size_t part, const std::string& delta, std::string_view reason) {
    JsonWriter json;
    json.begin_object().key("index").integer(static_cast<int64_t>(part)).key("delta").raw(delta);
    write_logprobs(json, choices()[part]);
    json.key("finish_reason");
    if (reason.empty()) {
      json.null();
    } else {
      json.string(reason);
    }
    json.end_object();
    std::string chunk = head_;
    chunk += json.take();
    chunk += options().include_usage ? "],\"usage\":null}" : "]}";
    responder().send_event(chunk);
  }

  std::string head_;  // of each chunk, up to the first choice
  bool began_ = false;
};

}  // namespace

std::unique_ptr<Answer> make_chat_answer(ChatAnswerOptions options, std::vector<chat::OutputParser> parsers,
                                         std::shared_ptr<Responder> responder) {
  if (options.stream) return std::make_unique<ChatStream>(std::move(options), std::move(parsers), std::move(responder));
  return std::make_unique<WholeChat>(std::move(options), std::move(parsers), std::move(responder));
}

}  // namespace minfer::server::openai
