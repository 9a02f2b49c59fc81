// Responses. See response_answer.hpp.
// One class for both forms: items are kept either way, for the last event repeats them all; a stream tells each change
// besides.
#include "server/openai/response_answer.hpp"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "server/api_error.hpp"

namespace minfer::server::openai {
namespace {

using chat::OutputEvent;
using Kind = chat::OutputEvent::Kind;

enum class ItemKind : uint8_t { reasoning, message, call };

struct Item {
  ItemKind kind;
  std::string id;
  std::string text = {};  // or the arguments of a call
  std::string name = {};
  std::string call_id = {};
  std::string logprobs = {};  // tokens as JSON, separated by commas
  size_t call = 0;            // the parser's number
  std::string_view status = "in_progress";
};

using Write = std::function<void(JsonWriter& json)>;

class ResponseAnswer : public Answer {
 public:
  ResponseAnswer(ResponseAnswerOptions options, chat::OutputParser parser, std::shared_ptr<Responder> responder)
      : options_(std::move(options)), parser_(std::move(parser)), responder_(std::move(responder)) {}

  void begin() override {
    if (!options_.stream) return;
    responder_->begin_events();
    began_ = true;
    for (const std::string_view type : {"response.created", "response.in_progress"}) send_response(type, "in_progress");
  }

  bool token(size_t, const PartToken& token) override {
    if (options_.logprobs && is_shown_token(*options_.tokenizer, token.id)) {
      JsonWriter json;
      write_token_logprob(json, *options_.tokenizer, token);
      if (!logprobs_.empty()) logprobs_ += ',';
      logprobs_ += json.take();
    }
    events_.clear();
    parser_.push(token.text, events_);
    const auto is_reasoning = [](const OutputEvent& event) { return event.kind == Kind::reasoning; };
    const bool is_token = token.id != engine::kNoToken;
    if (is_token && !events_.empty() && std::all_of(events_.begin(), events_.end(), is_reasoning)) ++usage_.reasoning;
    for (const OutputEvent& event : events_) take(event);
    const auto ends_call = [](const OutputEvent& event) { return event.kind == Kind::call_end && !event.cut; };
    return options_.parallel_calls || std::none_of(events_.begin(), events_.end(), ends_call);
  }

  void end(size_t, const engine::Result& result) override {
    events_.clear();
    parser_.finish(events_);
    was_cut_ = finish_reason(result.reason) == "length";
    for (const OutputEvent& event : events_) take(event);
    close_item(was_cut_ ? "incomplete" : "completed");
    usage_.add(result, true);
  }

  void finish() override {
    const std::string_view status = was_cut_ ? "incomplete" : "completed";
    if (options_.stream) {
      send_response(was_cut_ ? "response.incomplete" : "response.completed", status);
      responder_->end_events();
      return;
    }
    JsonWriter json;
    write_response(json, status, nullptr);
    responder_->send({.body = json.take()});
  }

  void fail(const ApiError& error) override {
    if (!began_) {
      responder_->send(error_response(error));
      return;
    }
    send("response.failed", [&](JsonWriter& json) {
      json.key("response");
      write_response(json, "failed", &error);
    });
    responder_->end_events();
  }

 private:
  void take(const OutputEvent& event) {
    switch (event.kind) {
      case Kind::content:
        add_text(ItemKind::message, "response.output_text.delta", event.text);
        break;
      case Kind::reasoning:
        add_text(ItemKind::reasoning, "response.reasoning_text.delta", event.text);
        break;
      case Kind::call_begin:
        open_item(ItemKind::call, "fc_");
        items_.back().name = event.text;
        items_.back().call_id = options_.ids->make("call_");
        items_.back().call = event.call;
        send_item("response.output_item.added");
        break;
      case Kind::arguments:
        items_.back().text += event.text;
        send("response.function_call_arguments.delta", [&](JsonWriter& json) {
          write_place(json);
          json.key("delta").string(event.text);
        });
        break;
      case Kind::call_end:
        close_item(event.cut ? "incomplete" : "completed");
        break;
      case Kind::call_broken:
        withdraw_call(event.call);
        add_text(ItemKind::message, "response.output_text.delta", event.text);
        break;
    }
  }

  // A stream has told of it already: there it stays, as incomplete.
  void withdraw_call(size_t call) {
    if (options_.stream) {
      close_item("incomplete");
      return;
    }
    std::erase_if(items_, [call](const Item& item) { return item.kind == ItemKind::call && item.call == call; });
    is_open_ = false;
  }

  void add_text(ItemKind kind, std::string_view delta_event, const std::string& text) {
    if (!is_open_ || items_.back().kind != kind) {
      open_item(kind, kind == ItemKind::message ? "msg_" : "rs_");
      send_item("response.output_item.added");
      send_part("response.content_part.added");
    }
    Item& item = items_.back();
    item.text += text;
    const std::string logprobs = kind == ItemKind::message ? std::exchange(logprobs_, {}) : std::string();
    if (!logprobs.empty() && !item.logprobs.empty()) item.logprobs += ',';
    item.logprobs += logprobs;
    send(delta_event, [&](JsonWriter& json) {
      write_place(json);
      json.key("content_index").integer(0).key("delta").string(text);
      if (kind == ItemKind::message) write_logprobs(json, logprobs);
    });
  }

  void open_item(ItemKind kind, std::string_view prefix) {
    close_item("completed");
    items_.push_back({.kind = kind, .id = options_.ids->make(prefix)});
    is_open_ = true;
  }

  void close_item(std::string_view status) {
    if (!is_open_) return;
    is_open_ = false;
    Item& item = items_.back();
    item.status = status;
    if (item.kind == ItemKind::call) {
      send("response.function_call_arguments.done", [&](JsonWriter& json) {
        write_place(json);
        json.key("name").string(item.name).key("arguments").string(item.text);
      });
    } else {
      const bool is_message = item.kind == ItemKind::message;
      send(is_message ? "response.output_text.done" : "response.reasoning_text.done", [&](JsonWriter& json) {
        write_place(json);
        json.key("content_index").integer(0).key("text").string(item.text);
        if (is_message) write_logprobs(json, item.logprobs);
      });
      send_part("response.content_part.done");
    }
    send_item("response.output_item.done");
  }

  // --- events -------------------------------------------------------------------------------------------------------

  void send(std::string_view type, const Write& write) {
    if (!options_.stream) return;
    JsonWriter json;
    json.begin_object().key("type").string(type).key("sequence_number").integer(sequence_number_++);
    write(json);
    json.end_object();
    responder_->send_event(json.take(), type);
  }

  void send_response(std::string_view type, std::string_view status) {
    send(type, [&](JsonWriter& json) {
      json.key("response");
      write_response(json, status, nullptr);
    });
  }

  void send_item(std::string_view type) {
    send(type, [&](JsonWriter& json) {
      json.key("output_index").integer(static_cast<int64_t>(items_.size()) - 1).key("item");
      write_item(json, items_.back());
    });
  }

  void send_part(std::string_view type) {
    send(type, [&](JsonWriter& json) {
      write_place(json);
      json.key("content_index").integer(0).key("part");
      write_part(json, items_.back());
    });
  }

  // Which item an event is of: the last one.
  void write_place(JsonWriter& json) {
    json.key("item_id").string(items_.back().id);
    json.key("output_index").integer(static_cast<int64_t>(items_.size()) - 1);
  }

  static void write_logprobs(JsonWriter& json, const std::string& logprobs) {
    json.key("logprobs").begin_array();
    if (!logprobs.empty()) json.raw(logprobs);
    json.end_array();
  }

  static void write_part(JsonWriter& json, const Item& item) {
    json.begin_object();
    if (item.kind == ItemKind::reasoning) {
      json.key("type").string("reasoning_text").key("text").string(item.text);
    } else {
      json.key("type").string("output_text").key("text").string(item.text);
      json.key("annotations").begin_array().end_array();
      write_logprobs(json, item.logprobs);
    }
    json.end_object();
  }

  static void write_item(JsonWriter& json, const Item& item) {
    json.begin_object().key("id").string(item.id);
    if (item.kind == ItemKind::call) {
      json.key("type").string("function_call").key("call_id").string(item.call_id);
      json.key("name").string(item.name).key("arguments").string(item.text);
    } else {
      const bool is_message = item.kind == ItemKind::message;
      json.key("type").string(is_message ? "message" : "reasoning");
      if (is_message) json.key("role").string("assistant");
      if (!is_message) json.key("summary").begin_array().end_array();
      json.key("content").begin_array();
      if (item.status != "in_progress") write_part(json, item);
      json.end_array();
    }
    json.key("status").string(item.status).end_object();
  }

  void write_response(JsonWriter& json, std::string_view status, const ApiError* error) {
    json.begin_object().key("id").string(options_.id).key("object").string("response");
    json.key("created_at").integer(options_.created).key("status").string(status).key("error");
    if (error == nullptr) {
      json.null();
    } else {
      json.begin_object().key("code").string("server_error").key("message").string(error->message).end_object();
    }
    json.key("incomplete_details");
    if (status == "incomplete") {
      json.begin_object().key("reason").string("max_output_tokens").end_object();
    } else {
      json.null();
    }
    json.key("model").string(options_.model).raw(options_.echo).key("output").begin_array();
    for (const Item& item : items_) write_item(json, item);
    json.end_array().key("usage");
    if (status == "in_progress" || error != nullptr) {
      json.null();
    } else {
      write_usage(json);
    }
    json.end_object();
  }

  void write_usage(JsonWriter& json) const {
    json.begin_object().key("input_tokens").integer(usage_.prompt);
    json.key("input_tokens_details").begin_object().key("cached_tokens").integer(usage_.cached).end_object();
    json.key("output_tokens").integer(usage_.completion);
    json.key("output_tokens_details").begin_object();
    json.key("reasoning_tokens").integer(usage_.reasoning).end_object();
    json.key("total_tokens").integer(usage_.prompt + usage_.completion).end_object();
  }

  ResponseAnswerOptions options_;
  chat::OutputParser parser_;
  std::shared_ptr<Responder> responder_;
  std::vector<Item> items_;
  bool is_open_ = false;  // the last item goes on
  std::string logprobs_;  // that no text has told yet
  Usage usage_;
  std::vector<OutputEvent> events_;
  int64_t sequence_number_ = 0;
  bool began_ = false;
  bool was_cut_ = false;
};

}  // namespace

std::unique_ptr<Answer> make_response_answer(ResponseAnswerOptions options, chat::OutputParser parser,
                                             std::shared_ptr<Responder> responder) {
  return std::make_unique<ResponseAnswer>(std::move(options), std::move(parser), std::move(responder));
}

}  // namespace minfer::server::openai
