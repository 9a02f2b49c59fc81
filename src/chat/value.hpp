// The values that a chat template sees: what JSON can say, with Python's semantics (insertion-ordered dicts, 1 == 1.0
// == True as keys, text counted in code points), plus tuples, undefined values and the interpreter's own objects.
//
// A Value is a small handle; text and containers are shared and immutable once built, so copies are cheap and a Value
// may be read from several threads. Nesting is limited to kMaxValueDepth where a container is built: code that walks or
// destroys a value may recurse. Text is valid UTF-8: value_from_json and string() check it. Integers have 64 bits;
// arithmetic that leaves them is an error, never a wrong number. Own type, because nlohmann's json sorts keys and its
// ordered_json finds them in linear time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace minfer::chat {

class Dict;

constexpr uint32_t kMaxValueDepth = 200;      // containers inside containers
constexpr size_t kMaxJsonBytes = 256u << 20;  // text given to value_from_json
constexpr size_t kMaxJsonValues = 1u << 21;   // in it: each takes some 100 bytes, however short its text

enum class Kind : uint8_t { undefined, none, boolean, integer, floating, string, list, tuple, dict, object };

// What a Value refers to. `depth` is 1 + the deepest object inside it.
struct Object {
  explicit Object(uint32_t depth_in = 0) : depth(depth_in) {}
  virtual ~Object() = default;
  virtual bool equals(const Object& other) const { return this == &other; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  uint32_t depth;
};

// Counts the bytes that the values of one rendering hold at the moment. Outlives those values; one thread.
class Meter {
 public:
  explicit Meter(size_t limit_bytes) : limit_bytes_(limit_bytes) {}
  // Error: invalid_input where the live bytes would exceed the limit.
  void charge(size_t bytes);
  void refund(size_t bytes) { live_bytes_ -= bytes; }

 private:
  size_t live_bytes_ = 0;
  size_t limit_bytes_;
};

class Value {
 public:
  Value() = default;  // none

  static Value boolean(bool value);
  static Value integer(int64_t value);
  static Value floating(double value);
  // Error: invalid_input where the text is not valid UTF-8.
  static Value string(std::string text);
  static Value list(std::vector<Value> items, Meter* meter = nullptr);
  static Value tuple(std::vector<Value> items, Meter* meter = nullptr);
  static Value dict(Dict entries, Meter* meter = nullptr);
  // Text known to be valid UTF-8. `markup`: marked safe for HTML (Python's Markup).
  static Value trusted_string(std::string text, Meter* meter = nullptr, bool markup = false);
  // `kind` is object or undefined.
  static Value object(Kind kind, std::shared_ptr<Object> object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_none() const { return kind_ == Kind::none; }
  bool is_undefined() const { return kind_ == Kind::undefined; }
  bool is_string() const { return kind_ == Kind::string; }
  // Python's int: an integer or a boolean.
  bool is_int() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
  bool is_number() const { return is_int() || kind_ == Kind::floating; }
  bool is_markup() const;

  // Each is valid for its kind alone (as_int: integer and boolean; as_double: every number).
  bool as_bool() const { return integer_ != 0; }
  int64_t as_int() const { return integer_; }
  double as_double() const { return kind_ == Kind::floating ? floating_ : static_cast<double>(integer_); }
  const std::string& as_string() const;
  const std::vector<Value>& items() const;  // list or tuple
  const Dict& as_dict() const;
  const std::shared_ptr<Object>& object() const { return object_; }
  uint32_t depth() const { return object_ == nullptr ? 0 : object_->depth; }

 private:
  Kind kind_ = Kind::none;
  union {
    int64_t integer_ = 0;
    double floating_;
  };
  std::shared_ptr<Object> object_;
};

// Python's == (undefined equals undefined; objects by identity).
bool equal(const Value& left, const Value& right);
// Whether a value may be a dict key (no list or dict inside).
bool hashable(const Value& value);

// An insertion-ordered map with a hash index. Keys are hashable Values.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  // Inserts, or replaces the value of an equal key (the first key and its place stay, as in Python).
  void set(const Value& key, Value value);
  void set(std::string_view key, Value value);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void reserve(size_t count) { entries_.reserve(count); }

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  void insert(const Value& key, Value value, uint64_t hash);
  void grow();
  template <class Equal>
  const Entry* probe(uint64_t hash, const Equal& equals) const;

  std::vector<Entry> entries_;
  std::vector<uint64_t> hashes_;  // of entries_, in their order
  std::vector<uint32_t> slots_;   // open addressing: 1 + index of an entry, 0 empty; empty while there are few entries
};

// A number of a JSON text that a Value can't hold; `path` is where it stands ("messages[2].n"; empty: it is the text).
class JsonNumberError : public Error {
 public:
  JsonNumberError(const std::string& message, std::string path)
      : Error(ErrorCode::invalid_input, message), path_(std::move(path)) {}
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Parses one JSON text. Errors: JsonNumberError; invalid_input for malformed JSON or UTF-8, nesting over
// kMaxValueDepth, text over kMaxJsonBytes, more than kMaxJsonValues values, a number beyond 64-bit integers and
// doubles.
Value value_from_json(std::string_view text);

}  // namespace minfer::chat
