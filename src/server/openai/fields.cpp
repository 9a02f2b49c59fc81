// Typed reading of request fields. See fields.hpp.
// Names given to find() are literals: the list of known ones keeps views.
#include "server/openai/fields.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "server/api_error.hpp"

namespace minfer::server::openai {
namespace {

// Text of a request that is quoted in a message.
constexpr size_t kMostQuotedBytes = 60;
constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

// An integer, however JSON writes it.
std::optional<int64_t> exact_integer(const chat::Value& value) {
  if (value.is(chat::Kind::integer)) return value.as_int();
  if (!value.is(chat::Kind::floating)) return std::nullopt;
  const double number = value.as_double();
  if (std::abs(number) > kExactIntegers || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

std::string describe(const chat::Value& value) {
  switch (value.kind()) {
    case chat::Kind::none:
      return "null";
    case chat::Kind::boolean:
      return value.as_bool() ? "true" : "false";
    case chat::Kind::integer:
      return fmt::format("the number {}", value.as_int());
    case chat::Kind::floating:
      return fmt::format("the number {}", value.as_double());
    case chat::Kind::string:
      if (value.as_string().size() <= kMostQuotedBytes) return fmt::format("the text '{}'", value.as_string());
      return fmt::format("a text of {} bytes", value.as_string().size());
    case chat::Kind::list:
    case chat::Kind::tuple:
      return fmt::format("a list of {} items", value.items().size());
    case chat::Kind::dict:
    case chat::Kind::undefined:
    case chat::Kind::object:
      break;
  }
  return "an object";
}

void fail_type(const std::string& param, const chat::Value& value, std::string_view expected) {
  fail_field(param,
             fmt::format("{} is {}; expected {}", param.empty() ? "the request" : param, describe(value), expected));
}

chat::Value parse_body(std::string_view body) {
  chat::Value value;
  try {
    value = chat::value_from_json(body);
  } catch (const chat::JsonNumberError& error) {
    fail_field(error.path(), fmt::format("{}: {}", error.path(), error.what()));
  } catch (const Error& error) {
    fail_field("", fmt::format("the request's body: {}", error.what()));
  }
  if (!value.is(chat::Kind::dict)) fail_type("", value, "a JSON object");
  return value;
}

Fields::Fields(const chat::Value& value, std::string path, bool strict)
    : value_(&value), path_(std::move(path)), strict_(strict) {
  if (!value.is(chat::Kind::dict)) fail_type(path_, value, "an object");
}

std::string Fields::path(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const chat::Value* Fields::find(std::string_view name) {
  if (!is_known(name)) known_.push_back(name);
  const chat::Value* value = value_->as_dict().find(name);
  return value == nullptr || value->is_none() ? nullptr : value;
}

const chat::Value& Fields::require(std::string_view name, std::string_view expected) {
  const chat::Value* value = find(name);
  if (value == nullptr) fail_field(path(name), fmt::format("{} is missing; expected {}", path(name), expected));
  return *value;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const chat::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is(chat::Kind::boolean)) fail_type(path(name), *value, "true or false");
  return value->as_bool();
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t low, int64_t high) {
  const chat::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto integer = exact_integer(*value);
  if (!integer || *integer < low || *integer > high) {
    fail_type(path(name), *value, fmt::format("an integer of {} to {}", low, high));
  }
  return integer;
}

std::optional<double> Fields::number(std::string_view name, double low, double high) {
  const chat::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  const bool is_number = value->is(chat::Kind::integer) || value->is(chat::Kind::floating);
  if (!is_number || !(value->as_double() >= low && value->as_double() <= high)) {
    fail_type(path(name), *value, fmt::format("a number of {} to {}", low, high));
  }
  return value->as_double();
}

std::optional<std::string> Fields::text(std::string_view name) {
  const chat::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail_type(path(name), *value, "a text");
  return value->as_string();
}

const std::vector<chat::Value>* Fields::list(std::string_view name) {
  const chat::Value* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is(chat::Kind::list)) fail_type(path(name), *value, "a list");
  return &value->items();
}

std::optional<Fields> Fields::object(std::string_view name) {
  const chat::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  return Fields(*value, path(name), strict_);
}

std::optional<size_t> Fields::choice(std::string_view name, std::span<const std::string_view> choices) {
  const chat::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto found = value->is_string() ? std::find(choices.begin(), choices.end(), value->as_string()) : choices.end();
  if (found == choices.end()) fail_type(path(name), *value, fmt::format("one of {}", fmt::join(choices, ", ")));
  return static_cast<size_t>(found - choices.begin());
}

void Fields::ignore(std::initializer_list<std::string_view> names) {
  known_.insert(known_.end(), names);
}

void Fields::refuse(std::string_view name, std::string_view way_out) {
  const chat::Value* value = find(name);
  if (value == nullptr) return;
  throw ApiFailure({.status = 400,
                    .message = fmt::format("{} is not supported by this server; {}", path(name), way_out),
                    .param = path(name),
                    .code = "unsupported_parameter"});
}

void Fields::finish() const {
  if (!strict_) return;
  for (const auto& [name, value] : members().entries()) {
    if (is_known(name.as_string())) continue;
    throw ApiFailure({.status = 400,
                      .message = fmt::format("{} is not a field that this server knows; leave it out, or start the "
                                             "server without --strict-fields",
                                             path(name.as_string())),
                      .param = path(name.as_string()),
                      .code = "unknown_parameter"});
  }
}

bool Fields::is_known(std::string_view name) const {
  return std::find(known_.begin(), known_.end(), name) != known_.end();
}

}  // namespace minfer::server::openai
