// Values of chat templates: construction, equality, hashing, the ordered dict. See value.hpp.
#include "chat/value.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.hpp"
#include "base/utf8.hpp"

namespace minfer::chat {
namespace {

constexpr size_t kLinearDict = 8;  // up to so many entries a dict is searched from front to back

struct StringObject : Object {
  StringObject(std::string text_in, Meter* meter_in, bool markup_in) : text(std::move(text_in)), markup(markup_in) {
    if (meter_in != nullptr) meter_in->charge(text.capacity() + sizeof(StringObject));
    meter = meter_in;
  }
  ~StringObject() override {
    if (meter != nullptr) meter->refund(text.capacity() + sizeof(StringObject));
  }
  std::string text;
  Meter* meter = nullptr;
  bool markup;
};

struct ListObject : Object {
  ListObject(std::vector<Value> items_in, uint32_t depth_in, Meter* meter_in)
      : Object(depth_in), items(std::move(items_in)) {
    if (meter_in != nullptr) meter_in->charge(bytes());
    meter = meter_in;
  }
  ~ListObject() override {
    if (meter != nullptr) meter->refund(bytes());
  }
  size_t bytes() const { return items.capacity() * sizeof(Value) + sizeof(ListObject); }
  std::vector<Value> items;
  Meter* meter = nullptr;
};

struct DictObject : Object {
  DictObject(Dict dict_in, uint32_t depth_in, Meter* meter_in) : Object(depth_in), dict(std::move(dict_in)) {
    if (meter_in != nullptr) meter_in->charge(bytes());
    meter = meter_in;
  }
  ~DictObject() override {
    if (meter != nullptr) meter->refund(bytes());
  }
  size_t bytes() const { return dict.size() * (sizeof(Dict::Entry) + 4 * sizeof(uint64_t)) + sizeof(DictObject); }
  Dict dict;
  Meter* meter = nullptr;
};

uint32_t checked_depth(uint32_t inner) {
  if (inner >= kMaxValueDepth) {
    fail(ErrorCode::invalid_input, "a value nests more than {} containers; flatten it", kMaxValueDepth);
  }
  return inner + 1;
}

uint32_t depth_of(const std::vector<Value>& items) {
  uint32_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return checked_depth(depth);
}

uint64_t mix(uint64_t value) {
  value ^= value >> 32;
  value *= 0x9E3779B97F4A7C15u;
  return value ^ (value >> 29);
}

uint64_t hash_text(std::string_view text) {
  return mix(std::hash<std::string_view>{}(text));
}

uint64_t hash_value(const Value& value) {
  switch (value.kind()) {
    case Kind::none:
      return 0x51;
    case Kind::undefined:
      return 0x52;
    case Kind::boolean:
    case Kind::integer:
      return mix(static_cast<uint64_t>(value.as_int()));
    case Kind::floating: {
      const double number = value.as_double();
      if (number == std::floor(number) && std::abs(number) < 9.2e18) {
        return mix(static_cast<uint64_t>(static_cast<int64_t>(number)));
      }
      return mix(std::hash<double>{}(number));
    }
    case Kind::string:
      return hash_text(value.as_string());
    case Kind::list:
    case Kind::tuple: {
      uint64_t hash = 0x77;
      for (const Value& item : value.items()) hash = mix(hash ^ hash_value(item));
      return hash;
    }
    case Kind::dict:
    case Kind::object:
      break;
  }
  return mix(reinterpret_cast<uintptr_t>(value.object().get()));
}

bool equal_numbers(const Value& left, const Value& right) {
  if (left.is_int() && right.is_int()) return left.as_int() == right.as_int();
  return left.as_double() == right.as_double();
}

bool equal_dicts(const Dict& left, const Dict& right) {
  if (left.size() != right.size()) return false;
  for (const auto& [key, value] : left.entries()) {
    const Value* other = right.find(key);
    if (other == nullptr || !equal(value, *other)) return false;
  }
  return true;
}

}  // namespace

void Meter::charge(size_t bytes) {
  if (bytes > limit_bytes_ || live_bytes_ > limit_bytes_ - bytes) {
    fail(ErrorCode::invalid_input, "the template's values need more than {} bytes of memory at once", limit_bytes_);
  }
  live_bytes_ += bytes;
}

Value Value::boolean(bool value) {
  Value result;
  result.kind_ = Kind::boolean;
  result.integer_ = value ? 1 : 0;
  return result;
}

Value Value::integer(int64_t value) {
  Value result;
  result.kind_ = Kind::integer;
  result.integer_ = value;
  return result;
}

Value Value::floating(double value) {
  Value result;
  result.kind_ = Kind::floating;
  result.floating_ = value;
  return result;
}

Value Value::string(std::string text) {
  if (const size_t at = find_malformed_utf8(text); at != std::string_view::npos) {
    fail(ErrorCode::invalid_input, "a text of {} bytes for a chat template is not valid UTF-8 at byte {}", text.size(),
         at);
  }
  return trusted_string(std::move(text));
}

Value Value::trusted_string(std::string text, Meter* meter, bool markup) {
  Value result;
  result.object_ = std::make_shared<StringObject>(std::move(text), meter, markup);
  result.kind_ = Kind::string;
  return result;
}

Value Value::list(std::vector<Value> items, Meter* meter) {
  Value result;
  const uint32_t depth = depth_of(items);
  result.object_ = std::make_shared<ListObject>(std::move(items), depth, meter);
  result.kind_ = Kind::list;
  return result;
}

Value Value::tuple(std::vector<Value> items, Meter* meter) {
  Value result = list(std::move(items), meter);
  result.kind_ = Kind::tuple;
  return result;
}

Value Value::dict(Dict entries, Meter* meter) {
  uint32_t inner = 0;
  for (const auto& [key, value] : entries.entries()) inner = std::max({inner, key.depth(), value.depth()});
  Value result;
  const uint32_t depth = checked_depth(inner);
  result.object_ = std::make_shared<DictObject>(std::move(entries), depth, meter);
  result.kind_ = Kind::dict;
  return result;
}

Value Value::object(Kind kind, std::shared_ptr<Object> object) {
  Value result;
  result.kind_ = kind;
  if (object->depth > kMaxValueDepth) checked_depth(object->depth);
  result.object_ = std::move(object);
  return result;
}

bool Value::is_markup() const {
  return kind_ == Kind::string && static_cast<const StringObject&>(*object_).markup;
}

const std::string& Value::as_string() const {
  check(kind_ == Kind::string, "as_string of another kind");
  return static_cast<const StringObject&>(*object_).text;
}

const std::vector<Value>& Value::items() const {
  check(kind_ == Kind::list || kind_ == Kind::tuple, "items of another kind");
  return static_cast<const ListObject&>(*object_).items;
}

const Dict& Value::as_dict() const {
  check(kind_ == Kind::dict, "as_dict of another kind");
  return static_cast<const DictObject&>(*object_).dict;
}

bool equal(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return equal_numbers(left, right);
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::none:
    case Kind::undefined:
      return true;
    case Kind::string:
      return left.as_string() == right.as_string();
    case Kind::list:
    case Kind::tuple:
      return left.object() == right.object() ||
             std::equal(left.items().begin(), left.items().end(), right.items().begin(), right.items().end(), equal);
    case Kind::dict:
      return left.object() == right.object() || equal_dicts(left.as_dict(), right.as_dict());
    default:
      return left.object()->equals(*right.object());
  }
}

bool hashable(const Value& value) {
  if (value.is(Kind::list) || value.is(Kind::dict)) return false;
  if (!value.is(Kind::tuple)) return true;
  return std::all_of(value.items().begin(), value.items().end(), hashable);
}

template <class Equal>
const Dict::Entry* Dict::probe(uint64_t hash, const Equal& equals) const {
  if (slots_.empty()) {
    for (size_t index = 0; index < entries_.size(); ++index) {
      if (hashes_[index] == hash && equals(entries_[index].first)) return &entries_[index];
    }
    return nullptr;
  }
  const size_t mask = slots_.size() - 1;
  for (size_t slot = hash & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const size_t index = slots_[slot] - 1;
    if (hashes_[index] == hash && equals(entries_[index].first)) return &entries_[index];
  }
  return nullptr;
}

void Dict::grow() {
  size_t capacity = 32;
  while (capacity < entries_.size() * 3) capacity *= 2;
  slots_.assign(capacity, 0);
  for (size_t index = 0; index < entries_.size(); ++index) {
    size_t slot = hashes_[index] & (capacity - 1);
    while (slots_[slot] != 0) slot = (slot + 1) & (capacity - 1);
    slots_[slot] = static_cast<uint32_t>(index + 1);
  }
}

void Dict::insert(const Value& key, Value value, uint64_t hash) {
  if (entries_.size() >= UINT32_MAX - 1) fail(ErrorCode::invalid_input, "a dict has more than 2^32 - 2 entries");
  entries_.emplace_back(key, std::move(value));
  hashes_.push_back(hash);
  if (entries_.size() <= kLinearDict) return;
  if (slots_.size() < entries_.size() * 2) {
    grow();
    return;
  }
  size_t slot = hash & (slots_.size() - 1);
  while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = static_cast<uint32_t>(entries_.size());
}

void Dict::set(const Value& key, Value value) {
  const uint64_t hash = hash_value(key);
  const Entry* found = probe(hash, [&](const Value& other) { return equal(key, other); });
  if (found != nullptr) {
    const_cast<Entry*>(found)->second = std::move(value);
  } else {
    insert(key, std::move(value), hash);
  }
}

void Dict::set(std::string_view key, Value value) {
  set(Value::trusted_string(std::string(key)), std::move(value));
}

const Value* Dict::find(const Value& key) const {
  const Entry* found = probe(hash_value(key), [&](const Value& other) { return equal(key, other); });
  return found == nullptr ? nullptr : &found->second;
}

const Value* Dict::find(std::string_view key) const {
  const Entry* found =
      probe(hash_text(key), [&](const Value& other) { return other.is_string() && other.as_string() == key; });
  return found == nullptr ? nullptr : &found->second;
}

}  // namespace minfer::chat
