// What the tests of the endpoints share: a client that writes down what it is sent, and a small model's vocabulary and
// template without a model behind them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chat/value.hpp"
#include "server/api_error.hpp"
#include "server/http/exchange.hpp"
#include "server/openai/fields.hpp"
#include "server/served_model.hpp"
#include "tokenizer/vocab_test_support.hpp"

namespace minfer::server::openai::test {

// Writes down what a client would get. One thread.
class RecordingResponder : public Responder {
 public:
  void send(HttpResponse sent) override { response = std::move(sent); }
  void begin_events() override { began = true; }
  void send_event(std::string_view data, std::string_view event) override {
    frames.emplace_back(data);
    names.emplace_back(event);
  }
  void end_events() override { ended = true; }
  void on_gone(std::function<void()> callback) override { gone = std::move(callback); }

  std::optional<HttpResponse> response;
  bool began = false;
  std::vector<std::string> frames;
  std::vector<std::string> names;  // of the frames' events
  bool ended = false;
  std::function<void()> gone;
};

// Qwen's form of a template, cut down: roles, tools, calls with their arguments as objects.
inline constexpr std::string_view kTemplate =
    "{%- if tools %}<|im_start|>system\nTools: <tool_call>{% for t in tools %}{{ t | tojson }}{% endfor %}<|im_end|>\n"
    "{% endif %}{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{%- for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}: {{ c.function.arguments | tojson "
    "}}</tool_call>"
    "{%- endfor %}<|im_end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// A served model with bytes as tokens (id = byte; 262 is <|im_end|>), and no engine.
struct TestModel {
  explicit TestModel(std::string_view source = kTemplate)
      : words(tokenizer::test::byte_words()), tokenizer((words.data.eos = 262, words.data)) {
    model = std::make_shared<ServedModel>();
    model->name = "tiny";
    model->architecture = "llama";
    model->description = "F32";
    model->created = 1700000000;
    model->context_tokens = 1000;
    model->trained_context = 2000;
    model->embedding_width = 4;
    model->tokenizer = &tokenizer;
    if (source.empty()) return;
    model->chat_template = chat::Template::parse(source, "test");
    model->template_source = source;
  }

  tokenizer::test::Words words;
  tokenizer::Tokenizer tokenizer;
  std::shared_ptr<ServedModel> model;
};

// What `action` fails with, as "status param code: message"; "no error" if it does not.
template <class Action>
std::string failure_of(Action&& action) {
  try {
    action();
  } catch (const ApiFailure& failure) {
    const ApiError& error = failure.error();
    return fmt::format("{} {} {}: {}", error.status, error.param.empty() ? "-" : error.param,
                       error.code.empty() ? "-" : error.code, error.message);
  }
  return "no error";
}

}  // namespace minfer::server::openai::test
