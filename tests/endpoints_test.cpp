// The endpoints on a real engine, without HTTP in between: many clients at once, clients that go away, a queue that is
// full, and the end. Answers are made on another thread than requests come on: this runs under the thread sanitizer.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "engine/engine.hpp"
#include "model/vocab.hpp"
#include "model_runs.hpp"
#include "server/openai/routes.hpp"

namespace minfer::test {
namespace {

using server::HttpRequest;
using server::HttpResponse;
using std::chrono::seconds;
using ::testing::HasSubstr;

// A client, as the server's thread and the answers' thread see it.
class Client : public server::Responder {
 public:
  void send(HttpResponse response) override { finish(response.status, std::move(response.body)); }
  void begin_events() override {}
  void send_event(std::string_view data, std::string_view) override {
    const std::lock_guard lock(mutex_);
    body_ += data;
    body_ += '\n';
    ++events_;
    changed_.notify_all();
  }
  void end_events() override { finish(200, {}); }
  void on_gone(std::function<void()> callback) override {
    const std::lock_guard lock(mutex_);
    gone_ = std::move(callback);
    changed_.notify_all();
  }

  // The status of the answer, 0 where there is none in time.
  int wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, seconds(60), [this] { return status_ != 0; });
    return status_;
  }
  // Until so many frames of a stream have come.
  bool wait_for_events(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(60), [&] { return events_ >= count; });
  }
  void go_away() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, seconds(60), [this] { return gone_ != nullptr; }));
    const auto callback = gone_;
    lock.unlock();
    callback();
  }
  int status() {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  std::string body() {
    const std::lock_guard lock(mutex_);
    return body_;
  }

 private:
  void finish(int status, std::string body) {
    const std::lock_guard lock(mutex_);
    status_ = status;
    body_ += body;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> gone_;
  std::string body_;
  int events_ = 0;
  int status_ = 0;
};

class EndpointsTest : public ::testing::Test {
 protected:
  EndpointsTest()
      : loaded_(golden_path("tiny/llama.gguf"), {}, 1, exact_options(512, 64, 4)),
        tokenizer_(model::read_vocab(loaded_.model.file())) {
    engine::BatcherOptions options;
    options.max_running = 2;
    options.max_waiting = 30;
    engine_ = std::make_unique<engine::Engine>(loaded_.runner, tokenizer_, options);
    auto served = std::make_shared<server::ServedModel>();
    served->name = "tiny";
    served->context_tokens = 512;
    served->embedding_width = loaded_.model.config().width;
    served->parallel = 2;
    served->engine = engine_.get();
    served->tokenizer = &tokenizer_;
    served->token_table = engine::grammar::make_token_table(tokenizer_);
    endpoints_ = std::make_unique<server::openai::Endpoints>(
        server::openai::EndpointOptions{.model = [served] { return served; },
                                        .strict_fields = true,
                                        .on_result = [this](std::string_view, const engine::Result&) { ++results_; }});
  }
  // As the product ends.
  ~EndpointsTest() override { endpoints_->stop(); }

  std::shared_ptr<Client> post(std::string_view path, const std::string& body) {
    auto client = std::make_shared<Client>();
    for (const server::Route& route : endpoints_->routes()) {
      if (route.path != path) continue;
      route.handler({.method = "POST", .path = std::string(path), .query = {}, .headers = {}, .body = body}, client);
    }
    return client;
  }
  std::shared_ptr<Client> complete(const std::string& more) {
    return post("/v1/completions", R"({"prompt": [3, 4, 5, 6], "temperature": 0, "ignore_eos": true, )" + more + "}");
  }

  std::string complete_and_wait(const std::string& more) {
    const auto client = complete(more);
    client->wait();
    return client->body();
  }

  Loaded loaded_;
  tokenizer::Tokenizer tokenizer_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<server::openai::Endpoints> endpoints_;
  std::atomic<int> results_ = 0;
};

TEST_F(EndpointsTest, ManyClientsGetWhatOneGets) {
  const auto alone = complete(R"("max_tokens": 20)");
  ASSERT_EQ(alone->wait(), 200);
  const auto choices = [](std::string body) {
    return body.substr(body.find("\"choices\""), body.find("\"usage\"") - body.find("\"choices\""));
  };
  EXPECT_THAT(choices(alone->body()), HasSubstr("\"finish_reason\":\"length\""));
  std::vector<std::shared_ptr<Client>> clients;
  for (int i = 0; i < 24; ++i) clients.push_back(complete(R"("max_tokens": 20)"));
  for (const auto& client : clients) {
    EXPECT_EQ(client->wait(), 200);
    EXPECT_EQ(choices(client->body()), choices(alone->body()));
  }
  EXPECT_EQ(results_, 25);
}

// A grammar that takes some hundredths of a second to compile, in a body that is still read at once; `name` makes it
// another one.
std::string slow_grammar(int name) {
  std::string text = "root ::= r0 \\\"" + std::to_string(name) + "\\\"\\n";
  constexpr int kRules = 2400;
  for (int i = 0; i < kRules; ++i) text += fmt::format("r{} ::= \\\"b\\\"? r{}\\n", i, i + 1);
  return text + fmt::format("r{} ::= \\\"a\\\"", kRules);
}

TEST_F(EndpointsTest, GrammarsThatCompileSlowlyHoldUpNobodyElse) {
  const auto known = complete(R"("max_tokens": 4, "grammar": "root ::= [ab]+")");
  ASSERT_EQ(known->wait(), 200) << known->body();
  std::vector<std::shared_ptr<Client>> slow;
  for (int i = 0; i < 12; ++i) slow.push_back(complete(R"("max_tokens": 4, "grammar": ")" + slow_grammar(i) + "\""));
  // The requests are taken at once, and those that bring no new grammar are answered before.
  const auto plain = complete(R"("max_tokens": 4)");
  const auto again = complete(R"("max_tokens": 4, "grammar": "root ::= [ab]+")");
  EXPECT_EQ(plain->wait(), 200);
  EXPECT_EQ(again->wait(), 200);
  EXPECT_EQ(slow.back()->status(), 0) << "it has been compiled already: make it slower";
  slow[10]->go_away();
  for (int i = 0; i < 10; ++i) EXPECT_THAT(slow[static_cast<size_t>(i)]->wait(), ::testing::AnyOf(200, 400));
  EXPECT_THAT(slow[11]->wait(), ::testing::AnyOf(200, 400));
  EXPECT_EQ(slow[10]->status(), 0) << "its client had gone";
}

TEST_F(EndpointsTest, TooManySlowGrammarsAreRefusedAndStopped) {
  std::vector<std::shared_ptr<Client>> clients;
  const auto is_refused = [](const auto& client) { return client->status() == 429; };
  while (clients.size() < 100 && (clients.empty() || !is_refused(clients.back()))) {
    clients.push_back(
        complete(R"("max_tokens": 1, "grammar": ")" + slow_grammar(static_cast<int>(clients.size())) + "\""));
  }
  ASSERT_TRUE(is_refused(clients.back()));
  EXPECT_GE(clients.size(), 65U);
  EXPECT_THAT(clients.back()->body(), HasSubstr("wait for a grammar to be compiled; the limit is 64"));
  endpoints_->stop();
  EXPECT_EQ(clients[clients.size() - 2]->wait(), 503);
  EXPECT_EQ(complete(R"("max_tokens": 1, "grammar": "root ::= [c]")")->wait(), 503);
}

// Its trouble comes with the text: the first mask is cheap, and the request's field is named all the same.
TEST_F(EndpointsTest, AGrammarThatBecomesTooExpensiveEndsItsRequestAlone) {
  constexpr const char* kCostly = R"("root ::= s \"b\"\ns ::= \"a\" | \"a\" s | \"a\" s s | \"a\" s s s")";
  const auto beside = complete(R"("max_tokens": 200)");
  const auto costly = complete(R"("max_tokens": 400, "logit_bias": {"101": -100}, "grammar": )" + std::string(kCostly));
  EXPECT_EQ(costly->wait(), 400) << costly->body();
  EXPECT_THAT(costly->body(), HasSubstr(R"("message":"grammar: it is too ambiguous: to find the next tokens takes)"));
  EXPECT_THAT(costly->body(), HasSubstr(R"("param":"grammar")"));
  EXPECT_EQ(beside->wait(), 200);
  const auto choices = [](const std::string& body) { return body.substr(body.find("\"choices\"")); };
  EXPECT_EQ(choices(beside->body()), choices(complete_and_wait(R"("max_tokens": 200)")));
}

TEST_F(EndpointsTest, AClientThatGoesAwayStopsItsWork) {
  const auto running = complete(R"("max_tokens": 500, "stream": true)");
  const auto other = complete(R"("max_tokens": 500, "stream": true, "seed": 2)");
  const auto queued = complete(R"("max_tokens": 500, "n": 3)");
  ASSERT_TRUE(running->wait_for_events(3));
  running->go_away();
  other->go_away();
  queued->go_away();
  ASSERT_TRUE(engine_->wait_until_idle(seconds(60)));
  const engine::BatcherStats stats = engine_->stats();
  EXPECT_LT(stats.steps, 400) << "none of them went to its end";
}

TEST_F(EndpointsTest, AFullQueueIsTooManyRequests) {
  // 32 fit; a request of more than that is refused whole, and what it had begun is ended.
  const auto client = complete(R"("max_tokens": 400, "n": 40)");
  EXPECT_EQ(client->wait(), 429);
  EXPECT_THAT(client->body(), HasSubstr(R"("code":"queue_full")"));
  EXPECT_TRUE(engine_->wait_until_idle(seconds(60)));
  EXPECT_EQ(complete(R"("max_tokens": 2)")->wait(), 200);
}

TEST_F(EndpointsTest, TheEndIsTold) {
  const auto stream = complete(R"("max_tokens": 500, "stream": true)");
  const auto whole = complete(R"("max_tokens": 500)");
  ASSERT_TRUE(stream->wait_for_events(2));
  endpoints_->stop();
  EXPECT_EQ(whole->wait(), 503);
  EXPECT_EQ(stream->wait(), 200);
  EXPECT_THAT(stream->body(), HasSubstr(R"({"error":{"message":"the server is shutting down)"));
  EXPECT_THAT(stream->body(), HasSubstr("[DONE]"));
  EXPECT_EQ(complete(R"("max_tokens": 2)")->wait(), 503);
}

TEST_F(EndpointsTest, EmbeddingsComeInOrderHoweverMany) {
  std::string input = "[";
  for (int i = 0; i < 50; ++i) input += (i == 0 ? "[" : ", [") + std::to_string(3 + i) + ", 9]";
  const auto many = post("/v1/embeddings", R"({"input": )" + input + R"(], "encoding_format": "base64"})");
  EXPECT_EQ(many->wait(), 200) << many->body();
  const auto one = post("/v1/embeddings", R"({"input": [20, 9], "encoding_format": "base64"})");
  EXPECT_EQ(one->wait(), 200);
  const std::string mark = "\"embedding\":\"";
  const std::string body = one->body();
  const size_t begin = body.find(mark) + mark.size();
  const std::string vector = body.substr(begin, body.find('"', begin) - begin);
  EXPECT_EQ(vector.size(), static_cast<size_t>((loaded_.model.config().width * 4 + 2) / 3 * 4));
  EXPECT_THAT(many->body(), HasSubstr(R"("index":17,"embedding":")" + vector + "\""));
}

TEST_F(EndpointsTest, ErrorsOfARequestAreItsOwn) {
  EXPECT_EQ(complete(R"("bogus": 1)")->wait(), 400);
  EXPECT_EQ(post("/v1/completions", "{")->wait(), 400);
  const auto chat = post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_EQ(chat->wait(), 400);
  EXPECT_THAT(chat->body(), HasSubstr("tiny has no chat template"));
  const auto held = post("/v1/completions", R"({"prompt": "x", "max_tokens": 9, "grammar": "root ::= \"a\" \"b\""})");
  EXPECT_EQ(held->wait(), 200);
  EXPECT_THAT(held->body(), HasSubstr(R"("text":"ab","index":0,"logprobs":null,"finish_reason":"stop")"));
}

}  // namespace
}  // namespace minfer::test
