// The answers' thread and its mailbox. See answer_thread.hpp.
// A listener outlives everything here (the engine calls it at the very end): it holds the mailbox and the job, and the
// mailbox takes nothing any more once it is closed.
#include "server/openai/answer_thread.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "server/openai/constraint.hpp"

namespace minfer::server::openai {

struct AnswerThread::Running {
  enum class State : uint8_t { waiting, submitted, ended };
  struct PartState {
    State state = State::waiting;
    engine::RequestId id = 0;
    bool has_all = false;  // its answer needs no more of it
  };

  Job job;
  std::vector<PartState> parts;
  size_t open = 0;    // parts that have not ended
  bool over = false;  // failed, or its client has gone: nothing is written any more
};

struct AnswerThread::Message {
  enum class Kind : uint8_t { start, token, end, gone };
  Message(Kind kind_in, std::shared_ptr<Running> job_in, size_t part_in = 0)
      : kind(kind_in), job(std::move(job_in)), part(part_in) {}

  Kind kind;
  std::shared_ptr<Running> job;
  size_t part;
  PartToken token;
  std::unique_ptr<engine::Result> result;
};

class AnswerThread::Mailbox {
 public:
  // False where it is closed.
  bool put(Message message) {
    bool was_empty = false;
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return false;
      was_empty = messages_.empty();
      messages_.push_back(std::move(message));
    }
    if (was_empty) wake_.notify_one();
    return true;
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    wake_.notify_one();
  }

  // Waits for messages and takes all; false once it is closed and empty.
  bool take(std::vector<Message>& messages) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return closed_ || !messages_.empty(); });
    messages.swap(messages_);
    return !messages.empty();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Message> messages_;
  bool closed_ = false;
};

namespace {

// A part's, told with the field of its grammar where it is that one's.
ApiError part_error(const Job& job, const Error& error) {
  const bool is_grammar =
      !job.grammar_param.empty() && std::string_view(error.what()).starts_with(engine::grammar::kErrorPrefix);
  return is_grammar ? grammar_error(error, job.grammar_param) : api_error(error);
}

}  // namespace

const ApiError& stopping_error() {
  static const ApiError error = api_error({ErrorCode::cancelled, "the server is shutting down; try another one"});
  return error;
}

AnswerThread::AnswerThread(ResultSink sink)
    : sink_(std::move(sink)), mailbox_(std::make_shared<Mailbox>()), thread_([this] { run(); }) {}

AnswerThread::~AnswerThread() {
  stop();
}

void AnswerThread::stop() {
  mailbox_->close();
  if (thread_.joinable()) thread_.join();
}

void AnswerThread::start(Job job) {
  const auto running = std::make_shared<Running>();
  running->job = std::move(job);
  running->parts.resize(running->job.parts.size());
  running->open = running->parts.size();
  if (!mailbox_->put({Message::Kind::start, running})) running->job.answer->fail(stopping_error());
}

void AnswerThread::run() {
  std::vector<Message> messages;
  while (mailbox_->take(messages)) {
    for (Message& message : messages) {
      try {
        handle(message);
      } catch (...) {
        fail_job(message.job, current_api_error());
      }
    }
    messages.clear();
    std::erase_if(jobs_, [](const auto& job) { return job->over || job->open == 0; });
  }
  for (const auto& job : jobs_) fail_job(job, stopping_error());
  jobs_.clear();
}

void AnswerThread::handle(Message& message) {
  switch (message.kind) {
    case Message::Kind::start:
      begin(message.job);
      break;
    case Message::Kind::token:
      take_token(message.job, message.part, message.token);
      break;
    case Message::Kind::end:
      take_end(message.job, message.part, *message.result);
      break;
    case Message::Kind::gone:
      abandon(*message.job);
      break;
  }
}

void AnswerThread::begin(const std::shared_ptr<Running>& job) {
  jobs_.push_back(job);
  for (size_t part = 0; part < job->parts.size(); ++part) {
    if (!job->job.parts[part].after) submit(job, part);
  }
  job->job.answer->begin();
  job->job.responder->on_gone([mailbox = mailbox_, weak = std::weak_ptr(job)] {
    if (auto running = weak.lock()) mailbox->put({Message::Kind::gone, std::move(running)});
  });
}

void AnswerThread::submit(const std::shared_ptr<Running>& job, size_t part) {
  engine::Listener listener;
  listener.on_token = [mailbox = mailbox_, job, part](const engine::DrawnToken& token, std::string_view text) {
    Message message(Message::Kind::token, job, part);
    message.token = {token.id, std::string(text), token.logprob, {token.top.begin(), token.top.end()}};
    mailbox->put(std::move(message));
  };
  listener.on_end = [mailbox = mailbox_, job, part](const engine::Result& result) {
    Message message(Message::Kind::end, job, part);
    message.result = std::make_unique<engine::Result>(result);
    mailbox->put(std::move(message));
  };
  Running::PartState& state = job->parts[part];
  try {
    state.id = job->job.model->engine->submit(std::move(job->job.parts[part].request), std::move(listener));
  } catch (const Error& error) {
    throw ApiFailure(part_error(job->job, error));
  }
  state.state = Running::State::submitted;
}

void AnswerThread::submit_followers(const std::shared_ptr<Running>& job, size_t part) {
  for (size_t next = part + 1; next < job->parts.size(); ++next) {
    if (job->job.parts[next].after == part) submit(job, next);
  }
}

void AnswerThread::take_token(const std::shared_ptr<Running>& job, size_t part, const PartToken& token) {
  Running::PartState& state = job->parts[part];
  if (job->over || state.has_all) return;
  if (job->job.answer->token(part, token)) return;
  state.has_all = true;
  job->job.model->engine->cancel(state.id);
}

void AnswerThread::take_end(const std::shared_ptr<Running>& job, size_t part, const engine::Result& result) {
  Running::PartState& state = job->parts[part];
  state.state = Running::State::ended;
  if (sink_) sink_(job->job.endpoint, result);
  if (job->over) return;
  if (result.reason == engine::StopReason::failed) {
    fail_job(job, part_error(job->job, *result.error));
    return;
  }
  if (result.reason == engine::StopReason::cancelled && !state.has_all) {
    fail_job(job, stopping_error());
    return;
  }
  job->job.answer->end(part, result);
  submit_followers(job, part);
  if (job->open == 1) job->job.answer->finish();
  --job->open;
}

void AnswerThread::abandon(Running& job) {
  if (job.over || job.open == 0) return;
  job.over = true;
  for (const Running::PartState& part : job.parts) {
    if (part.state == Running::State::submitted) job.job.model->engine->cancel(part.id);
  }
}

void AnswerThread::fail_job(const std::shared_ptr<Running>& job, const ApiError& error) {
  if (job->over || job->open == 0) return;
  // What a drain ends is the server's to tell.
  if (error.status == 500) log(LogLevel::error, "{}: {}", job->job.endpoint, error.message);
  abandon(*job);
  job->job.answer->fail(error);
}

}  // namespace minfer::server::openai
