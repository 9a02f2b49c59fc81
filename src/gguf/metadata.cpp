// Checked access to metadata values. See metadata.hpp.
#include "gguf/metadata.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "gguf/bytes.hpp"

namespace minfer::gguf {
namespace {

bool is_integer(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::u16:
    case ValueType::i16:
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::u64:
    case ValueType::i64:
      return true;
    default:
      return false;
  }
}

bool is_float(ValueType type) {
  return type == ValueType::f32 || type == ValueType::f64;
}
bool is_string(ValueType type) {
  return type == ValueType::string;
}
// The integer of an integer type at `at`; nullopt for a u64 over int64's range.
std::optional<int64_t> load_integer(ValueType type, const std::byte* at) {
  switch (type) {
    case ValueType::u8:
      return load<uint8_t>(at);
    case ValueType::i8:
      return load<int8_t>(at);
    case ValueType::u16:
      return load<uint16_t>(at);
    case ValueType::i16:
      return load<int16_t>(at);
    case ValueType::u32:
      return load<uint32_t>(at);
    case ValueType::i32:
      return load<int32_t>(at);
    case ValueType::i64:
      return load<int64_t>(at);
    default:
      break;
  }
  const auto value = load<uint64_t>(at);
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(value);
}

// The float at `at`; nullopt for a finite f64 over float's range.
std::optional<float> load_float(ValueType type, const std::byte* at) {
  if (type == ValueType::f32) return load<float>(at);
  const auto wide = load<double>(at);
  if (std::isfinite(wide) && std::abs(wide) > static_cast<double>(std::numeric_limits<float>::max())) {
    return std::nullopt;
  }
  return static_cast<float>(wide);
}

std::string_view load_string(const std::byte* at) {
  return {reinterpret_cast<const char*>(at) + sizeof(uint64_t), load<uint64_t>(at)};
}

}  // namespace

std::string describe_type(const Value& value) {
  if (value.type != ValueType::array) return std::string(value_type_name(value.type));
  return fmt::format("array of {} {}", value.count, value_type_name(value.element_type));
}

std::string_view StringArray::Iterator::operator*() const {
  return load_string(at_);
}

StringArray::Iterator& StringArray::Iterator::operator++() {
  at_ += sizeof(uint64_t) + load<uint64_t>(at_);
  return *this;
}

Metadata::Metadata(std::string source, std::vector<Value> values)
    : source_(std::move(source)), values_(std::move(values)) {
  for (size_t i = 0; i < values_.size(); ++i) {
    check(index_.emplace(values_[i].key, i).second, "Metadata needs distinct keys");
  }
}

const Value* Metadata::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &values_[found->second];
}

void Metadata::fail_missing(std::string_view key, std::string_view expected) const {
  fail(ErrorCode::invalid_input, "{}: the metadata has no key '{}', expected {}", source_, key, expected);
}

void Metadata::fail_type(const Value& value, std::string_view expected) const {
  fail(ErrorCode::invalid_input, "{}: the metadata key '{}' (value at byte {}) has the type {}, expected {}", source_,
       value.key, value.offset_bytes, describe_type(value), expected);
}

int64_t Metadata::integer(const Value& value, int64_t low, int64_t high, std::string_view expected) const {
  if (!is_integer(value.type)) fail_type(value, expected);
  const std::optional<int64_t> number = load_integer(value.type, value.payload.data());
  if (!number || *number < low || *number > high) {
    const std::string found =
        number ? fmt::format("{}", *number) : fmt::format("{}", load<uint64_t>(value.payload.data()));
    fail(ErrorCode::invalid_input, "{}: the metadata key '{}' (value at byte {}) is {}, expected {}", source_,
         value.key, value.offset_bytes, found, expected);
  }
  return *number;
}

const Value* Metadata::find_array(std::string_view key, bool (*accepts)(ValueType), std::string_view expected) const {
  const Value* value = find(key);
  if (value == nullptr) return nullptr;
  if (value->type != ValueType::array || !accepts(value->element_type)) fail_type(*value, expected);
  return value;
}

namespace {

// What each getter wants, for its errors.
constexpr std::string_view kWantU32 = "an integer from 0 to 4294967295";
constexpr std::string_view kWantI64 = "an integer of at most 63 bits and a sign";
constexpr std::string_view kWantF32 = "an f32, or an f64 in its range";
constexpr std::string_view kWantBool = "a bool";
constexpr std::string_view kWantString = "a string";
constexpr std::string_view kWantStrings = "an array of strings";
constexpr std::string_view kWantI32s = "an array of integers from -2147483648 to 2147483647";
constexpr std::string_view kWantF32s = "an array of f32, or of f64 in its range";

}  // namespace

std::optional<uint32_t> Metadata::find_u32(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  return static_cast<uint32_t>(integer(*value, 0, std::numeric_limits<uint32_t>::max(), kWantU32));
}

std::optional<int64_t> Metadata::find_i64(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  return integer(*value, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), kWantI64);
}

std::optional<float> Metadata::find_f32(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!is_float(value->type)) fail_type(*value, kWantF32);
  const std::optional<float> number = load_float(value->type, value->payload.data());
  if (!number) {
    fail(ErrorCode::invalid_input, "{}: the metadata key '{}' (value at byte {}) is {}, expected {}", source_, key,
         value->offset_bytes, load<double>(value->payload.data()), kWantF32);
  }
  return number;
}

std::optional<bool> Metadata::find_bool(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != ValueType::boolean) fail_type(*value, kWantBool);
  return load<uint8_t>(value->payload.data()) != 0;
}

std::optional<std::string_view> Metadata::find_string(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != ValueType::string) fail_type(*value, kWantString);
  return load_string(value->payload.data());
}

std::optional<StringArray> Metadata::find_strings(std::string_view key) const {
  const Value* value = find_array(key, is_string, kWantStrings);
  if (value == nullptr) return std::nullopt;
  return StringArray(value->payload, value->count);
}

std::optional<std::vector<int32_t>> Metadata::find_i32_array(std::string_view key) const {
  const Value* value = find_array(key, is_integer, kWantI32s);
  if (value == nullptr) return std::nullopt;
  const size_t width = value_type_bytes(value->element_type);
  std::vector<int32_t> numbers(value->count);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::optional<int64_t> number = load_integer(value->element_type, value->payload.data() + i * width);
    if (!number || !std::in_range<int32_t>(*number)) {
      fail(ErrorCode::invalid_input, "{}: the metadata key '{}' (value at byte {}) holds {} at index {}, expected {}",
           source_, key, value->offset_bytes, number ? fmt::format("{}", *number) : "an integer over 2^63", i,
           kWantI32s);
    }
    numbers[i] = static_cast<int32_t>(*number);
  }
  return numbers;
}

std::optional<std::vector<float>> Metadata::find_f32_array(std::string_view key) const {
  const Value* value = find_array(key, is_float, kWantF32s);
  if (value == nullptr) return std::nullopt;
  const size_t width = value_type_bytes(value->element_type);
  std::vector<float> numbers(value->count);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::byte* at = value->payload.data() + i * width;
    const std::optional<float> number = load_float(value->element_type, at);
    if (!number) {
      fail(ErrorCode::invalid_input, "{}: the metadata key '{}' (value at byte {}) holds {} at index {}, expected {}",
           source_, key, value->offset_bytes, load<double>(at), i, kWantF32s);
    }
    numbers[i] = *number;
  }
  return numbers;
}

int64_t Metadata::require_i64(std::string_view key) const {
  if (const auto value = find_i64(key)) return *value;
  fail_missing(key, kWantI64);
}

float Metadata::require_f32(std::string_view key) const {
  if (const auto value = find_f32(key)) return *value;
  fail_missing(key, kWantF32);
}

std::string_view Metadata::require_string(std::string_view key) const {
  if (const auto value = find_string(key)) return *value;
  fail_missing(key, kWantString);
}

StringArray Metadata::require_strings(std::string_view key) const {
  if (const auto value = find_strings(key)) return *value;
  fail_missing(key, kWantStrings);
}

}  // namespace minfer::gguf
