// From an Ast to the automaton: each rule and counted repetition that the root needs becomes a callee; then callees are
// put in order, tail calls and loops are found, and symbols are classed. See automaton.hpp.
#include "engine/grammar/automaton.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "engine/grammar/fragment.hpp"

namespace minfer::engine::grammar {
namespace {

constexpr uint32_t kShortBody = 16;  // bytes of a repetition's body that is transparent

class Compiler {
 public:
  Compiler(const Ast& ast, const TokenTable& tokens)
      : ast_(ast), tokens_(tokens), facts_(find_facts(ast)), fragment_(budget_) {}

  // The callees, with all their edges, in the order in which they were met.
  Automaton compile();
  // The rule in which a callee stands.
  const std::string& name(CalleeId callee) const { return ast_.rules[sources_[callee].rule].name; }

 private:
  struct Source {
    RuleId rule;
    NodeId body;
  };
  struct Task {
    NodeId node;
    uint32_t from;
    uint32_t to;
  };

  CalleeId callee_of_rule(RuleId rule);
  CalleeId callee_of_repeat(NodeId node);
  void lower(CalleeId callee);
  void lower_node(const Task& task);
  void lower_literal(const Task& task);
  void lower_sequence(const Task& task);
  void lower_repeat(const Task& task);
  // `count` copies one after another; returns the last state.
  uint32_t lower_copies(NodeId child, uint32_t from, uint32_t count);

  const Ast& ast_;
  const TokenTable& tokens_;
  Facts facts_;
  CompileBudget budget_;
  Fragment fragment_;
  Automaton out_;
  std::vector<Source> sources_;  // by callee
  std::unordered_map<RuleId, CalleeId> of_rule_;
  std::unordered_map<NodeId, CalleeId> of_repeat_;
  std::vector<Task> tasks_;
  RuleId rule_ = 0;  // being lowered
};

CalleeId Compiler::callee_of_rule(RuleId rule) {
  const auto [entry, is_new] = of_rule_.try_emplace(rule, static_cast<CalleeId>(sources_.size()));
  if (is_new) {
    sources_.push_back({rule, *ast_.rules[rule].node});
    out_.callees.emplace_back();
  }
  return entry->second;
}

CalleeId Compiler::callee_of_repeat(NodeId node) {
  const auto [entry, is_new] = of_repeat_.try_emplace(node, static_cast<CalleeId>(sources_.size()));
  if (is_new) {
    const Node& repeat = ast_.nodes[node];
    const NodeId body = repeat.children[0];
    Callee callee;
    // An empty body is left out (Automaton): then fewer repetitions do.
    callee.least = facts_.nullable[body] != 0 ? 1 : std::max<uint32_t>(repeat.least, 1);
    callee.most = repeat.most.value_or(kUnbounded);
    callee.counts = true;
    callee.is_transparent = facts_.length[body] <= kShortBody;
    sources_.push_back({rule_, body});
    out_.callees.push_back(callee);
  }
  return entry->second;
}

void Compiler::lower_literal(const Task& task) {
  const std::string& text = ast_.nodes[task.node].text;
  if (text.empty()) return fragment_.add_empty(task.from, task.to);
  uint32_t from = task.from;
  for (size_t i = 0; i < text.size(); ++i) {
    const uint32_t to = i + 1 == text.size() ? task.to : fragment_.add_state();
    const auto byte = static_cast<uint8_t>(text[i]);
    fragment_.add_symbols(from, to, byte, byte);
    from = to;
  }
  const int32_t control = tokens_.find_control(text);
  if (control < 0) return;
  auto& known = out_.control_tokens;
  auto found = std::find(known.begin(), known.end(), control);
  if (found == known.end()) {
    if (known.size() == kMaxControlSymbols) {
      fail(ErrorCode::invalid_input, "grammar: more than {} literals are the text of control tokens",
           kMaxControlSymbols);
    }
    found = known.insert(known.end(), control);
  }
  const auto symbol = static_cast<Symbol>(kFirstControlSymbol + (found - known.begin()));
  fragment_.add_symbols(task.from, task.to, symbol, symbol);
}

void Compiler::lower_sequence(const Task& task) {
  const std::vector<NodeId>& children = ast_.nodes[task.node].children;
  if (children.empty()) return fragment_.add_empty(task.from, task.to);
  uint32_t from = task.from;
  for (size_t i = 0; i < children.size(); ++i) {
    const uint32_t to = i + 1 == children.size() ? task.to : fragment_.add_state();
    tasks_.push_back({children[i], from, to});
    from = to;
  }
}

uint32_t Compiler::lower_copies(NodeId child, uint32_t from, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t to = fragment_.add_state();
    tasks_.push_back({child, from, to});
    from = to;
  }
  return from;
}

void Compiler::lower_repeat(const Task& task) {
  const Node& node = ast_.nodes[task.node];
  const NodeId child = node.children[0];
  if (node.most == 0U || facts_.productive[child] == 0) return fragment_.add_empty(task.from, task.to);
  const uint32_t size = facts_.size[child];
  if (!node.most && is_unrolled(size, std::max<uint32_t>(node.least, 1))) {
    const uint32_t loop = fragment_.add_state();
    fragment_.add_empty(lower_copies(child, task.from, node.least), loop);
    tasks_.push_back({child, loop, loop});
    return fragment_.add_empty(loop, task.to);
  }
  if (node.most && is_unrolled(size, *node.most)) {
    uint32_t from = lower_copies(child, task.from, node.least);
    for (uint32_t i = node.least; i < *node.most; ++i) {
      fragment_.add_empty(from, task.to);
      from = lower_copies(child, from, 1);
    }
    return fragment_.add_empty(from, task.to);
  }
  if (node.least == 0 || facts_.nullable[child] != 0) fragment_.add_empty(task.from, task.to);
  fragment_.add_call(task.from, task.to, callee_of_repeat(task.node));
}

void Compiler::lower_node(const Task& task) {
  if (facts_.productive[task.node] == 0) return;
  const Node& node = ast_.nodes[task.node];
  switch (node.kind) {
    case NodeKind::literal:
      return lower_literal(task);
    case NodeKind::code_class:
      return fragment_.add_class(task.from, task.to, node.ranges);
    case NodeKind::sequence:
      return lower_sequence(task);
    case NodeKind::alternatives:
      for (const NodeId child : node.children) tasks_.push_back({child, task.from, task.to});
      return;
    case NodeKind::repeat:
      return lower_repeat(task);
    case NodeKind::reference: {
      const NodeId body = *ast_.rules[node.rule].node;
      if (facts_.inlined[node.rule] != 0) return tasks_.push_back({body, task.from, task.to});
      if (facts_.nullable[body] != 0) fragment_.add_empty(task.from, task.to);
      return fragment_.add_call(task.from, task.to, callee_of_rule(node.rule));
    }
  }
}

void Compiler::lower(CalleeId callee) {
  fragment_.clear();
  rule_ = sources_[callee].rule;
  tasks_.assign(1, {sources_[callee].body, Fragment::kStart, Fragment::kEnd});
  while (!tasks_.empty()) {
    const Task task = tasks_.back();
    tasks_.pop_back();
    budget_.add_steps(1);
    lower_node(task);
  }
  out_.callees[callee].start = static_cast<StateId>(out_.states.size());
  fragment_.append_to(out_, callee);
}

Automaton Compiler::compile() {
  const NodeId root = *ast_.rules[ast_.root].node;
  if (facts_.productive[root] == 0) {
    fail(ErrorCode::invalid_input,
         "grammar: no text ever matches the rule '{}': each of its alternatives needs a rule that never ends",
         ast_.rules[ast_.root].name);
  }
  out_.matches_empty = facts_.nullable[root] != 0;
  out_.states.emplace_back();  // kEndState, of a callee of its own that is never called
  sources_.push_back({ast_.root, root});
  out_.callees.emplace_back();
  out_.root = callee_of_rule(ast_.root);
  for (CalleeId callee = 1; callee < sources_.size(); ++callee) lower(callee);
  out_.states.emplace_back();
  out_.states.back().first_edge = static_cast<uint32_t>(out_.edges.size());
  out_.states.back().first_call = static_cast<uint32_t>(out_.calls.size());
  return std::move(out_);
}

// Numbers callees so that those that one begins with come after it.
void order_callees(Automaton& automaton, const Compiler& compiler) {
  const size_t count = automaton.callees.size();
  std::vector<uint32_t> missing(count, 0);  // callers that begin with it and have no place yet
  const auto begins_with = [&](CalleeId c) { return automaton.calls_of(automaton.callees[c].start); };
  for (CalleeId c = 1; c < count; ++c) {
    for (const CallEdge& call : begins_with(c)) ++missing[call.callee];
  }
  std::vector<CalleeId> order;
  for (CalleeId c = 0; c < count; ++c) {
    if (missing[c] == 0) order.push_back(c);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] == 0) continue;
    for (const CallEdge& call : begins_with(order[i])) {
      if (--missing[call.callee] == 0) order.push_back(call.callee);
    }
  }
  if (order.size() < count) {
    // Behind one that is left, going from caller to callee, only others follow that are left or begin with none; a
    // caller of each one that is left is left too, so that going back from one for as often as there are must circle.
    std::vector<CalleeId> caller(count, 0);
    for (CalleeId c = 1; c < count; ++c) {
      if (missing[c] == 0) continue;
      for (const CallEdge& call : begins_with(c)) caller[call.callee] = c;
    }
    CalleeId in_cycle = 0;
    for (CalleeId c = 1; c < count && in_cycle == 0; ++c) in_cycle = missing[c] > 0 ? c : 0;
    for (size_t i = 0; i < count; ++i) in_cycle = caller[in_cycle];
    fail(ErrorCode::invalid_input,
         "grammar: the rule '{}' begins with itself (left recursion); write a repetition instead, as in a ::= b (\",\" "
         "b)*",
         compiler.name(in_cycle));
  }
  std::vector<CalleeId> number(count);
  std::vector<Callee> callees;
  for (const CalleeId c : order) {
    number[c] = static_cast<CalleeId>(callees.size());
    callees.push_back(automaton.callees[c]);
  }
  automaton.callees = std::move(callees);
  automaton.root = number[automaton.root];
  for (State& state : automaton.states) state.callee = number[state.callee];
  for (CallEdge& call : automaton.calls) call.callee = number[call.callee];
}

}  // namespace

size_t Automaton::bytes() const {
  return states.capacity() * sizeof(State) + edges.capacity() * sizeof(SymbolEdge) +
         calls.capacity() * sizeof(CallEdge) + callees.capacity() * sizeof(Callee);
}

Automaton compile_automaton(const Ast& ast, const TokenTable& tokens) {
  Compiler compiler(ast, tokens);
  Automaton automaton = compiler.compile();
  order_callees(automaton, compiler);
  finish_automaton(automaton);
  return automaton;
}

}  // namespace minfer::engine::grammar
