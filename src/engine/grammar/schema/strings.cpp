// Strings: a small automaton where there is one, the expression itself where its repetitions are large and nothing else
// is asked, the product with the lengths where there is no other way.
#include "engine/grammar/schema/strings.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "engine/grammar/code_ranges.hpp"

namespace minfer::engine::grammar::schema {
namespace {

constexpr size_t kSmallDfaStates = 64;  // preferred to the expression: no state is ambiguous

// Strips one anchor from the front or back of a chain, and says whether it was there.
std::pair<RegexId, bool> without_start(const RegexPool& pool, RegexId id) {
  if (pool[id].kind == RegexKind::start) {
    return {pool.empty(), true};
  }
  if (pool[id].kind == RegexKind::concat && pool[pool[id].children[0]].kind == RegexKind::start) {
    return {pool[id].children[1], true};
  }
  return {id, false};
}

std::pair<RegexId, bool> without_end(RegexPool& pool, RegexId id) {
  std::vector<RegexId> chain;
  RegexId last = id;
  for (; pool[last].kind == RegexKind::concat; last = pool[last].children[1]) {
    chain.push_back(pool[last].children[0]);
  }
  if (pool[last].kind != RegexKind::end) {
    return {id, false};
  }
  RegexId out = pool.empty();
  for (size_t i = chain.size(); i-- > 0;) {
    out = pool.concat(chain[i], out);
  }
  return {out, true};
}

// The texts in which `pattern` is found, as an expression without anchors; none where they stand inside of it.
std::optional<RegexId> written_out(RegexPool& pool, RegexId pattern) {
  const std::vector<RegexId> branches =
      pool[pattern].kind == RegexKind::either ? pool[pattern].children : std::vector<RegexId>{pattern};
  std::vector<RegexId> out;
  for (const RegexId branch : branches) {
    const auto [tail, starts] = without_start(pool, branch);
    const auto [body, ends] = without_end(pool, tail);
    if (pool[body].anchored) {
      return std::nullopt;
    }
    const RegexId any = pool.any_text();
    out.push_back(pool.concat(starts ? pool.empty() : any, pool.concat(body, ends ? pool.empty() : any)));
  }
  return pool.either(out);
}

// Of an expression without anchors.
Lengths regex_lengths(const RegexPool& pool, RegexId id) {
  const Regex& node = pool[id];
  if (node.kind == RegexKind::chars) {
    return {1, 1};
  }
  Lengths out{node.kind == RegexKind::either ? UINT64_MAX : 0, 0};
  for (const RegexId child : node.children) {
    const Lengths one = regex_lengths(pool, child);
    if (node.kind == RegexKind::either) {
      out.least = std::min(out.least, one.least);
      out.most = out.most && one.most ? std::optional(std::max(*out.most, *one.most)) : std::nullopt;
    } else if (node.kind == RegexKind::repeat) {
      out.least = one.least * node.least;
      const bool bounded = one.most && (node.most || *one.most == 0);
      out.most = bounded ? std::optional(*one.most * node.most.value_or(0)) : std::nullopt;
    } else {
      out.least += one.least;
      out.most = out.most && one.most ? std::optional(*out.most + *one.most) : std::nullopt;
    }
    // No text is that long; and no sum overflows.
    out.least = std::min(out.least, uint64_t{1} << 40);
    out.most = out.most ? std::optional(std::min(*out.most, uint64_t{1} << 40)) : std::nullopt;
  }
  return out;
}

bool says_nothing(const StringLimits& limits, const Lengths& found) {
  return found.least >= limits.least && (!limits.most || (found.most && *found.most <= *limits.most));
}

// One class of characters repeated: its counts and the lengths are one repetition.
std::optional<RegexId> with_counts(RegexPool& pool, RegexId regex, const StringLimits& limits) {
  const Regex node = pool[regex];
  if (node.kind != RegexKind::repeat || pool[node.children[0]].kind != RegexKind::chars) {
    return std::nullopt;
  }
  const uint64_t least = std::max<uint64_t>(node.least, limits.least);
  const uint64_t most =
      std::min<uint64_t>({node.most.value_or(kMaxRepeat), limits.most.value_or(kMaxRepeat), kMaxRepeat});
  if (least > most) {
    return pool.nothing();
  }
  const bool bounded = node.most || limits.most;
  return pool.repeat(node.children[0], static_cast<uint32_t>(least),
                     bounded ? std::optional(static_cast<uint32_t>(most)) : std::nullopt);
}

StringPlan of_dfa(Dfa dfa) {
  StringPlan plan;
  plan.never = dfa.states.empty();
  plan.dfa = std::move(dfa);
  return plan;
}

StringPlan of_regex(RegexPool& pool, RegexId regex) {
  StringPlan plan;
  plan.never = regex == pool.nothing();
  plan.regex = regex;
  return plan;
}

StringPlan plan_patterns(RegexPool& pool, const StringLimits& limits, std::string_view where) {
  std::vector<RegexId> found;
  for (const RegexId pattern : limits.patterns) {
    found.push_back(found_inside(pool, pattern));
  }
  const RegexId all = pool.both(found);
  const bool has_lengths = limits.least > 0 || limits.most.has_value();
  std::optional<Dfa> dfa = make_dfa(pool, all, kSmallDfaStates);
  const std::optional<RegexId> regex =
      limits.patterns.size() == 1 ? written_out(pool, limits.patterns[0]) : std::nullopt;
  if (regex && has_lengths) {
    if (const std::optional<RegexId> counted = with_counts(pool, *regex, limits)) {
      return of_regex(pool, *counted);
    }
  }
  if (!dfa && regex && says_nothing(limits, regex_lengths(pool, *regex))) {
    return of_regex(pool, *regex);
  }
  dfa = dfa ? std::move(dfa) : make_dfa(pool, all);
  if (dfa && (dfa->states.empty() || says_nothing(limits, lengths(*dfa)))) {
    return of_dfa(std::move(*dfa));
  }
  if (has_lengths && limits.least <= kMaxDfaStates && limits.most.value_or(0) <= kMaxDfaStates) {
    const std::optional<uint32_t> most =
        limits.most ? std::optional(static_cast<uint32_t>(*limits.most)) : std::nullopt;
    const RegexId sized = pool.repeat(pool.chars(inverted({})), static_cast<uint32_t>(limits.least), most);
    dfa = make_dfa(pool, pool.both({all, sized}));
    if (dfa) {
      return of_dfa(std::move(*dfa));
    }
  }
  fail(ErrorCode::unsupported,
       "JSON schema: {}: pattern or format{} take more than {} states together; shorten the pattern, or put the "
       "lengths into its "
       "repetitions",
       where, has_lengths ? ", minLength and maxLength" : "s", kMaxDfaStates);
}

// \uXXXX after the backslash: no surrogate but in a pair.
NodeId any_unicode_escape(AstBuilder& builder) {
  const auto hex = [&](uint32_t count) {
    return builder.repeat(builder.code_class({{'0', '9'}, {'a', 'f'}, {'A', 'F'}}), count, count);
  };
  const auto d = [&] { return builder.code_class({{'d', 'd'}, {'D', 'D'}}); };
  const NodeId other =
      builder.sequence({builder.code_class({{'0', '9'}, {'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}}), hex(3)});
  const NodeId below = builder.sequence({d(), builder.code_class({{'0', '7'}}), hex(2)});
  const NodeId pair =
      builder.sequence({d(), builder.code_class({{'8', '9'}, {'a', 'b'}, {'A', 'B'}}), hex(2), builder.literal("\\u"),
                        d(), builder.code_class({{'c', 'f'}, {'C', 'F'}}), hex(2)});
  return builder.sequence({builder.literal("u"), builder.alternatives({other, below, pair})});
}

NodeId any_character(AstBuilder& builder) {
  const NodeId letter = builder.code_class(
      {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
  const NodeId escape = builder.alternatives({letter, any_unicode_escape(builder)});
  return builder.alternatives({builder.code_class({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}, true),
                               builder.sequence({builder.literal("\\"), escape})});
}

NodeId add_regex(AstBuilder& builder, const RegexPool& pool, RegexId id) {
  const Regex& node = pool[id];
  switch (node.kind) {
    case RegexKind::chars:
      return add_string_class(builder, node.ranges);
    case RegexKind::repeat:
      return builder.repeat(add_regex(builder, pool, node.children[0]), node.least, node.most);
    case RegexKind::either: {
      std::vector<NodeId> children;
      for (const RegexId child : node.children) {
        children.push_back(add_regex(builder, pool, child));
      }
      return builder.alternatives(std::move(children));
    }
    default: {
      std::vector<NodeId> children;
      RegexId rest = id;
      for (; pool[rest].kind == RegexKind::concat; rest = pool[rest].children[1]) {
        children.push_back(add_regex(builder, pool, pool[rest].children[0]));
      }
      if (rest != pool.empty()) {
        children.push_back(add_regex(builder, pool, rest));
      }
      return builder.sequence(std::move(children));
    }
  }
}

}  // namespace

RegexId found_inside(RegexPool& pool, RegexId pattern) {
  return pool.concat(pool.any_text(), pool.concat(pattern, pool.any_text()));
}

StringPlan plan_string(RegexPool& pool, const StringLimits& limits, std::string_view where) {
  if (limits.least > kMaxRepeat) {
    fail(ErrorCode::invalid_input, "JSON schema: {}/minLength: {}; the limit is {}", where, limits.least, kMaxRepeat);
  }
  if (limits.most && *limits.most < limits.least) {
    StringPlan plan;
    plan.never = true;
    return plan;
  }
  if (!limits.patterns.empty()) {
    return plan_patterns(pool, limits, where);
  }
  StringPlan plan;
  plan.least = limits.least;
  plan.most = limits.most;
  return plan;
}

NodeId add_string(AstBuilder& builder, const RegexPool& pool, const StringPlan& plan) {
  const NodeId quote = builder.literal("\"");
  if (plan.dfa) {
    return builder.sequence({quote, add_dfa(builder, *plan.dfa, add_string_class, "\"", "pattern")});
  }
  if (plan.regex) {
    return builder.sequence({quote, add_regex(builder, pool, *plan.regex), builder.literal("\"")});
  }
  // No text of a grammar is longer than kMaxRepeat.
  const std::optional<uint32_t> most =
      plan.most ? std::optional(static_cast<uint32_t>(std::min<uint64_t>(*plan.most, kMaxRepeat))) : std::nullopt;
  const NodeId text = builder.repeat(any_character(builder), static_cast<uint32_t>(plan.least), most);
  return builder.sequence({quote, text, builder.literal("\"")});
}

NodeId add_string_class(AstBuilder& builder, const std::vector<CodeRange>& ranges) {
  static constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
  static constexpr std::string_view kLetters = "\"\\bfnrt";
  std::vector<NodeId> ways;
  const std::vector<CodeRange> plain = intersection(ranges, inverted({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
  if (!plain.empty()) {
    ways.push_back(builder.code_class(plain));
  }
  std::vector<CodeRange> letters;
  std::vector<CodeRange> last_digits[2];  // of \u000X and \u001X
  for (uint32_t code = 0; code <= '\\'; ++code) {
    const size_t place = kEscaped.find(static_cast<char>(code));
    if (!contains(ranges, code) || (code >= 0x20 && place == std::string_view::npos)) {
      continue;
    }
    if (place != std::string_view::npos) {
      letters.push_back({static_cast<uint32_t>(kLetters[place]), static_cast<uint32_t>(kLetters[place])});
      continue;
    }
    for (const std::string_view digits : {"0123456789abcdef", "0123456789ABCDEF"}) {
      const auto digit = static_cast<uint32_t>(digits[code % 16]);
      last_digits[code / 16].push_back({digit, digit});
    }
  }
  if (!letters.empty()) {
    ways.push_back(builder.sequence({builder.literal("\\"), builder.code_class(std::move(letters))}));
  }
  for (const size_t high : {0U, 1U}) {
    if (!last_digits[high].empty()) {
      ways.push_back(builder.sequence(
          {builder.literal(high == 0 ? "\\u000" : "\\u001"), builder.code_class(std::move(last_digits[high]))}));
    }
  }
  return ways.size() == 1 ? ways[0] : builder.alternatives(std::move(ways));
}

}  // namespace minfer::engine::grammar::schema
