// The automaton against the definition: every mask of random grammars over a small vocabulary equals what trying each
// token's bytes gives; and single properties by hand.
#include "engine/grammar/grammar.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "engine/grammar/automaton.hpp"
#include "engine/grammar/byte_tokens_testing.hpp"
#include "engine/grammar/gbnf.hpp"
#include "engine/grammar/grammar_oracle.hpp"
#include "engine/grammar/token_table.hpp"

namespace minfer::engine::grammar {
namespace {

using Tokens = std::vector<TokenTable::Token>;

// Every byte, and then some texts; the last two end a generation, before them is a control token.
Tokens small_vocabulary(const std::vector<std::string>& texts) {
  Tokens tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, static_cast<char>(byte))});
  for (const std::string& text : texts) tokens.push_back({text});
  tokens.push_back({"", false, true, "<call>"});
  tokens.push_back({"", true});
  tokens.push_back({"", true});
  return tokens;
}

class Walk {
 public:
  Walk(const Ast& ast, const Tokens& tokens)
      : oracle_(ast),
        tokens_(tokens),
        grammar_(compile(ast, std::make_shared<TokenTable>(tokens))),
        matcher_(grammar_) {}

  // Where the mask is not what the oracle says, the token and the text before; empty: nowhere.
  std::string find_difference() {
    const auto mask = matcher_.mask();
    for (size_t id = 0; id < tokens_.size(); ++id) {
      const bool has = (mask[id / 32] >> (id % 32) & 1) != 0;
      if (has == expected(id)) continue;
      return fmt::format("token {} '{}' behind '{}' is {}", id, tokens_[id].text, text_, has ? "allowed" : "forbidden");
    }
    if (matcher_.is_complete() != oracle_.matches(text_)) return "is_complete behind " + text_;
    return "";
  }
  std::vector<int32_t> allowed() {
    std::vector<int32_t> out;
    const auto mask = matcher_.mask();
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if ((mask[id / 32] >> (id % 32) & 1) != 0 && !tokens_[id].ends) out.push_back(static_cast<int32_t>(id));
    }
    return out;
  }
  void accept(int32_t token) {
    matcher_.accept(token);
    taken_.push_back(token);
    text_ += tokens_[static_cast<size_t>(token)].text;
  }
  // A new matcher takes the first `count` tokens again.
  void restart(size_t count) {
    matcher_ = Matcher(grammar_);
    text_.clear();
    const std::vector<int32_t> taken = std::exchange(taken_, {});
    for (size_t i = 0; i < count; ++i) accept(taken[i]);
  }
  Matcher& matcher() { return matcher_; }
  const std::shared_ptr<const Grammar>& grammar() const { return grammar_; }
  size_t length() const { return taken_.size(); }

 private:
  bool expected(size_t id) {
    if (tokens_[id].ends) return oracle_.matches(text_);
    return !tokens_[id].text.empty() && oracle_.begins(text_ + tokens_[id].text);
  }

  GrammarOracle oracle_;
  const Tokens& tokens_;
  std::shared_ptr<const Grammar> grammar_;
  Matcher matcher_;
  std::string text_;
  std::vector<int32_t> taken_;
};

// Random grammars over a few characters, so that tokens of several of them fit often.
class RandomGrammar {
 public:
  explicit RandomGrammar(uint64_t seed) : random_(seed) {}

  size_t below(size_t bound) { return static_cast<size_t>(random_() % bound); }

  std::string text(size_t most) {
    static const std::vector<std::string> kCharacters = {
        "a", "b", "\"", ",", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    std::string out;
    for (size_t i = below(most + 1); i > 0; --i) out += kCharacters[below(below(3) == 0 ? kCharacters.size() : 4)];
    return out;
  }

  Ast make() {
    const size_t rules = 1 + below(4);
    for (size_t i = 0; i < rules; ++i) rules_.push_back(builder_.declare("r" + std::to_string(i)));
    for (const RuleId rule : rules_) {
      const NodeId body = node(1 + below(4));
      // Some end with themselves: they are called, and go on as long as they like.
      const NodeId again = builder_.sequence({body, builder_.reference(rule)});
      builder_.define(rule, below(3) == 0 ? builder_.alternatives({body, again}) : body);
    }
    return std::move(builder_).finish(rules_[0]);
  }

 private:
  NodeId leaf() {
    switch (below(6)) {
      case 0:
        return builder_.code_class({{'a', 'b'}});
      case 1:
        return builder_.code_class({{'"', '"'}}, true);
      case 2:
        return builder_.code_class({{'b', 'b'}, {0xA0, 0x20AC}, {0x1F000, 0x1FFFF}});
      case 3:
        return builder_.reference(rules_[below(rules_.size())]);
      default:
        return builder_.literal(text(3));
    }
  }

  NodeId node(size_t depth) {
    if (depth == 0) return leaf();
    switch (below(4)) {
      case 0:
        return builder_.sequence(nodes(depth));
      case 1: {
        auto all = nodes(depth);
        if (all.empty()) all.push_back(leaf());
        return builder_.alternatives(std::move(all));
      }
      case 2: {
        const auto least = static_cast<uint32_t>(below(below(4) == 0 ? 60 : 3));
        std::optional<uint32_t> most;
        if (below(3) > 0) most = least + static_cast<uint32_t>(below(below(4) == 0 ? 80 : 3));
        return builder_.repeat(node(depth - 1), least, most);
      }
      default:
        return leaf();
    }
  }

  std::vector<NodeId> nodes(size_t depth) {
    std::vector<NodeId> out;
    for (size_t i = below(4); i > 0; --i) out.push_back(node(depth - 1));
    return out;
  }

  std::mt19937_64 random_;
  AstBuilder builder_;
  std::vector<RuleId> rules_;
};

RC_GTEST_PROP(GrammarProperty, MasksAreWhatTryingEachTokenGives, ()) {
  RandomGrammar random(*rc::gen::arbitrary<uint64_t>());
  const Ast ast = random.make();
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) texts.push_back(random.text(6));
  for (const char* text : {"\xC3", "\xA9", "\x82\xAC", "\xE2\x82", "a\xE2", "\xF0\x9F", "\x98\x80\"", "aaaaaaaaaaaa"}) {
    texts.emplace_back(text);
  }
  std::erase(texts, "");
  const Tokens tokens = small_vocabulary(texts);
  std::optional<Walk> walk;
  try {
    walk.emplace(ast, tokens);
  } catch (const Error& error) {
    const std::string what = error.what();
    RC_ASSERT(what.find("begins with itself") != std::string::npos || what.find("no text") != std::string::npos);
    RC_DISCARD("no such grammar");
  }
  for (int i = 0; i < 14; ++i) {
    const std::string difference = walk->find_difference();
    if (!difference.empty()) RC_FAIL(difference);
    const auto allowed = walk->allowed();
    RC_ASSERT(allowed.empty() == walk->matcher().is_over());
    if (allowed.empty() || random.below(6) == 0) {
      walk->restart(random.below(walk->length() + 1));
      continue;
    }
    walk->accept(allowed[random.below(allowed.size())]);
  }
}

Ast gbnf(const std::string& text) {
  return parse_gbnf(text, "test");
}

std::string error_of(const std::string& text) {
  try {
    compile(gbnf(text), std::make_shared<TokenTable>(small_vocabulary({})));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The texts among `tokens` that may come.
std::vector<std::string> texts_of(Matcher& matcher, const Tokens& tokens) {
  std::vector<std::string> out;
  const auto mask = matcher.mask();
  for (size_t id = 0; id < tokens.size(); ++id) {
    if ((mask[id / 32] >> (id % 32) & 1) != 0) out.push_back(tokens[id].ends ? "<end>" : tokens[id].text);
  }
  return out;
}

TEST(Matcher, FollowsATextToItsEnd) {
  const Tokens tokens = small_vocabulary({"yes", "ye", "es", "no!", "y\n"});
  const auto grammar = compile(gbnf("root ::= \"yes\" | \"no\" \"!\"?"), std::make_shared<TokenTable>(tokens));
  EXPECT_EQ(vocabulary_size(*grammar), tokens.size());
  Matcher matcher(grammar);
  EXPECT_EQ(texts_of(matcher, tokens), (std::vector<std::string>{"n", "y", "yes", "ye", "no!"}));
  EXPECT_EQ(matcher.forced(), -1);
  EXPECT_FALSE(matcher.is_complete());
  matcher.accept(257);
  EXPECT_EQ(matcher.forced(), 's');
  matcher.accept('s');
  EXPECT_TRUE(matcher.is_complete());
  EXPECT_TRUE(matcher.is_over());
  EXPECT_EQ(texts_of(matcher, tokens), (std::vector<std::string>{"<end>", "<end>"}));
  EXPECT_EQ(matcher.forced(), -1);
  matcher = Matcher(grammar);
  EXPECT_FALSE(matcher.is_complete());
  matcher.accept('n');
  matcher.accept('o');
  EXPECT_TRUE(matcher.is_complete());
  EXPECT_FALSE(matcher.is_over());
  EXPECT_EQ(texts_of(matcher, tokens), (std::vector<std::string>{"!", "<end>", "<end>"}));
  matcher.accept(static_cast<int32_t>(tokens.size()) - 1);
  EXPECT_TRUE(matcher.is_over());
  EXPECT_TRUE(texts_of(matcher, tokens).empty());
}

TEST(Matcher, RefusesATokenThatIsNotAllowed) {
  Matcher matcher(compile(gbnf("root ::= \"a\""), std::make_shared<TokenTable>(small_vocabulary({}))));
  EXPECT_THROW(matcher.accept('b'), Error);
  EXPECT_THROW(matcher.accept(258), Error);  // an end
  EXPECT_THROW(matcher.accept(-1), Error);
  EXPECT_THROW(matcher.accept(1000), Error);
  matcher.accept('a');
  EXPECT_TRUE(matcher.is_over());
}

// A literal that is a control token's text is matched by that token, and by its bytes.
TEST(Matcher, NamesAControlToken) {
  const Tokens tokens = small_vocabulary({});
  const auto grammar = compile(gbnf("root ::= \"<call>\" \"x\""), std::make_shared<TokenTable>(tokens));
  Matcher matcher(grammar);
  const int32_t control = 256;
  const auto mask = matcher.mask();
  EXPECT_TRUE(mask[control / 32] >> (control % 32) & 1);
  EXPECT_TRUE(mask['<' / 32] >> ('<' % 32) & 1);
  matcher.accept(control);
  EXPECT_EQ(matcher.forced(), 'x');
  matcher = Matcher(grammar);
  matcher.accept('<');
  EXPECT_EQ(matcher.forced(), 'c');
}

// A token that goes on in a called rule, or behind it: only the second leads to its end.
TEST(Matcher, LeavesARuleWithinAToken) {
  const Tokens tokens = small_vocabulary({"xab!", "xab", "ab!", "b!", "!"});
  Matcher matcher(
      compile(gbnf("root ::= word \"ab!\"\nword ::= [a-z] word | [a-z]"), std::make_shared<TokenTable>(tokens)));
  const auto longer = [&] {
    auto texts = texts_of(matcher, tokens);
    std::erase_if(texts, [](const std::string& text) { return text.size() < 2 && text != "!"; });
    return texts;
  };
  EXPECT_EQ(longer(), (std::vector<std::string>{"xab!", "xab"}));
  matcher.accept('x');
  EXPECT_EQ(longer(), (std::vector<std::string>{"xab!", "xab", "ab!"}));
  matcher.accept('a');
  EXPECT_EQ(longer(), (std::vector<std::string>{"xab!", "xab", "ab!", "b!"}));
  matcher.accept('b');
  EXPECT_EQ(longer(), (std::vector<std::string>{"!", "xab!", "xab", "ab!", "!"}));
}

TEST(Matcher, CountsALongRepetition) {
  const Tokens tokens = small_vocabulary({"aaaa"});
  Matcher matcher(compile(gbnf("root ::= \"a\"{1000,100000} \"b\""), std::make_shared<TokenTable>(tokens)));
  for (int i = 0; i < 999; ++i) matcher.accept('a');
  EXPECT_EQ(texts_of(matcher, tokens), (std::vector<std::string>{"a", "aaaa"}));
  matcher.accept('a');
  EXPECT_EQ(texts_of(matcher, tokens), (std::vector<std::string>{"a", "b", "aaaa"}));
  for (int i = 0; i < 24749; ++i) matcher.accept(256);
  EXPECT_EQ(texts_of(matcher, tokens), (std::vector<std::string>{"a", "b", "aaaa"}));
  matcher.accept('a');
  EXPECT_EQ(texts_of(matcher, tokens), (std::vector<std::string>{"a", "b"}));
  for (int i = 0; i < 3; ++i) matcher.accept('a');
  EXPECT_EQ(matcher.forced(), 'b');
}

TEST(Matcher, ThreadsShareAGrammar) {
  const Tokens tokens = small_vocabulary({"[[", "]]", "1,", ",2", "],["});
  const auto grammar = compile(gbnf("root ::= \"[\" (item (\",\" item)*)? \"]\"\nitem ::= root | [0-9]+"),
                               std::make_shared<TokenTable>(tokens));
  const auto run = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    Matcher matcher(grammar);
    uint64_t hash = 0;
    for (int i = 0; i < 300 && !matcher.is_over(); ++i) {
      const auto mask = matcher.mask();
      std::vector<int32_t> allowed;
      for (size_t id = 0; id < tokens.size(); ++id) {
        if ((mask[id / 32] >> (id % 32) & 1) != 0 && !tokens[id].ends) allowed.push_back(static_cast<int32_t>(id));
      }
      const int32_t token = allowed[random() % allowed.size()];
      hash = hash * 31 + static_cast<uint64_t>(token);
      matcher.accept(token);
    }
    return hash;
  };
  std::vector<uint64_t> alone, together(4);
  for (uint64_t seed = 0; seed < 4; ++seed) alone.push_back(run(seed));
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) threads.emplace_back([&, seed] { together[seed] = run(seed); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(alone, together);
}

// States that texts are read in: without the one that ends all, and the one behind the last.
size_t states_of(const std::string& grammar) {
  return compile_automaton(parse_gbnf(grammar, "test"), *byte_tokens()).states.size() - 2;
}

TEST(Compile, AlternativesThatBeginAlikeShareWhatTheyBeginWith) {
  EXPECT_EQ(states_of("root ::= \"abc\" | \"abd\" | \"ab\" | \"abc\""), 4U) << "start, a, ab, end";
  // In a loop each is led to from the start and from the ends before.
  EXPECT_EQ(states_of("root ::= (\"abc\" | \"abd\" | \"aber\")*"), 5U) << "start, between, a, ab, abe";
  EXPECT_EQ(states_of("root ::= \"x\" root \"a\" | \"x\" root \"b\" | \"xy\""), 4U) << "start, x, x root, end";
  // The end of one goes on as the other.
  EXPECT_EQ(states_of("root ::= \"(\" (\"a\" | \"ab\") \")\""), 5U);
  // What differs in a way in stays apart.
  EXPECT_EQ(states_of("root ::= \"ab\" | [a-c] \"x\""), 4U);
}

TEST(Compile, NamesTheRuleThatBeginsWithItself) {
  EXPECT_THAT(error_of("root ::= list\nlist ::= list \",\" \"a\" | \"a\""),
              testing::HasSubstr("the rule 'list' begins with itself"));
  EXPECT_THAT(error_of("root ::= a\na ::= \"x\"? b\nb ::= c | \"y\"\nc ::= a \"z\""),
              testing::HasSubstr("begins with itself"));
  EXPECT_THAT(error_of("root ::= \"x\" root"), testing::HasSubstr("no text ever matches the rule 'root'"));
  EXPECT_EQ(error_of("root ::= \"x\" root | \"y\" dead | \"\"\ndead ::= \"z\" dead"), "");
}

}  // namespace
}  // namespace minfer::engine::grammar
