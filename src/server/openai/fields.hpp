// Typed reading of a request's JSON object: each member that an endpoint knows is asked for by name with its type and
// range, and what is wrong is an ApiFailure (400) that names the field by its path ("messages[2].content"), what was
// found and what was expected. A member that is null counts as not given, as OpenAI's clients send it. Members that
// nobody asked for are ignored, or refused by finish() where the server is strict. One thread; the Value outlives it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/value.hpp"

namespace minfer::server::openai {

// What `value` is, for messages: "the number 3", "a list".
std::string describe(const chat::Value& value);
// Throws: `param` is `value`, expected `what`.
[[noreturn]] void fail_type(const std::string& param, const chat::Value& value, std::string_view expected);

// The body of a request as a JSON object. Error: ApiFailure for what is no JSON, or no object.
chat::Value parse_body(std::string_view body);

class Fields {
 public:
  // `path`: where the object stands in the request; empty: it is the request. Error: ApiFailure for no object.
  Fields(const chat::Value& value, std::string path, bool strict);

  bool strict() const { return strict_; }
  std::string path(std::string_view name) const;
  // Each marks `name` as known. Null or no pointer: not given. Errors: ApiFailure for a value of another type, or out
  // of its range (both ends inclusive).
  const chat::Value* find(std::string_view name);
  const chat::Value& require(std::string_view name, std::string_view expected);
  std::optional<bool> boolean(std::string_view name);
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high);
  std::optional<double> number(std::string_view name, double low, double high);
  std::optional<std::string> text(std::string_view name);
  const std::vector<chat::Value>* list(std::string_view name);
  std::optional<Fields> object(std::string_view name);
  // The index of one of `choices`.
  std::optional<size_t> choice(std::string_view name, std::span<const std::string_view> choices);
  std::optional<size_t> choice(std::string_view name, std::initializer_list<std::string_view> choices) {
    return choice(name, std::span(choices.begin(), choices.size()));
  }

  // Known, and without effect here whatever its value.
  void ignore(std::initializer_list<std::string_view> names);
  // Known, and not done here: an error where it is given. `way_out` ends the message.
  void refuse(std::string_view name, std::string_view way_out);
  // Where the server is strict: ApiFailure for a member that nobody asked for.
  void finish() const;
  // The members that nobody asked for.
  const chat::Dict& members() const { return value_->as_dict(); }
  bool is_known(std::string_view name) const;

 private:
  const chat::Value* value_;
  std::string path_;
  bool strict_;
  std::vector<std::string_view> known_;
};

}  // namespace minfer::server::openai
