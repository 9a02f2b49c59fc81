// Prompt lookup against a search that reads the whole sequence each time, on texts of few and many different tokens.
#include "engine/speculation/ngram_proposer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.hpp"

namespace minfer::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Tokens = std::vector<int32_t>;

Tokens propose(NgramProposer& proposer, const Tokens& tokens, int64_t most) {
  Draft draft;
  draft.tokens = {99};
  proposer.propose(tokens, most, draft);
  EXPECT_FALSE(draft.is_drawn());
  return draft.tokens;
}

// The definition: the longest n-gram first, its latest earlier place.
Tokens naive(const Tokens& tokens, int64_t most) {
  Tokens all = tokens;
  for (size_t length = kMaxNgram; length >= kMinNgram; --length) {
    for (size_t place = tokens.size(); place-- > length;) {
      if (!std::equal(tokens.end() - static_cast<long>(length), tokens.end(),
                      tokens.begin() + static_cast<long>(place - length))) {
        continue;
      }
      for (int64_t i = 0; i < most; ++i) all.push_back(all[place + static_cast<size_t>(i)]);
      return {all.begin() + static_cast<long>(tokens.size()), all.end()};
    }
  }
  return {};
}

TEST(NgramProposer, ContinuesTheLongestMatch) {
  NgramProposer proposer;
  // 2 3 occurred twice, 1 2 3 once: the longer one decides although it is further back.
  EXPECT_THAT(propose(proposer, {1, 2, 3, 4, 5, 9, 2, 3, 7, 8, 1, 2, 3}, 4), ElementsAre(4, 5, 9, 2));
}

TEST(NgramProposer, TakesTheLatestOfEqualMatches) {
  NgramProposer proposer;
  EXPECT_THAT(propose(proposer, {2, 3, 4, 9, 2, 3, 5, 8, 2, 3}, 2), ElementsAre(5, 8));
}

TEST(NgramProposer, ContinuesAPeriodPastTheEnd) {
  NgramProposer proposer;
  EXPECT_THAT(propose(proposer, {7, 7, 7}, 5), ElementsAre(7, 7, 7, 7, 7));
  proposer.reset();
  EXPECT_THAT(propose(proposer, {1, 2, 3, 1, 2, 3, 1}, 5), ElementsAre(2, 3, 1, 2, 3));
}

TEST(NgramProposer, HasNothingToSayOfNewTextAndShortText) {
  NgramProposer proposer;
  EXPECT_THAT(propose(proposer, {}, 4), IsEmpty());
  EXPECT_THAT(propose(proposer, {1}, 4), IsEmpty());
  EXPECT_THAT(propose(proposer, {1, 2}, 4), IsEmpty());
  EXPECT_THAT(propose(proposer, {1, 2, 1}, 4), IsEmpty()) << "one token is no match";
  EXPECT_THAT(propose(proposer, {1, 2, 1, 2}, 0), IsEmpty()) << "none was asked for";
}

TEST(NgramProposer, ForgetsAtReset) {
  NgramProposer proposer;
  EXPECT_THAT(propose(proposer, {1, 2, 3, 1, 2}, 1), ElementsAre(3));
  proposer.reset();
  EXPECT_THAT(propose(proposer, {4, 1, 2}, 1), IsEmpty());
  EXPECT_THROW(propose(proposer, {4, 1}, 1), Error) << "tokens were lost without a reset";
}

TEST(NgramProposer, AgreesWithANaiveSearchAsASequenceGrows) {
  std::mt19937_64 random(7);
  int64_t drafts = 0;
  for (int run = 0; run < 200; ++run) {
    const uint64_t distinct = 1 + random() % 40;
    const int64_t most = static_cast<int64_t>(random() % 9);
    NgramProposer proposer;
    Tokens tokens;
    while (tokens.size() < 300) {
      // New tokens, or a stretch of the text again; then a guess, now and then skipping some growth.
      if (tokens.size() > 4 && random() % 4 == 0) {
        const size_t from = random() % tokens.size();
        for (size_t i = from; i < std::min(from + 6, tokens.size()); ++i) tokens.push_back(tokens[i]);
      } else {
        tokens.push_back(static_cast<int32_t>(random() % distinct));
      }
      if (random() % 3 == 0) continue;
      const Tokens guess = propose(proposer, tokens, most);
      ASSERT_EQ(guess, naive(tokens, most)) << "run " << run << ", " << tokens.size() << " tokens";
      drafts += guess.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(drafts, 5000);
}

TEST(NgramProposer, GrowsAndStartsAnewAtItsLimit) {
  NgramProposer proposer;
  Tokens tokens;
  // Every pair is another one, so that each table fills up; 5 tokens at the beginning are found until it starts anew.
  const size_t limit = NgramProposer::kMaxPlaces;
  for (size_t i = 0; i < limit - 10; ++i) tokens.push_back(static_cast<int32_t>(i));
  const auto with_tail = [&] {
    Tokens all = tokens;
    for (const int32_t token : {2, 3}) all.push_back(token);
    return all;
  };
  tokens = with_tail();
  EXPECT_THAT(propose(proposer, tokens, 2), ElementsAre(4, 5));
  for (size_t i = 0; i < 20; ++i) tokens.push_back(static_cast<int32_t>(limit + i));
  tokens = with_tail();
  EXPECT_THAT(propose(proposer, tokens, 2), IsEmpty());
  tokens.push_back(-1);
  tokens = with_tail();
  EXPECT_THAT(propose(proposer, tokens, 1), ElementsAre(-1)) << "what came after that is found";
}

}  // namespace
}  // namespace minfer::engine
