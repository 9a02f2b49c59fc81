// Filters on sequences. map, select and their kin are lazy, as in jinja2: they give an iterator that can be read once,
// and faults of an element appear where it is read. An iterator carries the depth of what it was made of, so that
// chains of lazy filters count against the nesting limit. See filters.hpp.
#include <algorithm>

#include "chat/jinja/arguments.hpp"
#include "chat/jinja/filters.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

uint32_t deepest(const Value& input, const Arguments& arguments) {
  uint32_t depth = input.depth();
  for (const Value& value : arguments.positional) depth = std::max(depth, value.depth());
  for (const auto& [name, value] : arguments.keyword) depth = std::max(depth, value.depth());
  return depth;
}

// Starts iterating at the first read, so that faults appear where jinja2's generators raise them.
Next lazily(Interpreter& in, const Value& input) {
  return [&in, input, next = Next()](Value& item) mutable {
    if (!truth(input)) return false;
    if (!next) next = in.iterate(input);
    return next(item);
  };
}

Value map_attribute(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 0, "attribute", "default");
  const Value& path = args[0];
  const Value otherwise = args.get(1, Value());
  Next next = [&in, path, otherwise, source = lazily(in, input)](Value& item) {
    Value element;
    if (!source(element)) return false;
    in.step();
    item = follow_path(in, element, path, otherwise.is_none() ? nullptr : &otherwise);
    return true;
  };
  return in.make_iterator(std::move(next), deepest(input, arguments));
}

bool passes(Interpreter& in, const Value& item, const Arguments& arguments, bool by_attribute) {
  Arguments rest = arguments;
  Value subject = item;
  const auto missing = [&] { return rest.positional.empty(); };
  if (by_attribute) {
    if (missing()) raise("Missing parameter for attribute name");
    subject = follow_path(in, item, rest.positional.front(), nullptr);
    rest.positional.erase(rest.positional.begin());
  }
  if (missing()) return truth(subject);
  const std::string name = in.text_of(rest.positional.front());
  rest.positional.erase(rest.positional.begin());
  return in.call_test(name, subject, rest);
}

Value select(Interpreter& in, const Value& input, const Arguments& arguments, bool by_attribute, bool wanted) {
  Next next = [&in, arguments, by_attribute, wanted, source = lazily(in, input)](Value& item) {
    while (source(item)) {
      in.step();
      if (passes(in, item, arguments, by_attribute) == wanted) return true;
    }
    return false;
  };
  return in.make_iterator(std::move(next), deepest(input, arguments));
}

}  // namespace

Value follow_path(Interpreter& in, const Value& item, const Value& path, const Value* otherwise) {
  if (path.is_none()) return item;
  const auto follow = [&](const Value& from, const Value& key) {
    Value value = in.get_item(from, key);
    return otherwise != nullptr && value.is_undefined() ? *otherwise : value;
  };
  if (!path.is_string()) return follow(item, path);
  Value current = item;
  for (const std::string_view part : split(path.as_string(), ".", -1)) {
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (digits && part.size() > 18) raise("the index {} in an attribute path does not fit in 64 bits", part);
    current =
        follow(current, digits ? Value::integer(std::stoll(std::string(part))) : in.make_string(std::string(part)));
  }
  return current;
}

Value filter_map(Interpreter& in, const Value& input, const Arguments& arguments) {
  const bool by_attribute = std::any_of(arguments.keyword.begin(), arguments.keyword.end(),
                                        [](const auto& entry) { return entry.first == "attribute"; });
  if (arguments.positional.empty() && by_attribute) return map_attribute(in, input, arguments);
  Next next = [&in, arguments, source = lazily(in, input)](Value& item) {
    Value element;
    if (!source(element)) return false;
    in.step();
    Arguments rest = arguments;
    if (rest.positional.empty()) raise("map requires a filter argument");
    const std::string name = in.text_of(rest.positional.front());
    rest.positional.erase(rest.positional.begin());
    item = in.call_filter(name, element, rest);
    return true;
  };
  return in.make_iterator(std::move(next), deepest(input, arguments));
}

Value filter_select(Interpreter& in, const Value& input, const Arguments& arguments) {
  return select(in, input, arguments, false, true);
}
Value filter_reject(Interpreter& in, const Value& input, const Arguments& arguments) {
  return select(in, input, arguments, false, false);
}
Value filter_selectattr(Interpreter& in, const Value& input, const Arguments& arguments) {
  return select(in, input, arguments, true, true);
}
Value filter_rejectattr(Interpreter& in, const Value& input, const Arguments& arguments) {
  return select(in, input, arguments, true, false);
}

Value filter_default(Interpreter&, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 0, "default_value", "boolean");
  const bool replaced = input.is_undefined() || (args.flag(1) && !truth(input));
  return replaced ? args.get(0, Value::trusted_string("")) : input;
}

Value filter_attr(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 1, "name");
  const std::string name(args.text(0, ""));
  const bool has_items_only = input.is(Kind::dict) && find_method(input, name) == nullptr && !is_mutator(input, name);
  return has_items_only ? undefined_attribute(input, name) : in.get_attribute(input, name);
}

Value filter_first(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  Value item;
  return in.iterate(input)(item) ? item : undefined_hint("No first item, sequence was empty.");
}

Value filter_last(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  if (is_object(input, ObjectType::iterator)) raise("'generator' object is not reversible");
  if (input.is_undefined()) return undefined_hint("No last item, sequence was empty.");
  std::vector<Value> items = in.collect(input);
  return items.empty() ? undefined_hint("No last item, sequence was empty.") : items.back();
}

Value filter_length(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  if (input.is_string()) in.step(input.as_string().size() / 64);
  return Value::integer(length_of(input));
}

Value filter_list(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  return in.make_list(in.collect(input));
}

Value filter_items(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  Next next = [&in, input, source = Next()](Value& item) mutable {
    if (input.is_undefined()) return false;
    if (!input.is(Kind::dict)) raise("Can only get item pairs from a mapping.");
    if (!source) source = in.iterate(make_object<ViewObject>(input, ViewKind::items));
    return source(item);
  };
  return in.make_iterator(std::move(next), input.depth());
}

Value filter_join(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 0, "d", "attribute");
  const std::string separator = args.has(0) ? in.text_of(args[0]) : "";
  const Next next = in.iterate(input);
  std::string out;
  bool first = true;
  for (Value item; next(item);) {
    in.step();
    if (args.given(1)) item = follow_path(in, item, args[1], nullptr);
    if (!std::exchange(first, false)) out += separator;
    out += in.text_of(item);
    if (out.size() > in.options().limits.max_text_bytes) in.reserve_text(out.size());
  }
  return in.make_string(std::move(out));
}

Value filter_reverse(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  if (input.is_string()) {
    const Value step = Value::integer(-1);
    return slice(in, input, nullptr, nullptr, &step);
  }
  if (input.is_undefined()) return in.make_list({});
  std::vector<Value> items = in.collect(input);
  std::reverse(items.begin(), items.end());
  Value reversed = in.make_list(std::move(items));
  if (is_object(input, ObjectType::iterator)) return reversed;
  return in.make_iterator(in.iterate(reversed), reversed.depth());
}

Value filter_batch(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 1, "linecount", "fill_with");
  const int64_t size = args.integer(0, 0);
  std::vector<Value> batches;
  std::vector<Value> batch;
  for (const Value& item : in.collect(input)) {
    if (static_cast<int64_t>(batch.size()) == size) {
      batches.push_back(in.make_list(std::move(batch)));
      batch = {};
    }
    batch.push_back(item);
  }
  if (!batch.empty()) {
    if (args.given(1) && static_cast<int64_t>(batch.size()) < size) {
      in.reserve_items(static_cast<size_t>(size));
      batch.resize(static_cast<size_t>(size), args[1]);
    }
    batches.push_back(in.make_list(std::move(batch)));
  }
  const Value all = in.make_list(std::move(batches));
  return in.make_iterator(in.iterate(all), all.depth());
}

Value filter_slice(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 1, "slices", "fill_with");
  const int64_t slices = args.integer(0, 0);
  const std::vector<Value> items = in.collect(input);
  if (slices == 0) raise("integer division or modulo by zero");
  std::vector<Value> columns;
  if (slices > 0) {
    in.reserve_items(static_cast<size_t>(slices));
    const auto size = static_cast<int64_t>(items.size());
    int64_t begin = 0;
    for (int64_t index = 0; index < slices; ++index) {
      const bool has_extra = index < size % slices;
      const int64_t end = begin + size / slices + (has_extra ? 1 : 0);
      std::vector<Value> column(items.begin() + begin, items.begin() + end);
      if (args.given(1) && !has_extra) column.push_back(args[1]);
      columns.push_back(in.make_list(std::move(column)));
      begin = end;
    }
  }
  const Value all = in.make_list(std::move(columns));
  return in.make_iterator(in.iterate(all), all.depth());
}

}  // namespace minfer::chat::jinja
