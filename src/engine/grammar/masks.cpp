// Walks over the vocabulary. See masks.hpp.
#include "engine/grammar/masks.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace minfer::engine::grammar {
namespace {

void set_bit(std::span<uint32_t> mask, int32_t token) {
  mask[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token % 32);
}

void clear_bit(std::span<uint32_t> mask, int32_t token) {
  mask[static_cast<size_t>(token) / 32] &= ~(uint32_t{1} << (token % 32));
}

}  // namespace

Masks::Masks(const Automaton& automaton, const TokenTable& tokens)
    : automaton_(automaton), tokens_(tokens), explorer_(automaton), path_(tokens.longest_text() + 1, kDead) {}

void Masks::drop_locals() {
  explorer_.clear();
  locals_.clear();
  parts_.clear();
  local_bytes_ = 0;
}

void Masks::find(Explorer& places, FrontierId f, std::span<uint32_t> mask) {
  explorer_.reset_work(places.work_left());
  // Whatever comes of it. What both do is added up at the end: it may be twice what was left.
  struct Count {
    ~Count() {
      const size_t used = most - own.work_left();
      places.reset_work(places.work_left() - std::min(used, places.work_left()));
    }
    const Explorer& own;
    Explorer& places;
    size_t most;
  } const count{explorer_, places, places.work_left()};
  find_checked(places, f, mask);
}

void Masks::find_checked(Explorer& places, FrontierId f, std::span<uint32_t> mask) {
  if (local_bytes_ > kMaxLocalBytes) drop_locals();
  try {
    return find_once(places, f, mask);
  } catch (const ExplorerFull& full) {
    if (full.explorer != &explorer_) throw;
  }
  drop_locals();
  try {
    find_once(places, f, mask);
  } catch (const ExplorerFull& full) {
    if (full.explorer != &explorer_) throw;
    fail(
        ErrorCode::invalid_input,
        "grammar: it is too ambiguous: to find the next tokens takes more than {} bytes; make fewer alternatives match "
        "the same text",
        kMaxExplorerBytes);
  }
}

void Masks::find_once(Explorer& places, FrontierId f, std::span<uint32_t> mask) {
  std::fill(mask.begin(), mask.end(), 0U);
  for (const Part& part : parts(places, f)) {
    const Local& found = local(part.local);
    if (found.bits.empty()) {
      for (const int32_t token : found.tokens) set_bit(mask, token);
    } else {
      for (size_t i = 0; i < mask.size(); ++i) mask[i] |= found.bits[i];
    }
    if (part.below != kBottom && !found.exits.empty()) {
      add_exits(found, places, places.resume(part.below, part.callee), mask);
    }
  }
  for (size_t i = 0; i < automaton_.control_tokens.size(); ++i) {
    if (places.step(f, static_cast<Symbol>(kFirstControlSymbol + i)) != kDead) {
      set_bit(mask, automaton_.control_tokens[i]);
    }
  }
  if (!places.may_end(f)) return;
  for (size_t i = 0; i < mask.size(); ++i) mask[i] |= tokens_.end_mask()[i];
}

void Masks::add_exits(const Local& local, Explorer& places, FrontierId below, std::span<uint32_t> mask) {
  ranges_.clear();
  for (size_t c = 0; c < automaton_.classes(); ++c) {
    if (local.first_exit[c] == local.first_exit[c + 1]) continue;
    if (places.step_class(below, static_cast<uint32_t>(c)) == kDead) continue;
    for (uint32_t i = local.first_exit[c]; i < local.first_exit[c + 1]; ++i) {
      const uint32_t node = local.exits[i];
      walk(places, below, node, tokens_.nodes()[node].end, false);
    }
  }
  for (const Range range : ranges_) {
    for (uint32_t i = range.first; i < range.last; ++i) set_bit(mask, tokens_.sorted()[i]);
  }
}

uint32_t Masks::canonical_count(const Callee& callee, uint32_t count) const {
  const auto longest = static_cast<uint32_t>(std::min<size_t>(tokens_.longest_text() + 1, kMaxTokenText));
  if (callee.most == kUnbounded) {
    return count >= callee.least || callee.least - count <= longest ? count : 1;
  }
  if (callee.most - count <= longest) return count;
  if (count >= callee.least) return callee.least;
  return callee.least - count <= longest ? count : 1;
}

// The node as it is seen with nothing below it, for each node that is below; as nodes of explorer_.
std::vector<std::pair<NodeIndex, Masks::Place>> Masks::localize_node(Explorer& places, NodeIndex node,
                                                                     CalleeId callee) {
  const Callee& ended = automaton_.callees[callee];
  if (!ended.is_transparent) return {{kBottom, {node, callee, {}}}};
  struct Group {
    Place place;
    std::vector<Frame> frames;
  };
  std::vector<Group> groups;
  for (const Frame& frame : places.frames(node)) {
    const CalleeId outer = automaton_.states[frame.target].callee;
    for (const auto& [local_below, place] : localize_node(places, frame.below, outer)) {
      auto group =
          std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.place.below == place.below; });
      if (group == groups.end()) group = groups.insert(groups.end(), {place, {}});
      group->frames.push_back({frame.target, canonical_count(ended, frame.count), local_below});
    }
    explorer_.add_work(groups.size());
  }
  std::vector<std::pair<NodeIndex, Place>> out;
  for (Group& group : groups) out.emplace_back(explorer_.node(group.frames, callee), group.place);
  return out;
}

void Masks::localize(Explorer& places, const Config& config, std::vector<Place>& out) {
  for (auto& [local_node, place] : localize_node(places, config.node, automaton_.states[config.state].callee)) {
    place.local = {config.state, local_node};
    out.push_back(place);
  }
}

const std::vector<Masks::Part>& Masks::parts(Explorer& places, FrontierId f) {
  if (const auto found = parts_.find(f); found != parts_.end()) return found->second;
  std::vector<Place> all;
  const auto configs = places.configs(f);
  for (const Config& config : std::vector<Config>(configs.begin(), configs.end())) localize(places, config, all);
  std::stable_sort(all.begin(), all.end(), [](const Place& a, const Place& b) { return a.below < b.below; });
  std::vector<Part> parts;
  std::vector<Config> group;
  for (size_t i = 0; i < all.size();) {
    const size_t first = i;
    group.clear();
    for (; i < all.size() && all[i].below == all[first].below; ++i) group.push_back(all[i].local);
    std::sort(group.begin(), group.end());
    parts.push_back({explorer_.intern(group), all[first].below, all[first].callee});
  }
  return parts_.emplace(f, std::move(parts)).first->second;
}

const Masks::Local& Masks::local(FrontierId f) {
  if (const auto found = locals_.find(f); found != locals_.end()) return found->second;
  Local made = make_local(f);
  local_bytes_ += sizeof(Local) + made.bits.size() * sizeof(uint32_t) + made.tokens.size() * sizeof(int32_t) +
                  (made.first_exit.size() + made.exits.size()) * sizeof(uint32_t);
  return locals_.emplace(f, std::move(made)).first->second;
}

Masks::Local Masks::make_local(FrontierId f) {
  ranges_.clear();
  exits_.clear();
  path_[0] = f;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint32_t child = tokens_.root_child(static_cast<uint8_t>(byte));
    if (child == 0 || explorer_.step(f, static_cast<Symbol>(byte)) == kDead) continue;
    walk(explorer_, f, child, tokens_.nodes()[child].end, true);
  }
  Local out;
  size_t count = 0;
  for (const Range range : ranges_) count += range.last - range.first;
  const auto sorted = tokens_.sorted();
  if (count <= tokens_.mask_words()) {
    out.tokens.reserve(count);
    for (const Range range : ranges_) {
      out.tokens.insert(out.tokens.end(), sorted.begin() + range.first, sorted.begin() + range.last);
    }
  } else if (count < sorted.size() / 2) {
    out.bits.assign(tokens_.mask_words(), 0);
    for (const Range range : ranges_) {
      for (uint32_t i = range.first; i < range.last; ++i) set_bit(out.bits, sorted[i]);
    }
  } else {
    out.bits.assign(tokens_.text_mask().begin(), tokens_.text_mask().end());
    ranges_.push_back({static_cast<uint32_t>(sorted.size()), 0});
    uint32_t next = 0;
    for (const Range range : ranges_) {
      for (; next < range.first; ++next) clear_bit(out.bits, sorted[next]);
      next = range.last;
    }
  }
  if (exits_.empty()) return out;
  std::stable_sort(exits_.begin(), exits_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  out.first_exit.assign(automaton_.classes() + 1, 0);
  for (const auto& [symbol_class, node] : exits_) ++out.first_exit[symbol_class + 1U];
  for (size_t c = 0; c < automaton_.classes(); ++c) out.first_exit[c + 1] += out.first_exit[c];
  for (const auto& [symbol_class, node] : exits_) out.exits.push_back(node);
  return out;
}

void Masks::add_range(uint32_t first, uint32_t last) {
  if (first == last) return;
  if (!ranges_.empty() && ranges_.back().last == first) {
    ranges_.back().last = last;
  } else {
    ranges_.push_back({first, last});
  }
}

// The trie nodes first to end, all below one whose frontier is `from`: tokens that may come go to ranges_.
void Masks::walk(Explorer& explorer, FrontierId from, uint32_t first, uint32_t end, bool keep_exits) {
  const auto nodes = tokens_.nodes();
  path_[nodes[first].depth - 1U] = from;
  size_t visited = 0;
  for (uint32_t i = first; i < end; ++visited) {
    const TokenTable::Node& node = nodes[i];
    const FrontierId before = path_[node.depth - 1U];
    const uint16_t symbol_class = automaton_.class_of[node.byte];
    const FrontierId now = explorer.step_class(before, symbol_class);
    const bool takes_all =
        now != kDead && (node.groups & ~explorer.loop(now)) == 0 && node.height <= explorer.loop_room(now);
    if (takes_all) {
      add_range(node.first_token, nodes[node.end].first_token);
      i = node.end;
      continue;
    }
    if (keep_exits && explorer.may_end(before)) exits_.emplace_back(symbol_class, i);
    if (now == kDead) {
      i = node.end;
      continue;
    }
    add_range(node.first_token, nodes[i + 1].first_token);
    path_[node.depth] = now;
    ++i;
  }
  explorer.add_work(visited / 8);
}

}  // namespace minfer::engine::grammar
