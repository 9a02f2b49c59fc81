// Where answers are made: one thread that owns every running answer. The HTTP threads hand it jobs (one HTTP request's
// engine requests, "parts", and the Answer that writes them down); it submits the parts, and the engine's listeners
// hand it tokens through a mailbox, so that the engine's thread does no more than copy a token's text. JSON is made and
// sent here. All of a job is seen by this thread alone; only the mailbox is shared.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/engine.hpp"
#include "server/api_error.hpp"
#include "server/http/exchange.hpp"
#include "server/served_model.hpp"

namespace minfer::server::openai {

// A token of a part, as the listener got it.
struct PartToken {
  int32_t id = engine::kNoToken;  // kNoToken: text that was held back
  std::string text;
  float logprob = 0;
  std::vector<engine::TokenLogprob> top = {};
};

// Writes the parts of a job down for the client. Calls come from the answers' thread, in the order of the engine's;
// what they throw fails the job.
class Answer {
 public:
  virtual ~Answer() = default;
  // The first parts are with the engine: a stream begins.
  virtual void begin() = 0;
  // False: the part has all that it needs, and its request is ended.
  virtual bool token(size_t part, const PartToken& token) = 0;
  // A part has ended, and not failed.
  virtual void end(size_t part, const engine::Result& result) = 0;
  // All parts have ended.
  virtual void finish() = 0;
  // Instead of finish(), before or after begin(). Never throws.
  virtual void fail(const ApiError& error) = 0;
};

struct Part {
  engine::Request request;
  // An earlier part whose end it waits for, so that a job takes no more than its share of the queue.
  std::optional<size_t> after = std::nullopt;
};

struct Job {
  std::string_view endpoint;  // the route's path
  std::shared_ptr<const ServedModel> model;
  std::shared_ptr<Responder> responder;
  std::vector<Part> parts;
  std::unique_ptr<Answer> answer;
  std::string grammar_param = {};  // the field that asks for the grammar of the parts
};

// What is told to those whose answers end with the server.
const ApiError& stopping_error();

// Hears of each part that has ended, on the answers' thread.
using ResultSink = std::function<void(std::string_view endpoint, const engine::Result& result)>;

class AnswerThread {
 public:
  explicit AnswerThread(ResultSink sink);
  ~AnswerThread();
  AnswerThread(const AnswerThread&) = delete;
  AnswerThread& operator=(const AnswerThread&) = delete;

  // Any thread. After stop(), the answer is failed at once with 503.
  void start(Job job);
  // Cancels what runs, tells the clients, and ends the thread. Engines are not called any more after it.
  void stop();

 private:
  struct Running;
  struct Message;
  class Mailbox;

  void run();
  void handle(Message& message);
  void begin(const std::shared_ptr<Running>& job);
  void submit(const std::shared_ptr<Running>& job, size_t part);
  void submit_followers(const std::shared_ptr<Running>& job, size_t part);
  void take_token(const std::shared_ptr<Running>& job, size_t part, const PartToken& token);
  void take_end(const std::shared_ptr<Running>& job, size_t part, const engine::Result& result);
  void fail_job(const std::shared_ptr<Running>& job, const ApiError& error);
  void abandon(Running& job);

  ResultSink sink_;
  std::shared_ptr<Mailbox> mailbox_;
  std::vector<std::shared_ptr<Running>> jobs_;  // those that have not ended
  std::thread thread_;
};

}  // namespace minfer::server::openai
