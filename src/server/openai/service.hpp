// What the endpoints share: the model and what is made of it once, the thread that writes answers, ids. Owned by
// Endpoints (routes.hpp); handlers hold it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.hpp"
#include "server/openai/answer_json.hpp"
#include "server/openai/answer_thread.hpp"
#include "server/openai/fields.hpp"
#include "server/openai/prepared_model.hpp"
#include "server/openai/task_thread.hpp"
#include "server/served_model.hpp"

namespace minfer::server::openai {

using ModelSource = std::function<std::shared_ptr<const ServedModel>()>;

inline constexpr size_t kMostWaiting = 64;  // for a thread of those below

class Service {
 public:
  Service(ModelSource source, bool is_strict, ResultSink sink)
      : source_(std::move(source)), is_strict_(is_strict), answers_(std::move(sink)) {}

  // Error: ApiFailure (503) where none is loaded.
  std::shared_ptr<PreparedModel> model();
  bool is_strict() const { return is_strict_; }
  IdSource& ids() { return ids_; }
  AnswerThread& answers() { return answers_; }
  // Starts the job, whose parts are held to the grammar that `wish` asks for: at once where that is known or none, else
  // once another thread has compiled it. Errors: ApiFailure where too many wait for that.
  void start(const std::shared_ptr<PreparedModel>& model, GrammarWish wish, Job job);
  // Where requests with large bodies are read: megabytes of text can take seconds to be cut into tokens.
  TaskThread& large_requests() { return large_requests_; }
  // Ends what is being answered, and all threads.
  void stop();

 private:
  ModelSource source_;
  bool is_strict_;
  IdSource ids_;
  std::mutex mutex_;
  std::shared_ptr<PreparedModel> prepared_;
  AnswerThread answers_;
  // Both give their jobs to answers_. Grammars take up to a second each.
  TaskThread grammars_{kMostWaiting, "a grammar to be compiled"};
  TaskThread large_requests_{kMostWaiting, "a large request to be read"};
};

// Reads the field `model`: any name is taken unless the server is strict; answers tell the real one. Error: ApiFailure
// (404).
void read_model_name(Fields& fields, const ServedModel& model);
// Throws the error of a model that isn't served (404).
[[noreturn]] void fail_unknown_model(const std::string& name, const ServedModel& model);
// Errors: ApiFailure where the prompt is empty, or longer than the context; `param` names it.
void check_prompt(const std::vector<int32_t>& prompt, const ServedModel& model, const std::string& param);
// Errors: ApiFailure where a text is beyond the context by its size: hostile megabytes need not be cut into tokens to
// be refused.
void check_prompt_text(std::string_view text, const ServedModel& model, const std::string& param);
// Token ids of a request; `path` names the list. Errors: ApiFailure for what is no token of the model.
std::vector<int32_t> read_token_ids(const std::vector<chat::Value>& ids, const std::string& path,
                                    const ServedModel& model);
// What an endpoint without a template takes: a text, a list of texts, of token ids, or of lists of those; tokens of
// each. Texts get BOS and EOS where the model asks for them. Errors: ApiFailure, for none or more than `most` of
// them too, and those of check_prompt_text.
std::vector<std::vector<int32_t>> read_prompts(const chat::Value& value, const std::string& path,
                                               const ServedModel& model, size_t most);

}  // namespace minfer::server::openai
