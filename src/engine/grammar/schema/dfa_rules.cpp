// An automaton as rules of a grammar: a state with one way in is written where it is reached, any other (and one that
// would nest too deep) is a rule of its own. A state's steps to itself are a repetition, so that the common `any text`
// needs no reference.
#include <algorithm>
#include <utility>

#include "engine/grammar/code_ranges.hpp"
#include "engine/grammar/schema/dfa.hpp"

namespace minfer::engine::grammar::schema {
namespace {

constexpr uint32_t kMaxInlineDepth = 32;

class DfaWriter {
 public:
  DfaWriter(AstBuilder& builder, const Dfa& dfa, const WriteClass& write, std::string_view after,
            const std::string& name)
      : builder_(builder),
        dfa_(dfa),
        write_(write),
        after_(after),
        name_(name),
        ways_in_(dfa.states.size()),
        rules_(dfa.states.size()) {
    for (size_t i = 0; i < dfa.states.size(); ++i) {
      std::vector<int32_t> next = dfa.states[i].next;
      std::sort(next.begin(), next.end());
      next.erase(std::unique(next.begin(), next.end()), next.end());
      for (const int32_t to : next) {
        if (to != kNoState && to != static_cast<int32_t>(i)) {
          ++ways_in_[static_cast<size_t>(to)];
        }
      }
    }
    ++ways_in_[0];
  }

  NodeId write() {
    const NodeId start = reach(0, 0);
    while (!todo_.empty()) {
      const size_t state = todo_.back();
      todo_.pop_back();
      builder_.define(*rules_[state], body(state, 0));
    }
    return start;
  }

 private:
  NodeId reach(size_t state, uint32_t depth) {
    if (ways_in_[state] == 1 && depth < kMaxInlineDepth) {
      return body(state, depth + 1);
    }
    if (!rules_[state]) {
      rules_[state] = builder_.declare(name_);
      todo_.push_back(state);
    }
    return builder_.reference(*rules_[state]);
  }

  NodeId body(size_t state, uint32_t depth) {
    std::map<int32_t, std::vector<CodeRange>> steps;  // by state reached
    const Dfa::State& from = dfa_.states[state];
    for (size_t symbol = 0; symbol < from.next.size(); ++symbol) {
      if (from.next[symbol] != kNoState) {
        std::vector<CodeRange>& ranges = steps[from.next[symbol]];
        ranges.insert(ranges.end(), dfa_.symbols[symbol].begin(), dfa_.symbols[symbol].end());
      }
    }
    std::vector<NodeId> ways;
    std::optional<NodeId> loop;
    for (auto& [to, ranges] : steps) {
      const NodeId step = write_(builder_, normalized(std::move(ranges)));
      if (to == static_cast<int32_t>(state)) {
        loop = builder_.repeat(step, 0, std::nullopt);
      } else {
        ways.push_back(builder_.sequence({step, reach(static_cast<size_t>(to), depth)}));
      }
    }
    if (from.accepts) {
      ways.push_back(builder_.literal(after_));
    }
    const NodeId onward = ways.size() == 1 ? ways[0] : builder_.alternatives(std::move(ways));
    return loop ? builder_.sequence({*loop, onward}) : onward;
  }

  AstBuilder& builder_;
  const Dfa& dfa_;
  const WriteClass& write_;
  std::string_view after_;
  const std::string& name_;
  std::vector<uint32_t> ways_in_;
  std::vector<std::optional<RuleId>> rules_;
  std::vector<size_t> todo_;
};

}  // namespace

NodeId add_dfa(AstBuilder& builder, const Dfa& dfa, const WriteClass& write, std::string_view after,
               const std::string& name) {
  return DfaWriter(builder, dfa, write, after, name).write();
}

}  // namespace minfer::engine::grammar::schema
