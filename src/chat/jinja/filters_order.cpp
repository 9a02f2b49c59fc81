// Filters that compare: sort, dictsort, groupby, unique, min, max, sum. Text compares without case unless
// case_sensitive.
#include <algorithm>

#include "chat/jinja/arguments.hpp"
#include "chat/jinja/filters.hpp"
#include "chat/jinja/merge_sort.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

Value ignore_case(Interpreter& in, const Value& value) {
  return value.is_string() ? in.make_string(to_lower(value.as_string())) : value;
}

Value key_of(Interpreter& in, const Value& item, const Value& path, bool case_sensitive,
             const Value* otherwise = nullptr) {
  const Value key = follow_path(in, item, path, otherwise);
  return case_sensitive ? key : ignore_case(in, key);
}

struct Keyed {
  Value key;
  Value item;
};

// Python's stable sort; reverse keeps equal items in their order.
void sort_keyed(Interpreter& in, std::vector<Keyed>& items, bool reverse) {
  if (reverse) std::reverse(items.begin(), items.end());
  merge_sort(items, [&](const Keyed& a, const Keyed& b) { return less_than(in, a.key, b.key); });
  if (reverse) std::reverse(items.begin(), items.end());
}

Value items_of(Interpreter& in, std::vector<Keyed> keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return in.make_list(std::move(items));
}

Value extreme(Interpreter& in, const Value& input, const Arguments& arguments, bool largest) {
  const auto args = bind(arguments, 0, "case_sensitive", "attribute");
  const Value path = args.get(1, Value());
  std::optional<Keyed> best;
  const Next next = in.iterate(input);
  for (Value item; next(item);) {
    Keyed entry{key_of(in, item, path, args.flag(0)), item};
    const bool better = !best || (largest ? less_than(in, best->key, entry.key) : less_than(in, entry.key, best->key));
    if (better) best = std::move(entry);
  }
  return best ? best->item : undefined_hint("No aggregated item, sequence was empty.");
}

}  // namespace

Value filter_min(Interpreter& in, const Value& input, const Arguments& arguments) {
  return extreme(in, input, arguments, false);
}

Value filter_max(Interpreter& in, const Value& input, const Arguments& arguments) {
  return extreme(in, input, arguments, true);
}

Value filter_sort(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 0, "reverse", "case_sensitive", "attribute");
  std::vector<Value> paths;
  if (args.has(2) && args[2].is_string()) {
    for (const std::string_view part : split(args[2].as_string(), ",", -1))
      paths.push_back(in.make_string(std::string(part)));
  } else {
    paths.push_back(args.get(2, Value()));
  }
  std::vector<Keyed> keyed;
  for (const Value& item : in.collect(input)) {
    std::vector<Value> keys;
    for (const Value& path : paths) keys.push_back(key_of(in, item, path, args.flag(1)));
    keyed.push_back(Keyed{in.make_list(std::move(keys)), item});
  }
  sort_keyed(in, keyed, args.flag(0));
  return items_of(in, std::move(keyed));
}

Value filter_dictsort(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 0, "case_sensitive", "by", "reverse");
  const std::string_view by = args.text(1, "key");
  if (by != "key" && by != "value") raise("You can only sort by either \"key\" or \"value\"");
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is(Kind::dict)) raise("'{}' object has no attribute 'items'", type_name(input));
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : input.as_dict().entries()) {
    const Value& subject = by == "key" ? key : value;
    keyed.push_back(Keyed{args.flag(0) ? subject : ignore_case(in, subject), in.make_tuple({key, value})});
  }
  sort_keyed(in, keyed, args.flag(2));
  return items_of(in, std::move(keyed));
}

Value filter_unique(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 0, "case_sensitive", "attribute");
  const bool case_sensitive = args.flag(0);
  const Value path = args.get(1, Value());
  Next next = [&in, input, case_sensitive, path, source = Next(), seen = Dict()](Value& item) mutable {
    if (!source) source = in.iterate(input);
    while (source(item)) {
      in.step();
      const Value key = key_of(in, item, path, case_sensitive);
      if (!hashable(key)) raise("unhashable type: '{}'", type_name(key));
      if (seen.find(key) != nullptr) continue;
      seen.set(key, Value());
      return true;
    }
    return false;
  };
  return in.make_iterator(std::move(next), std::max(input.depth(), path.depth()));
}

Value filter_groupby(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 1, "attribute", "default", "case_sensitive");
  const bool case_sensitive = args.flag(2);
  const Value* otherwise = args.given(1) ? &args[1] : nullptr;
  std::vector<Keyed> keyed;
  for (const Value& item : in.collect(input)) {
    keyed.push_back(Keyed{key_of(in, item, args[0], case_sensitive, otherwise), item});
  }
  sort_keyed(in, keyed, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> members;
    size_t end = begin;
    for (; end < keyed.size() && equal(keyed[end].key, keyed[begin].key); ++end) members.push_back(keyed[end].item);
    if (end == begin) members.push_back(keyed[end++].item);  // nan equals nothing
    const Value grouper = follow_path(in, members.front(), args[0], otherwise);
    groups.push_back(in.make_tuple({grouper, in.make_list(std::move(members))}));
    begin = end;
  }
  return in.make_list(std::move(groups));
}

Value filter_sum(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 0, "attribute", "start");
  Value total = args.get(1, Value::integer(0));
  if (total.is_string()) raise("sum() can't sum strings [use ''.join(seq) instead]");
  const Next next = in.iterate(input);
  for (Value item; next(item);) {
    in.step();
    if (args.given(0)) item = follow_path(in, item, args[0], nullptr);
    total = binary(in, Op::add, total, item);
  }
  return total;
}

}  // namespace minfer::chat::jinja
