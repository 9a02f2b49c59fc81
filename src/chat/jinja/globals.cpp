// The global functions of templates, in one table by name. Oracle: jinja2's defaults (range with its sandbox's limit of
// 100000 items, dict, namespace, cycler, joiner; not lipsum) and those that transformers adds (raise_exception,
// strftime_now). The time comes from RenderOptions::clock, the local clock where there is none. See objects.hpp for
// GlobalFunction.
#include <ctime>

#include "chat/jinja/arguments.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

using In = Interpreter;
using Args = Arguments;

constexpr int64_t kMaxRange = 100'000;     // jinja2's sandbox: MAX_RANGE
constexpr size_t kMaxTimeText = 64 << 10;  // bytes of a formatted time

Value global_range(In& in, const Args& args) {
  const size_t count = args.positional.size();
  if (!args.keyword.empty()) raise("range() takes no keyword arguments");
  if (count == 0 || count > 3) raise("range expected 1 to 3 arguments, got {}", count);
  int64_t bounds[3] = {0, 0, 1};
  for (size_t index = 0; index < count; ++index) {
    const Value& bound = args.positional[index];
    if (bound.is_undefined()) fail_undefined(bound);
    if (!bound.is_int()) raise("'{}' object cannot be interpreted as an integer", type_name(bound));
    bounds[count == 1 ? 1 : index] = bound.as_int();
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) raise("range() arg 3 must not be zero");
  in.step();
  const bool empty = step > 0 ? start >= stop : start <= stop;
  // Unsigned: the distance of two int64 fits there.
  const uint64_t distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                     : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t size = empty ? 0 : (distance - 1) / stride + 1;
  if (size > static_cast<uint64_t>(kMaxRange)) {
    raise("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange);
  }
  return make_object<RangeObject>(start, stop, step, static_cast<int64_t>(size));
}

// dict(mapping or pairs, **more), shared by dict and namespace.
Dict dict_of(In& in, const Args& args) {
  if (args.positional.size() > 1) raise("dict expected at most 1 argument, got {}", args.positional.size());
  Dict dict;
  if (!args.positional.empty()) {
    const Value& source = args.positional.front();
    if (source.is_undefined()) fail_undefined(source);
    if (source.is(Kind::dict)) {
      in.step(source.as_dict().size());
      dict = source.as_dict();
    } else {
      for (const Value& pair : in.collect(source)) {
        const std::vector<Value> parts = in.collect(pair);
        if (parts.size() != 2) raise("dictionary update sequence element has length {}; 2 is required", parts.size());
        if (!hashable(parts[0])) raise("unhashable type: '{}'", type_name(parts[0]));
        dict.set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : args.keyword) dict.set(name, value);
  return dict;
}

Value global_dict(In& in, const Args& args) {
  return in.make_dict(dict_of(in, args));
}

Value global_namespace(In& in, const Args& args) {
  Dict attributes = dict_of(in, args);
  for (const auto& [name, value] : attributes.entries()) {
    if (name.is_string() && name.as_string().starts_with('_')) {
      raise("chat templates cannot store underscore-prefixed attributes on a namespace, but got '{}'",
            name.as_string());
    }
  }
  return in.make_namespace(std::move(attributes));
}

Value global_cycler(In& in, const Args& args) {
  if (args.positional.empty()) raise("at least one item has to be provided");
  if (!args.keyword.empty()) raise("cycler() takes no keyword arguments");
  const Value items = in.make_tuple(args.positional);
  return make_object<CyclerObject>(items.items(), items.depth());
}

Value global_joiner(In&, const Args& arguments) {
  return make_object<JoinerObject>(bind(arguments, 0, "sep").get(0, Value::trusted_string(", ")));
}

Value global_raise_exception(In& in, const Args& arguments) {
  const auto args = bind(arguments, 1, "message");
  throw RenderFailure{in.text_of(args[0]), {}, true};
}

std::tm local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  localtime_r(&now, &fields);
  return fields;
}

// Python's directives that the C library lacks or that a time without zone prints as nothing.
std::string prepare_format(std::string_view format) {
  std::string out;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 >= format.size()) {
      out += format[at];
      continue;
    }
    const char directive = format[++at];
    if (directive == 'f')
      out += "000000";
    else if (directive != 'z' && directive != 'Z')
      out.append({'%', directive});
  }
  return out;
}

Value global_strftime_now(In& in, const Args& arguments) {
  const auto args = bind(arguments, 1, "format");
  const std::string format = prepare_format(args.text(0, "")) + ".";  // never empty: an empty result means failure
  const std::tm now = in.options().clock ? in.options().clock() : local_now();
  std::string out(256, '\0');
  while (true) {
    const size_t size = std::strftime(out.data(), out.size(), format.c_str(), &now);
    if (size > 0) {
      out.resize(size - 1);
      break;
    }
    if (out.size() >= kMaxTimeText) raise("a formatted time is longer than {} bytes", kMaxTimeText);
    out.resize(out.size() * 2);
  }
  return in.make_string(std::move(out));
}

struct Entry {
  std::string_view name;
  GlobalFunction function;
};

constexpr Entry kGlobals[] = {
    {"cycler", global_cycler},
    {"dict", global_dict},
    {"joiner", global_joiner},
    {"namespace", global_namespace},
    {"raise_exception", global_raise_exception},
    {"range", global_range},
    {"strftime_now", global_strftime_now},
};

}  // namespace

GlobalFunction find_global(std::string_view name) {
  const Entry* entry = find_entry(kGlobals, name);
  return entry == nullptr ? nullptr : entry->function;
}

}  // namespace minfer::chat::jinja
