// The draft model's sequence in step with the target's. See draft_model_proposer.hpp.
#include "engine/speculation/draft_model_proposer.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "model/vocab.hpp"

namespace minfer::engine {
namespace {

// The target's draws and the draft's must not depend on each other.
constexpr uint64_t kSeedOfDrafts = 0x5DEECE66D1CE4E5BULL;

SamplerParams draft_params(SamplerParams params, Guess guess) {
  if (params.mirostat != 0 || guess == Guess::likeliest) params.temperature = 0;
  params.mirostat = 0;
  params.seed ^= kSeedOfDrafts;
  return params;
}

size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

void check_same_vocabulary(const model::Model& target, const model::Model& draft) {
  const auto refuse = [](const std::string& difference) {
    fail(ErrorCode::unsupported,
         "the draft model's vocabulary is not that of the model: {}; take a smaller model of the same family",
         difference);
  };
  if (target.config().vocabulary != draft.config().vocabulary) {
    refuse(fmt::format("{} tokens, expected {}", draft.config().vocabulary, target.config().vocabulary));
  }
  const tokenizer::VocabData expected = model::read_vocab(target.file());
  const tokenizer::VocabData found = model::read_vocab(draft.file());
  if (expected.tokens.size() != found.tokens.size()) {
    refuse(fmt::format("{} token texts, expected {}", found.tokens.size(), expected.tokens.size()));
  }
  for (size_t id = 0; id < expected.tokens.size(); ++id) {
    if (expected.tokens[id] == found.tokens[id]) continue;
    refuse(fmt::format("token {} is \"{}\", expected \"{}\"", id, found.tokens[id], expected.tokens[id]));
  }
}

DraftModelProposer::DraftModelProposer(Runner& runner, const SamplerParams& params, Guess guess)
    : runner_(runner),
      draws_(draft_params(params, guess).temperature > 0),
      sampler_(draft_params(params, guess), runner.model().config().vocabulary),
      sequence_(runner.cache()) {
  sampler_.set_suspects(
      fmt::format("it is the draft model {}, and its weights are broken", runner.model().file().metadata().source()));
}

void DraftModelProposer::reset() {
  left_out_ = 0;
  run_.clear();
  sequence_.clear();
  sampler_.rewind(sampler_.history().size());
}

// Makes the sequence a prefix of what is read of `tokens`, and the sampler's history one of `tokens`, that leaves at
// least the last to run; drafts that were accepted are in it already.
void DraftModelProposer::follow(std::span<const int32_t> all_tokens) {
  const auto tokens = read(all_tokens);
  const auto before_last = tokens.first(tokens.size() - 1);
  check(common_prefix(sequence_.tokens(), tokens) == static_cast<size_t>(sequence_.length()),
        "a sequence that lost tokens without a reset of its proposer");
  // A call without a new token runs its last one again.
  if (sequence_.length() == static_cast<int64_t>(tokens.size())) sequence_.truncate(sequence_.length() - 1);
  const auto rest = before_last.subspan(static_cast<size_t>(sequence_.length()));
  sequence_.commit(std::span(run_).first(common_prefix(run_, rest)));
  run_.clear();
  for (size_t i = sampler_.history().size(); i < all_tokens.size(); ++i) sampler_.accept(all_tokens[i]);
}

Lag DraftModelProposer::lag(std::span<const int32_t> tokens) {
  follow(tokens);
  const int64_t before_last = static_cast<int64_t>(tokens.size()) - 1 - left_out_;
  return {left_out_, sequence_.length(), before_last - sequence_.length()};
}

bool DraftModelProposer::catch_up(std::span<const int32_t> tokens, int64_t rows) {
  if (rows != lag(tokens).behind) {
    sequence_.clear();
    left_out_ = static_cast<int64_t>(tokens.size()) - 1 - rows;
  }
  auto rest = read(tokens.first(tokens.size() - 1)).subspan(static_cast<size_t>(sequence_.length()));
  while (!rest.empty()) {
    const auto chunk = rest.first(std::min(rest.size(), static_cast<size_t>(runner_.options().batch_tokens)));
    if (!sequence_.reserve(static_cast<int64_t>(chunk.size()))) return false;
    step(chunk, sequence_.length(), false);
    sequence_.commit(chunk);
    rest = rest.subspan(chunk.size());
  }
  return true;
}

// Runs tokens in reserved pages; the logits of the last one where `output`.
std::span<const float> DraftModelProposer::step(std::span<const int32_t> ids, int64_t first_position, bool output) {
  const int32_t last_row[] = {static_cast<int32_t>(ids.size() - 1)};
  graph::SequenceStep mine[] = {sequence_.step(0, static_cast<int64_t>(ids.size()))};
  mine[0].first_position = first_position;
  return runner_.step({ids, output ? std::span<const int32_t>(last_row) : std::span<const int32_t>(), mine});
}

void DraftModelProposer::propose(std::span<const int32_t> all_tokens, int64_t most, Draft& draft) {
  draft.clear();
  const auto tokens = read(all_tokens);
  const int64_t batch = runner_.options().batch_tokens;
  const int64_t count = static_cast<int64_t>(tokens.size());
  // The last draft is not run.
  const int64_t depth = std::min({most, batch, runner_.options().context_tokens - count + 1});
  if (depth < 1) return;
  follow(all_tokens);
  auto rest = tokens.subspan(static_cast<size_t>(sequence_.length()));
  const int64_t missing = static_cast<int64_t>(rest.size());
  if (missing + depth - 1 > batch) {
    const auto chunk = rest.first(static_cast<size_t>(std::min(batch, missing - 1)));
    if (!sequence_.reserve(static_cast<int64_t>(chunk.size()))) return;
    step(chunk, sequence_.length(), false);
    sequence_.commit(chunk);
    return;
  }
  if (!sequence_.reserve(missing + depth - 1)) return;
  auto logits = step(rest, sequence_.length(), true);
  sequence_.commit(rest);
  while (true) {
    const int32_t token = sampler_.sample(logits);
    draft.tokens.push_back(token);
    if (draws_) {
      const auto candidates = sampler_.candidates();
      draft.candidates.insert(draft.candidates.end(), candidates.begin(), candidates.end());
      draft.ends.push_back(draft.candidates.size());
    }
    if (static_cast<int64_t>(draft.tokens.size()) == depth) break;
    sampler_.accept(token);
    logits = step(std::span(draft.tokens).last(1), count + static_cast<int64_t>(run_.size()), true);
    run_.push_back(token);
  }
  sampler_.rewind(run_.size());
}

}  // namespace minfer::engine
