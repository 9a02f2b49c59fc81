// JSON text to Value, by nlohmann's event parser: no document in between, keys stay in their order, and the depth is
// limited while parsing (deep nesting would overflow the stack later). The only file of the room that includes nlohmann
// json.
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "chat/value.hpp"

namespace minfer::chat {
namespace {

using nlohmann::json;

// Builds the value from the parser's events: a stack of the containers that are still open.
class ValueBuilder : public nlohmann::json_sax<json> {
 public:
  Value take() { return std::move(root_); }

  bool null() override { return add(Value()); }
  bool boolean(bool value) override { return add(Value::boolean(value)); }
  bool number_integer(number_integer_t value) override { return add(Value::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) fail_integer(std::to_string(value));
    return add(Value::integer(static_cast<int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_of(".eE") == std::string::npos) fail_integer(text);
    return add(Value::floating(value));
  }
  bool string(string_t& value) override { return add(Value::trusted_string(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool key(string_t& value) override {
    open_.back().key = std::move(value);
    return true;
  }
  bool end_object() override {
    Dict dict = std::move(open_.back().dict);
    open_.pop_back();
    return add(Value::dict(std::move(dict)));
  }
  bool end_array() override {
    std::vector<Value> items = std::move(open_.back().items);
    open_.pop_back();
    return add(Value::list(std::move(items)));
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    constexpr int kNumberOverflow = 406;
    if (error.id == kNumberOverflow) {
      throw JsonNumberError(fmt::format("JSON: the number at byte {} is beyond what 64 bits hold", position), path());
    }
    // The library puts its own error number in brackets in front.
    const std::string_view what = error.what();
    const size_t bracket = what.find("] ");
    fail(ErrorCode::invalid_input, "malformed JSON at byte {}: {}", position,
         bracket == std::string_view::npos ? what : what.substr(bracket + 2));
  }

 private:
  struct Open {
    bool is_object;
    Dict dict;
    std::vector<Value> items;
    std::string key;
  };

  [[noreturn]] void fail_integer(const std::string& text) const {
    throw JsonNumberError(fmt::format("JSON: the integer {} does not fit in 64 bits with a sign", text), path());
  }

  // Where the next value stands.
  std::string path() const {
    std::string path;
    for (const Open& container : open_) {
      if (container.is_object) {
        path += (path.empty() ? "" : ".") + container.key;
      } else {
        path += fmt::format("[{}]", container.items.size());
      }
    }
    return path;
  }

  bool open(bool is_object) {
    if (open_.size() >= kMaxValueDepth) {
      fail(ErrorCode::invalid_input, "JSON nests more than {} arrays and objects; flatten it", kMaxValueDepth);
    }
    open_.push_back(Open{is_object, {}, {}, {}});
    return true;
  }

  bool add(Value value) {
    if (++values_ > kMaxJsonValues) {
      fail(ErrorCode::invalid_input, "JSON of more than {} values; send fewer at once", kMaxJsonValues);
    }
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().dict.set(open_.back().key, std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  std::vector<Open> open_;
  Value root_;
  size_t values_ = 0;
};

}  // namespace

Value value_from_json(std::string_view text) {
  if (text.size() > kMaxJsonBytes) {
    fail(ErrorCode::invalid_input, "JSON text of {} bytes; the limit is {}", text.size(), kMaxJsonBytes);
  }
  // The parser would take it for the end.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    fail(ErrorCode::invalid_input, "malformed JSON: a byte of value 0 at offset {}", zero);
  }
  ValueBuilder builder;
  try {
    json::sax_parse(text.begin(), text.end(), &builder);
  } catch (const json::exception& error) {
    fail(ErrorCode::invalid_input, "malformed JSON: {}", error.what());
  }
  return builder.take();
}

}  // namespace minfer::chat
