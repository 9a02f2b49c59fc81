// Session files of tiny models on the CPU: resuming equals never having stopped, bit for bit, in every KV format and
// with windows; and what identifies a model. The file itself is tested in src/engine/kv/session_file_test.cpp.
#include "engine/kv/session_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine/batcher.hpp"
#include "engine/forward.hpp"
#include "model/vocab.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

using graph::KvFormat;
using ::testing::HasSubstr;

struct Formats {
  KvFormat key;
  KvFormat value;
};

engine::RunnerOptions options(Formats formats, int64_t context = 256) {
  engine::RunnerOptions result = exact_options(context, 32);
  result.key_format = formats.key;
  result.value_format = formats.value;
  return result;
}

// A model with the file that its session goes to.
struct Session {
  Session(const std::string& model_path, const engine::RunnerOptions& runner_options)
      : loaded(model_path, "", 1, runner_options),
        identity(engine::identify_model(loaded.model.file(), loaded.model.config().vocabulary,
                                        loaded.model.config().rope.is_long(runner_options.context_tokens))),
        target{identity, loaded.runner.kv_spec(), loaded.runner.cache()},
        sequence(loaded.runner.cache()) {}

  std::vector<float> append(std::span<const int32_t> ids) {
    const auto logits = engine::append(loaded.runner, sequence, ids);
    return {logits.begin(), logits.end()};
  }

  Loaded loaded;
  engine::ModelIdentity identity;
  engine::SessionTarget target;
  engine::Sequence sequence;
};

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() : folder_(std::filesystem::path(::testing::TempDir()) / "minfer_session_test") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~SessionTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};

std::vector<int32_t> prompt(size_t tokens) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < tokens; ++i) ids.push_back(static_cast<int32_t>(3 + (i * 37) % 250));
  return ids;
}

std::string error_of(Session& session, const std::string& path) {
  try {
    engine::load_session(path, session.sequence, session.target);
  } catch (const Error& error) {
    return std::string(error_code_name(error.code())) + ": " + error.what();
  }
  return "no error";
}

TEST_F(SessionTest, ResumingEqualsNeverHavingStopped) {
  const std::vector<int32_t> ids = prompt(200);
  const auto begin = std::span(ids).first(150), end = std::span(ids).subspan(150);
  for (const char* model : {"tiny/qwen3.gguf", "tiny/gemma3.gguf"}) {
    for (const Formats formats : {Formats{KvFormat::f32, KvFormat::f32}, Formats{KvFormat::f16, KvFormat::f16},
                                  Formats{KvFormat::bf16, KvFormat::f32}, Formats{KvFormat::q8_0, KvFormat::bf16},
                                  Formats{KvFormat::f16, KvFormat::q8_0}}) {
      SCOPED_TRACE(std::string(model) + ", formats " + std::to_string(static_cast<int>(formats.key)) + " and " +
                   std::to_string(static_cast<int>(formats.value)));
      Session stopped(golden_path(model), options(formats)), resumed(golden_path(model), options(formats));
      stopped.append(begin);
      engine::save_session(file("a"), stopped.sequence, {}, stopped.target);
      engine::load_session(file("a"), resumed.sequence, resumed.target);
      EXPECT_EQ(resumed.sequence.length(), 150);
      const std::vector<float> expected = stopped.append(end);
      EXPECT_TRUE(same_bits(resumed.append(end), expected));
      // Saved again, it is the same file as that of the sequence that never stopped.
      engine::save_session(file("a"), stopped.sequence, {}, stopped.target);
      engine::save_session(file("b"), resumed.sequence, {}, resumed.target);
      const FileMap a(file("a")), b(file("b"));
      ASSERT_EQ(a.bytes().size(), b.bytes().size());
      EXPECT_EQ(std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()), 0);
    }
  }
}

// --- by way of requests ---

struct Said {
  std::vector<int32_t> tokens;
  engine::Result result;
};

// Runs a request to its end, or cancels it after so many tokens.
Said say(Loaded& loaded, const engine::Request& request, const engine::BatcherOptions& options = {},
         size_t cancel_after = 1000) {
  const tokenizer::Tokenizer tokenizer(model::read_vocab(loaded.model.file()));
  engine::Batcher batcher(loaded.runner, tokenizer, options);
  Said said;
  const auto id = batcher.submit(request, {[&](const engine::DrawnToken& drawn, std::string_view) {
                                             if (drawn.id != engine::kNoToken) said.tokens.push_back(drawn.id);
                                           },
                                           [&](const engine::Result& result) { said.result = result; }});
  bool more = true;
  while (more) {
    if (said.tokens.size() >= cancel_after) batcher.cancel(id);
    more = batcher.step();
  }
  EXPECT_FALSE(said.result.error) << said.result.error->what();
  return said;
}

// Drawn by logits that look back on all of the text.
engine::Request request_of(std::vector<int32_t> ids, int64_t tokens) {
  engine::Request request;
  request.prompt = std::move(ids);
  request.max_tokens = tokens;
  request.sampler.temperature = 0;
  request.sampler.presence_penalty = 0.7F;
  request.sampler.penalty_last_n = -1;
  request.sampler.logit_bias = {{1, -1000.0F}, {2, -1000.0F}};  // no end before max_tokens
  return request;
}

class Stopping : public SessionTest {
 protected:
  // What a request said, then a prompt behind its session: as one prompt of all of that.
  void expect_to_go_on(const std::vector<int32_t>& ids, const Said& before, const std::string& path) {
    const std::vector<int32_t> more = {7, 8, 9};
    engine::Request next = request_of(more, 20);
    next.session_path = path;
    const Said resumed = say(loaded_, next);
    EXPECT_EQ(resumed.result.session_tokens, static_cast<int64_t>(ids.size() + before.tokens.size()));
    std::vector<int32_t> all = ids;
    all.insert(all.end(), before.tokens.begin(), before.tokens.end());
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(resumed.tokens, say(loaded_, request_of(all, 20)).tokens);
  }

  Loaded loaded_{golden_path("tiny/llama.gguf"), "", 1, exact_options(256, 32)};
};

TEST_F(Stopping, AfterAnyNumberOfTokens) {
  engine::Request request = request_of(prompt(10), 6);
  request.session_path = file("a");
  expect_to_go_on(request.prompt, say(loaded_, request), file("a"));
}

TEST_F(Stopping, InAFullContext) {
  Loaded full(golden_path("tiny/llama.gguf"), "", 1, exact_options(12, 32));
  engine::Request request = request_of(prompt(6), 200);
  request.session_path = file("a");
  const Said said = say(full, request);
  ASSERT_EQ(said.result.reason, engine::StopReason::context_full);
  ASSERT_EQ(said.tokens.size(), 7u) << "the last one is drawn, and has no place";
  expect_to_go_on(request.prompt, said, file("a"));
}

TEST_F(Stopping, ByCancelling) {
  for (const size_t after : {size_t{0}, size_t{5}}) {
    engine::Request request = request_of(prompt(70), 200);
    request.session_path = file("cancelled" + std::to_string(after));
    // After no token: the first 32 of the prompt have run.
    engine::BatcherOptions options;
    Said said;
    if (after > 0) {
      said = say(loaded_, request, options, after);
    } else {
      const tokenizer::Tokenizer tokenizer(model::read_vocab(loaded_.model.file()));
      engine::Batcher batcher(loaded_.runner, tokenizer, options);
      const auto id = batcher.submit(request, {{}, [&](const engine::Result& result) { said.result = result; }});
      batcher.step();
      batcher.cancel(id);
      batcher.step();
    }
    ASSERT_EQ(said.result.reason, engine::StopReason::cancelled);
    ASSERT_EQ(said.tokens.size(), after);
    expect_to_go_on(request.prompt, said, request.session_path);
  }
}

// Guesses right, as it knows the text.
class Oracle : public engine::Proposer {
 public:
  explicit Oracle(std::vector<int32_t> text) : text_(std::move(text)) {}
  void propose(std::span<const int32_t> tokens, int64_t most, engine::Draft& draft) override {
    draft.clear();
    for (size_t i = tokens.size(); i < text_.size() && static_cast<int64_t>(draft.tokens.size()) < most; ++i) {
      draft.tokens.push_back(text_[i]);
    }
  }
  void reset() override {}

 private:
  std::vector<int32_t> text_;
};

TEST_F(Stopping, InTheMiddleOfADraftThatIsRight) {
  engine::Request request = request_of(prompt(10), 40);
  std::vector<int32_t> text = request.prompt;
  const Said plain = say(loaded_, request);
  text.insert(text.end(), plain.tokens.begin(), plain.tokens.end());
  const tokenizer::Tokenizer tokenizer(model::read_vocab(loaded_.model.file()));
  engine::BatcherOptions options;
  options.draft_depth = 8;
  options.make_proposer = [&](const engine::Request&) { return std::make_unique<Oracle>(text); };
  int64_t drafted_too_far = 0;
  for (size_t at = 2; at < 12; ++at) {
    const std::string stop = tokenizer.decode({{plain.tokens[at]}});
    if (stop.empty()) continue;
    request.stops = {stop};
    request.session_path = file("draft" + std::to_string(at));
    const Said said = say(loaded_, request, options);
    ASSERT_EQ(said.result.reason, engine::StopReason::stop_string);
    drafted_too_far += said.result.accepted_tokens >= static_cast<int64_t>(said.tokens.size()) ? 1 : 0;
    expect_to_go_on(request.prompt, said, request.session_path);
  }
  EXPECT_GT(drafted_too_far, 0);
}

TEST_F(SessionTest, ATextThatWasShiftedKeepsItsFirstTokens) {
  Loaded loaded(golden_path("tiny/llama.gguf"), "", 1, exact_options(192, 128));
  engine::Request request = request_of(prompt(100), 230);
  request.overflow = engine::Overflow::shift;
  request.keep_tokens = 10;
  request.session_path = file("a");
  const Said said = say(loaded, request);
  ASSERT_EQ(said.result.shifts, 3);
  std::vector<int32_t> expected = request.prompt;
  expected.insert(expected.end(), said.tokens.begin(), said.tokens.end());
  expected.erase(expected.begin() + 10, expected.begin() + 10 + 3 * 64);
  // The ids as docs/formats/session-file.md says: behind the header and one group.
  const FileMap saved(file("a"));
  std::vector<int32_t> ids(expected.size());
  std::memcpy(ids.data(), saved.bytes().data() + 256 + 32, ids.size() * sizeof(int32_t));
  EXPECT_EQ(ids, expected);
}

TEST_F(SessionTest, IsLoadedWhateverTheTokensOfAStepWere) {
  engine::Request request = request_of(prompt(200), 0);
  request.session_path = file("a");
  Loaded large(golden_path("tiny/gemma3.gguf"), "", 1, exact_options(256, 256));
  const Said before = say(large, request);
  Loaded small(golden_path("tiny/gemma3.gguf"), "", 1, exact_options(256, 32));
  engine::Request next = request_of({7, 8, 9}, 4);
  next.session_path = file("a");
  EXPECT_EQ(say(small, next).result.session_tokens, 200);
}

TEST_F(SessionTest, IsForTheModelFormatAndContextItWasMadeWith) {
  const Formats f32{KvFormat::f32, KvFormat::f32};
  Session session(golden_path("tiny/llama.gguf"), options(f32));
  session.append(prompt(100));
  engine::save_session(file("a"), session.sequence, {}, session.target);
  Session other(golden_path("tiny/llama_rope_linear.gguf"), options(f32));
  EXPECT_THAT(error_of(other, file("a")), HasSubstr("unsupported: " + file("a") + ": the session is of the model '"));
  Session format(golden_path("tiny/llama.gguf"), options({KvFormat::f32, KvFormat::f16}));
  EXPECT_EQ(error_of(format, file("a")),
            "unsupported: " + file("a") + ": the session's value format is f32; expected f16");
  Session context(golden_path("tiny/llama.gguf"), options(f32, 99));
  EXPECT_THAT(error_of(context, file("a")), HasSubstr("a session of 100 tokens; the context holds 99"));
  EXPECT_EQ(context.sequence.length(), 0);
}

TEST_F(SessionTest, PagesThatAreNoNumbersAreNotBlamedOnTheWeightsAlone) {
  const Formats f32{KvFormat::f32, KvFormat::f32};
  Session session(golden_path("tiny/llama.gguf"), options(f32));
  session.append(prompt(10));
  const std::vector<std::byte> nans(static_cast<size_t>(session.target.cache.store().page_bytes(0)), std::byte{0xFF});
  session.target.cache.store().write_page(0, session.sequence.pages(0)[0], nans);
  engine::save_session(file("a"), session.sequence, {}, session.target);
  session.sequence.clear();
  const tokenizer::Tokenizer tokenizer(model::read_vocab(session.loaded.model.file()));
  engine::Batcher batcher(session.loaded.runner, tokenizer, {});
  engine::Request request;
  request.prompt = {3};
  request.session_path = file("a");
  std::string error;
  batcher.submit(request,
                 {{}, [&](const engine::Result& result) { error = result.error ? result.error->what() : ""; }});
  while (batcher.step()) continue;
  EXPECT_EQ(error, "the model gave NaN as the logit of token 0; its weights or the session " + file("a") +
                       " are broken; no weight is NaN or infinity");
}

TEST_F(SessionTest, AModelIsToldByItsHeaderAndByItsWeights) {
  std::vector<char> bytes;
  {
    std::ifstream in(golden_path("tiny/llama.gguf"), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto identity = [&] {
    const gguf::MemoryPart part{"a.gguf", std::as_bytes(std::span(bytes))};
    return engine::identify_model(gguf::File::from_memory({&part, 1}), 288);
  };
  const engine::ModelIdentity first = identity();
  EXPECT_NE(engine::identify_model(gguf::File(golden_path("tiny/llama.gguf")), 288, true).hash,
            engine::identify_model(gguf::File(golden_path("tiny/llama.gguf")), 288).hash);
  EXPECT_EQ(first.architecture, "llama");
  EXPECT_EQ(first.vocabulary, 288);
  EXPECT_EQ(identity().hash, first.hash);
  size_t middle = 0;
  {
    const gguf::File file(golden_path("tiny/llama.gguf"));
    const gguf::TensorInfo& tensor = file.tensors().back();
    middle = tensor.offset_bytes + tensor.bytes / 2;
  }
  bytes[middle] ^= 1;
  EXPECT_NE(identity().hash, first.hash) << "a weight";
  bytes[middle] ^= 1;
  // A digit of the epsilon, say: any value of the metadata.
  const std::string key = "llama.attention.layer_norm_rms_epsilon";
  const auto at = std::search(bytes.begin(), bytes.end(), key.begin(), key.end());
  ASSERT_NE(at, bytes.end());
  at[static_cast<std::ptrdiff_t>(key.size()) + 4] ^= 1;
  EXPECT_NE(identity().hash, first.hash) << "a value";
}

}  // namespace
}  // namespace minfer::test
