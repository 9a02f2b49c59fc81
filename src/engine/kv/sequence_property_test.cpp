// Random operations on several sequences of one small cache, against a model that shares nothing: each sequence is a
// list of what its tokens were computed from. After each operation, whatever the next token of any sequence can see is
// in the store and right, references and free pages add up, and what failed has changed nothing. A wrong or shifted
// prefix that was found would show in its history.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "engine/kv/test_fake_store.hpp"

namespace minfer::engine {
namespace {

using testing::Cell;
using testing::computed_cell;
using testing::FakeCache;

constexpr int64_t kPage = graph::kPageTokens;
constexpr int64_t kSequenceTokens = 420;
constexpr size_t kSequences = 4;

// Texts that have beginnings in common: of 64, 130 and 200 tokens.
int32_t text_token(int64_t text, int64_t position) {
  constexpr std::array<int64_t, 4> kShared = {kSequenceTokens, 64, 130, 200};
  const bool shared = position < kShared[static_cast<size_t>(text)];
  return static_cast<int32_t>(shared ? position % 50 : 100 * (text + 1) + position % 7);
}

std::vector<int32_t> text(int64_t which, int64_t from, int64_t count) {
  std::vector<int32_t> ids;
  for (int64_t i = from; i < from + count; ++i) ids.push_back(text_token(which, i));
  return ids;
}

// How often something happened in all cases: a property that never meets it says nothing.
using Counts = std::map<std::string, int64_t>;

struct Op {
  uint32_t kind;
  uint32_t sequence;
  uint32_t a;
  uint32_t b;
};

std::ostream& operator<<(std::ostream& out, const Op& op) {
  return out << "{" << op.kind << ", " << op.sequence << ", " << op.a << ", " << op.b << "}";
}

class World {
 public:
  World(std::vector<FakeCache::Group> groups, Counts& counts)
      : groups_(std::move(groups)), fake_(groups_, kSequenceTokens), counts_(counts) {
    for (size_t i = 0; i < kSequences; ++i) live_.push_back({Sequence(fake_.cache, i != 1), {}, {}, i != 1});
  }

  void apply(const Op& op) {
    Live& live = live_[op.sequence % kSequences];
    const int64_t length = live.sequence.length();
    switch (op.kind % 12) {
      case 0:
      case 1:
        append(live, op.a % 4, 1 + op.b % 150);
        break;
      case 2:
        append(live, op.a % 4, 1 + op.b % 3);
        break;
      case 3:
        fork(live, live_[op.a % kSequences]);
        break;
      case 4:
        truncate(live, length - (op.a % 4 == 0 ? op.b % (length + 1) : op.b % std::min<int64_t>(length + 1, 20)));
        break;
      case 5:
      case 6:
        remove(live, op.a, op.b);
        break;
      case 7:
        clear(live);
        break;
      case 8:
      case 9:
        reuse(live, op.a, 1 + op.b % kSequenceTokens);
        break;
      case 10:
        restore(live, op.a % 4, 1 + op.b % kSequenceTokens);
        break;
      case 11:
        rebuild(live, live_[op.a % kSequences], op.b % 3);
        break;
      default:
        break;
    }
    check_all();
  }

 private:
  struct Live {
    Sequence sequence;
    std::vector<Cell> cells;                              // of each token
    std::array<int64_t, graph::kMaxKvGroups> given_up{};  // positions before it
    bool publish;
  };

  // What must be as before after a refusal.
  struct Snapshot {
    std::vector<std::vector<Cell>> cells;
    std::vector<int64_t> numbers;
    std::vector<int32_t> pages;
    bool operator==(const Snapshot&) const = default;
  };

  Snapshot snapshot() {
    Snapshot shot{fake_.store.cells(), {}, {}};
    for (size_t group = 0; group < groups_.size(); ++group) {
      const PagePool& pool = fake_.cache.pool(group);
      shot.numbers.insert(shot.numbers.end(), {pool.available_pages(), pool.idle_pages(), pool.evictions()});
      for (const Live& live : live_) {
        const auto pages = live.sequence.pages(group);
        shot.pages.insert(shot.pages.end(), pages.begin(), pages.end());
        shot.numbers.insert(shot.numbers.end(),
                            {live.sequence.length(), live.sequence.first_token(group), int64_t(pages.size())});
      }
    }
    return shot;
  }

  // Runs `action`, which returns false or throws `unsupported` where it can't: then nothing may have changed.
  template <class Action>
  bool attempt(const char* name, bool supported, Action&& action) {
    const Snapshot before = snapshot();
    bool done = false, refused = false;
    try {
      done = action();
    } catch (const Error& error) {
      RC_ASSERT(error.code() == ErrorCode::unsupported);
      refused = true;
    }
    RC_ASSERT(refused == !supported);
    if (!done) RC_ASSERT(snapshot() == before);
    ++counts_[std::string(name) + (done ? " done" : refused ? " refused" : " without pages")];
    return done;
  }

  int64_t first_visible(size_t group, int64_t position) const {
    const int64_t window = groups_[group].window;
    return window == 0 ? 0 : std::max<int64_t>(0, position - window + 1);
  }

  bool sees_what_it_has(const std::array<int64_t, graph::kMaxKvGroups>& given_up, int64_t length) const {
    for (size_t group = 0; group < groups_.size(); ++group) {
      if (first_visible(group, length) < given_up[group]) return false;
    }
    return true;
  }

  // How many tables name each page of a group.
  std::vector<int32_t> holders(size_t group) const {
    std::vector<int32_t> held(static_cast<size_t>(groups_[group].pages), 0);
    for (const Live& live : live_) {
      const auto pages = live.sequence.pages(group);
      const int64_t first = live.sequence.first_token(group) / kPage;
      for (size_t entry = static_cast<size_t>(first); entry < pages.size(); ++entry) {
        ++held.at(static_cast<size_t>(pages[entry]));
      }
    }
    return held;
  }

  // Whether the pages suffice to add `count` tokens, after giving up what is out of the window.
  bool can_reserve(const Live& live, int64_t count) const {
    const int64_t length = live.sequence.length();
    for (size_t group = 0; group < groups_.size(); ++group) {
      const std::vector<int32_t> held = holders(group);
      const auto pages = live.sequence.pages(group);
      int64_t available = std::count(held.begin(), held.end(), 0);
      int64_t needed = std::max<int64_t>(0, page_count(length + count) - static_cast<int64_t>(pages.size()));
      for (int64_t entry = live.sequence.first_token(group) / kPage; entry < page_count(length); ++entry) {
        const int32_t holding = held[static_cast<size_t>(pages[static_cast<size_t>(entry)])];
        if (entry < first_visible(group, length) / kPage) {
          available += holding == 1;
        } else if (entry == length / kPage) {
          needed += holding > 1;
        }
      }
      if (needed > available) return false;
    }
    return true;
  }

  bool reserve(Live& live, int64_t count) {
    const bool expected = can_reserve(live, count);
    const bool done = attempt("reserve", true, [&] { return live.sequence.reserve(count); });
    RC_ASSERT(done == expected);
    for (size_t group = 0; done && group < groups_.size(); ++group) {
      int64_t& given_up = live.given_up[group];
      given_up = std::max(given_up, first_visible(group, live.sequence.length()) / kPage * kPage);
    }
    return done;
  }

  void append(Live& live, int64_t which, int64_t count) {
    const int64_t length = live.sequence.length();
    count = std::min(count, kSequenceTokens - length);
    if (count == 0 || !reserve(live, count)) return;
    const std::vector<int32_t> ids = text(which, length, count);
    fake_.store.write(live.sequence.step(0, count), ids);
    live.sequence.commit(ids);
    for (const int32_t id : ids) {
      const Cell before = live.cells.empty() ? Cell{} : live.cells.back();
      live.cells.push_back(computed_cell(before, static_cast<int64_t>(live.cells.size()), id));
    }
  }

  void fork(Live& from, Live& to) {
    if (&from == &to) return;
    to.sequence = from.sequence.fork();
    to.cells = from.cells;
    to.given_up = from.given_up;
    to.publish = from.publish;
  }

  void truncate(Live& live, int64_t kept) {
    const bool supported = kept == 0 || sees_what_it_has(live.given_up, kept);
    const bool done = attempt("truncate", supported, [&] {
      live.sequence.truncate(kept);
      return true;
    });
    if (!done) return;
    live.cells.resize(static_cast<size_t>(kept));
    if (kept == 0) live.given_up = {};
  }

  void remove(Live& live, uint32_t a, uint32_t b) {
    const int64_t length = live.sequence.length();
    if (length == 0) return;
    // Often whole pages from a page's start, else anything.
    const int64_t unit = a % 3 == 0 ? kPage : 1;
    const int64_t first = (a / 3) % length / unit * unit;
    const int64_t most = length - first;
    const int64_t count = std::min(most, std::max<int64_t>(1, (1 + b % most) / unit * unit));
    auto given_up = live.given_up;
    for (size_t group = 0; group < groups_.size() && count < most; ++group) {
      if (given_up[group] > first) given_up[group] = std::max(first, given_up[group] - count);
    }
    const bool supported = first == 0 && count == most ? true : sees_what_it_has(given_up, length - count);
    if (count < most) RC_ASSERT(supported == (count <= live.sequence.most_removable(first)));
    if (!attempt("remove", supported, [&] { return live.sequence.remove(first, count); })) return;
    live.given_up = length == count ? decltype(given_up){} : given_up;
    live.cells.erase(live.cells.begin() + first, live.cells.begin() + first + count);
    for (size_t i = static_cast<size_t>(first); i < live.cells.size(); ++i) live.cells[i].position -= count;
  }

  void clear(Live& live) {
    live.sequence.clear();
    live.cells.clear();
    live.given_up = {};
  }

  // Asks for a text, or for the tokens that a sequence has and a text after them.
  void reuse(Live& live, uint32_t which, int64_t count) {
    if (!live.publish) return;
    std::vector<int32_t> ids = text(which % 4, 0, count);
    if (which / 4 % 2 == 1) {
      const auto tokens = live_[which / 8 % kSequences].sequence.tokens();
      std::copy_n(tokens.begin(), std::min(tokens.size(), ids.size()), ids.begin());
    }
    if (!live.cells.empty()) clear(live);
    const int64_t found = live.sequence.reuse_prefix(ids);
    RC_ASSERT(found % kPage == 0);
    RC_ASSERT(found < count);
    ++counts_[found > 0 ? "reuse hit" : "reuse missed"];
    for (int64_t i = 0; i < found; ++i) {
      const Cell before = i == 0 ? Cell{} : live.cells.back();
      live.cells.push_back(computed_cell(before, i, ids[static_cast<size_t>(i)]));
    }
    for (size_t group = 0; group < groups_.size(); ++group) {
      live.given_up[group] = first_visible(group, found) / kPage * kPage;
    }
  }

  // What a file could hold: contents that no run of this process has made.
  void restore(Live& live, int64_t which, int64_t count) {
    if (!live.cells.empty()) clear(live);
    const std::vector<int32_t> ids = text(which, 0, count);
    std::vector<int64_t> first_tokens;
    for (size_t group = 0; group < groups_.size(); ++group) first_tokens.push_back(first_visible(group, count));
    if (!attempt("restore", true, [&] { return live.sequence.restore(ids, first_tokens); })) return;
    for (int64_t i = 0; i < count; ++i) live.cells.push_back({ids[static_cast<size_t>(i)], i, 0xf11e});
    for (size_t group = 0; group < groups_.size(); ++group) {
      live.given_up[group] = first_tokens[group];
      for (int64_t i = first_tokens[group]; i < count; ++i) {
        const int32_t page = live.sequence.pages(group)[static_cast<size_t>(i / kPage)];
        fake_.store.at(group, page, i % kPage) = live.cells[static_cast<size_t>(i)];
      }
    }
  }

  // A reservation that is never used, a sequence that is destroyed, or one that another takes over.
  void rebuild(Live& live, Live& other, uint32_t how) {
    if (how == 0) {
      reserve(live, std::min<int64_t>(70, kSequenceTokens - live.sequence.length()));
    } else if (how == 1 || &live == &other) {
      live = {Sequence(fake_.cache, how == 1), {}, {}, how == 1};
    } else {
      other = std::move(live);
      live = {Sequence(fake_.cache, true), {}, {}, true};
    }
  }

  void check_all() {
    for (const Live& live : live_) check_contents(live);
    for (size_t group = 0; group < groups_.size(); ++group) {
      const PagePool& pool = fake_.cache.pool(group);
      const std::vector<int32_t> held = holders(group);
      for (size_t page = 0; page < held.size(); ++page) {
        RC_ASSERT(pool.references(static_cast<int32_t>(page)) == held[page]);
      }
      RC_ASSERT(pool.available_pages() == std::count(held.begin(), held.end(), 0));
    }
  }

  void check_contents(const Live& live) {
    const int64_t length = static_cast<int64_t>(live.cells.size());
    RC_ASSERT(live.sequence.length() == length);
    for (int64_t i = 0; i < length; ++i) {
      RC_ASSERT(live.sequence.tokens()[static_cast<size_t>(i)] == live.cells[static_cast<size_t>(i)].token);
    }
    for (size_t group = 0; group < groups_.size(); ++group) {
      RC_ASSERT(live.sequence.first_token(group) == live.given_up[group]);
      const auto pages = live.sequence.step(0, 0).pages[group];
      // All that is held, not just what is seen: a truncation may show it again.
      for (int64_t i = live.given_up[group]; i < length; ++i) {
        const int32_t page = pages[static_cast<size_t>(i / kPage)];
        const bool right = fake_.store.at(group, page, i % kPage) == live.cells[static_cast<size_t>(i)];
        if (!right) RC_FAIL("group " + std::to_string(group) + ", position " + std::to_string(i));
      }
    }
  }

  std::vector<FakeCache::Group> groups_;
  FakeCache fake_;
  Counts& counts_;
  std::vector<Live> live_;
};

// Of the whole range whatever the size of the case.
rc::Gen<uint32_t> below(uint32_t end) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<uint32_t>(0, end));
}

rc::Gen<Op> any_op() {
  return rc::gen::build<Op>(rc::gen::set(&Op::kind, below(12)), rc::gen::set(&Op::sequence, below(kSequences)),
                            rc::gen::set(&Op::a, below(1 << 20)), rc::gen::set(&Op::b, below(1 << 20)));
}

TEST(SequenceProperty, AnyOperationsAreThoseOfSequencesThatShareNothing) {
  const std::vector<std::vector<int64_t>> kinds = {{0}, {0, 100}, {100, 32}, {0, 100, 32}, {64, 0}, {2, 65}};
  Counts counts;
  for (const std::vector<int64_t>& windows : kinds) {
    const bool holds = rc::check("as sequences that share nothing", [&] {
      std::vector<FakeCache::Group> groups;
      for (const int64_t window : windows) groups.push_back({window, 2 + *below(20)});
      const auto ops = *rc::gen::resize(200, rc::gen::container<std::vector<Op>>(any_op()));
      World world(groups, counts);
      for (const Op& op : ops) world.apply(op);
    });
    ASSERT_TRUE(holds);
  }
  for (const char* event :
       {"reserve done", "reserve without pages", "truncate done", "truncate refused", "remove done", "remove refused",
        "remove without pages", "restore done", "restore without pages", "reuse hit", "reuse missed"}) {
    EXPECT_GT(counts[event], 0) << event;
  }
}

}  // namespace
}  // namespace minfer::engine
