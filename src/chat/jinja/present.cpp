// str(), repr() and json.dumps of Values. See present.hpp.
#include "chat/jinja/present.hpp"

#include <cmath>

#include "chat/jinja/merge_sort.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

// A namespace may hold itself: the only way to nest deeper than values do.
constexpr uint32_t kMaxReprDepth = 2 * kMaxValueDepth;

class ReprWriter {
 public:
  ReprWriter(Interpreter& in, std::string& out) : in_(in), out_(out) {}

  void write(const Value& value) {
    in_.step();
    if (++depth_ > kMaxReprDepth) raise("a value to print nests more than {} levels", kMaxReprDepth);
    write_value(value);
    --depth_;
    if (out_.size() > in_.options().limits.max_text_bytes) in_.reserve_text(out_.size());
  }

 private:
  void write_value(const Value& value) {
    switch (value.kind()) {
      case Kind::none:
        out_ += "None";
        break;
      case Kind::boolean:
        out_ += value.as_bool() ? "True" : "False";
        break;
      case Kind::integer:
        fmt::format_to(std::back_inserter(out_), "{}", value.as_int());
        break;
      case Kind::floating:
        out_ += float_text(value.as_double());
        break;
      case Kind::string:
        in_.reserve_text(value.as_string().size());
        out_ += value.is_markup() ? "Markup(" + quote(value.as_string()) + ")" : quote(value.as_string());
        break;
      case Kind::list:
        write_items(value.items(), "[", "]");
        break;
      case Kind::tuple:
        write_items(value.items(), "(", value.items().size() == 1 ? ",)" : ")");
        break;
      case Kind::dict:
        write_dict(value.as_dict());
        break;
      case Kind::undefined:
        out_ += "Undefined";
        break;
      case Kind::object:
        write_object(value);
        break;
    }
  }

  void write_items(const std::vector<Value>& items, std::string_view open, std::string_view close) {
    out_ += open;
    for (size_t index = 0; index < items.size(); ++index) {
      if (index > 0) out_ += ", ";
      write(items[index]);
    }
    out_ += close;
  }

  void write_dict(const Dict& dict) {
    out_ += '{';
    bool first = true;
    for (const auto& [key, value] : dict.entries()) {
      if (!std::exchange(first, false)) out_ += ", ";
      write(key);
      out_ += ": ";
      write(value);
    }
    out_ += '}';
  }

  void write_object(const Value& value) {
    switch (object_of(value).type) {
      case ObjectType::range: {
        const auto& range = as<RangeObject>(value);
        fmt::format_to(std::back_inserter(out_), "range({}, {}", range.start, range.stop);
        if (range.step != 1) fmt::format_to(std::back_inserter(out_), ", {}", range.step);
        out_ += ')';
        break;
      }
      case ObjectType::view:
        out_ += type_name(value);
        write_items(in_.collect(value), "([", "])");
        break;
      case ObjectType::space:
        out_ += "<Namespace ";
        write_dict(as<NamespaceObject>(value).attributes);
        out_ += '>';
        break;
      case ObjectType::loop: {
        const int64_t length = in_.get_attribute(value, "length").as_int();
        fmt::format_to(std::back_inserter(out_), "<LoopContext {}/{}>", as<LoopObject>(value).index0 + 1, length);
        break;
      }
      case ObjectType::macro:
        out_ += "<Macro " + quote(as<MacroObject>(value).definition.name) + ">";
        break;
      default:
        raise("a value of type '{}' has no text form that would be the same every time", type_name(value));
    }
  }

  Interpreter& in_;
  std::string& out_;
  uint32_t depth_ = 0;
};

class JsonWriter {
 public:
  JsonWriter(Interpreter& in, std::string& out, const JsonOptions& options) : in_(in), out_(out), options_(options) {}

  void write(const Value& value) {
    in_.step();
    switch (value.kind()) {
      case Kind::none:
        out_ += "null";
        break;
      case Kind::boolean:
        out_ += value.as_bool() ? "true" : "false";
        break;
      case Kind::integer:
        fmt::format_to(std::back_inserter(out_), "{}", value.as_int());
        break;
      case Kind::floating:
        out_ += number(value.as_double());
        break;
      case Kind::string:
        write_string(value.as_string());
        break;
      case Kind::list:
      case Kind::tuple:
        write_list(value.items());
        break;
      case Kind::dict:
        write_dict(value.as_dict());
        break;
      case Kind::undefined:
      case Kind::object:
        raise("Object of type {} is not JSON serializable", type_name(value));
    }
    if (out_.size() > in_.options().limits.max_text_bytes) in_.reserve_text(out_.size());
  }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_text(value);
  }

  void escape(char32_t code) {
    static constexpr std::string_view kShort = "\"\\\n\r\t\b\f";
    static constexpr std::string_view kLetters = "\"\\nrtbf";
    const size_t found = code < 0x80 ? kShort.find(static_cast<char>(code)) : std::string_view::npos;
    if (found != std::string_view::npos) {
      out_ += '\\';
      out_ += kLetters[found];
    } else if (code >= 0x10000) {
      const char32_t rest = code - 0x10000;
      unit(0xD800 + (rest >> 10));
      unit(0xDC00 + (rest & 0x3FF));
    } else {
      unit(code);
    }
  }

  void unit(char32_t code) { fmt::format_to(std::back_inserter(out_), "\\u{:04x}", static_cast<uint32_t>(code)); }

  void write_string(std::string_view text) {
    in_.reserve_text(text.size());
    out_ += '"';
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t code = next_code_point(text, at);
      const bool plain = code >= 0x20 && code != '"' && code != '\\' && (code < 0x7F || !options_.ensure_ascii);
      if (plain) {
        out_ += text.substr(begin, at - begin);
      } else {
        escape(code);
      }
    }
    out_ += '"';
  }

  void new_line() {
    if (!options_.indent) return;
    out_ += '\n';
    in_.step(level_);
    for (uint32_t level = 0; level < level_; ++level) out_ += *options_.indent;
  }

  // The separator before an item, or the line break after the opening bracket.
  void before_item(bool first) {
    if (!first) out_ += options_.item_separator;
    new_line();
  }

  void write_list(const std::vector<Value>& items) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    ++level_;
    for (size_t index = 0; index < items.size(); ++index) {
      before_item(index == 0);
      write(items[index]);
    }
    --level_;
    new_line();
    out_ += ']';
  }

  void write_key(const Value& key) {
    switch (key.kind()) {
      case Kind::string:
        return write_string(key.as_string());
      case Kind::none:
        return write_string("null");
      case Kind::boolean:
        return write_string(key.as_bool() ? "true" : "false");
      case Kind::integer:
        return write_string(fmt::format("{}", key.as_int()));
      case Kind::floating:
        return write_string(number(key.as_double()));
      default:
        raise("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
  }

  void write_dict(const Dict& dict) {
    if (dict.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (options_.sort_keys) {
      merge_sort(entries, [&](const auto* a, const auto* b) { return less_than(in_, a->first, b->first); });
    }
    out_ += '{';
    ++level_;
    bool first = true;
    for (const Dict::Entry* entry : entries) {
      before_item(std::exchange(first, false));
      write_key(entry->first);
      out_ += options_.key_separator;
      write(entry->second);
    }
    --level_;
    new_line();
    out_ += '}';
  }

  Interpreter& in_;
  std::string& out_;
  const JsonOptions& options_;
  uint32_t level_ = 0;
};

}  // namespace

void append_repr(Interpreter& in, std::string& out, const Value& value) {
  ReprWriter(in, out).write(value);
}

void append_text(Interpreter& in, std::string& out, const Value& value) {
  if (value.is_string()) {
    out += value.as_string();
  } else if (!value.is_undefined()) {
    append_repr(in, out, value);
  }
}

void append_json(Interpreter& in, std::string& out, const Value& value, const JsonOptions& options) {
  JsonWriter(in, out, options).write(value);
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    switch (byte) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += byte;
    }
  }
  return out;
}

}  // namespace minfer::chat::jinja
