// Methods of dicts, lists, tuples, loops and cyclers, and the lookup by type. What would change a list or dict is
// withheld, as jinja2's immutable sandbox does.
#include "chat/jinja/methods.hpp"

#include <algorithm>

#include "chat/jinja/arguments.hpp"

namespace minfer::chat::jinja {
namespace {

using In = Interpreter;
using Args = Arguments;

Value dict_view(const Value& self, const Args& args, ViewKind kind) {
  expect_none(args);
  return make_object<ViewObject>(self, kind);
}
Value dict_keys(In&, const Value& self, const Args& args) {
  return dict_view(self, args, ViewKind::keys);
}
Value dict_values(In&, const Value& self, const Args& args) {
  return dict_view(self, args, ViewKind::values);
}
Value dict_items(In&, const Value& self, const Args& args) {
  return dict_view(self, args, ViewKind::items);
}

Value dict_get(In&, const Value& self, const Args& arguments) {
  if (!arguments.keyword.empty()) raise("takes no keyword arguments");
  const auto args = bind(arguments, 1, "key", "default");
  if (!hashable(args[0])) raise("unhashable type: '{}'", type_name(args[0]));
  const Value* found = self.as_dict().find(args[0]);
  return found != nullptr ? *found : args.get(1, Value());
}

// Dicts and lists can't change, so a copy is the same value.
Value copy(In&, const Value& self, const Args& args) {
  expect_none(args);
  return self;
}

Value list_count(In& in, const Value& self, const Args& arguments) {
  const auto args = bind(arguments, 1, "value");
  const std::vector<Value> items = in.collect(self);
  return Value::integer(
      std::count_if(items.begin(), items.end(), [&](const Value& item) { return equal(item, args[0]); }));
}

Value list_index(In& in, const Value& self, const Args& arguments) {
  const auto args = bind(arguments, 1, "value", "start", "stop");
  const std::vector<Value> items = in.collect(self);
  const auto size = static_cast<int64_t>(items.size());
  const auto clip = [&](int64_t bound) { return std::clamp<int64_t>(bound < 0 ? bound + size : bound, 0, size); };
  const int64_t stop = clip(args.integer(2, size));
  for (int64_t index = clip(args.integer(1, 0)); index < stop; ++index) {
    in.step();
    if (equal(items[static_cast<size_t>(index)], args[0])) return Value::integer(index);
  }
  raise("the value is not in the {}", type_name(self));
}

Value loop_cycle(In&, const Value& self, const Args& args) {
  if (args.positional.empty()) raise("no items for cycling given");
  return args.positional[static_cast<size_t>(as<LoopObject>(self).index0) % args.positional.size()];
}

Value loop_changed(In& in, const Value& self, const Args& args) {
  auto& last = as<LoopObject>(self).last_changed;
  in.step(args.positional.size());
  const bool same =
      last && std::equal(last->begin(), last->end(), args.positional.begin(), args.positional.end(), equal);
  if (!same) last = args.positional;
  return Value::boolean(!same);
}

Value cycler_next(In&, const Value& self, const Args& args) {
  expect_none(args);
  auto& cycler = as<CyclerObject>(self);
  const Value item = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return item;
}

Value cycler_reset(In&, const Value& self, const Args& args) {
  expect_none(args);
  as<CyclerObject>(self).position = 0;
  return Value();
}

constexpr MethodEntry kDictMethods[] = {
    {"copy", copy}, {"get", dict_get}, {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values}};
constexpr MethodEntry kListMethods[] = {{"copy", copy}, {"count", list_count}, {"index", list_index}};
constexpr MethodEntry kTupleMethods[] = {{"count", list_count}, {"index", list_index}};
constexpr MethodEntry kLoopMethods[] = {{"changed", loop_changed}, {"cycle", loop_cycle}};
constexpr MethodEntry kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};

constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListMutators[] = {"append", "clear",  "extend",  "insert",
                                              "pop",    "remove", "reverse", "sort"};

const MethodEntry* find_method_entry(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Kind::string:
      return find_string_method(name);
    case Kind::dict:
      return find_entry(kDictMethods, name);
    case Kind::list:
      return find_entry(kListMethods, name);
    case Kind::tuple:
      return find_entry(kTupleMethods, name);
    default:
      break;
  }
  if (is_object(self, ObjectType::range)) return find_entry(kTupleMethods, name);
  if (is_object(self, ObjectType::loop)) return find_entry(kLoopMethods, name);
  if (is_object(self, ObjectType::cycler)) return find_entry(kCyclerMethods, name);
  return nullptr;
}

}  // namespace

MethodFunction find_method(const Value& self, std::string_view name) {
  const MethodEntry* entry = find_method_entry(self, name);
  return entry == nullptr ? nullptr : entry->function;
}

bool is_mutator(const Value& self, std::string_view name) {
  const auto listed = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  return self.is(Kind::dict) ? listed(kDictMutators) : self.is(Kind::list) && listed(kListMutators);
}

}  // namespace minfer::chat::jinja
