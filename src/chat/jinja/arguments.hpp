// Binding of call arguments to the parameters of filters, tests, methods and global functions, with Python's rules and
// messages: positional first, then keywords, nothing twice, nothing unknown.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/operators.hpp"

namespace minfer::chat::jinja {

// The arguments in the order of `names`; null where one was left out.
template <size_t kCount>
class Bound {
 public:
  Bound(const Arguments& arguments, const std::array<std::string_view, kCount>& names, size_t required = 0)
      : names_(names) {
    if (arguments.positional.size() > kCount) {
      raise("takes at most {} argument(s) ({} given)", kCount, arguments.positional.size());
    }
    for (size_t index = 0; index < arguments.positional.size(); ++index) values_[index] = &arguments.positional[index];
    for (const auto& [name, value] : arguments.keyword) {
      const auto found = std::find(names_.begin(), names_.end(), name);
      if (found == names_.end()) raise("got an unexpected keyword argument '{}'", name);
      const Value*& place = values_[static_cast<size_t>(found - names_.begin())];
      if (place != nullptr) raise("got multiple values for argument '{}'", name);
      place = &value;
    }
    for (size_t index = 0; index < required; ++index) {
      if (values_[index] == nullptr) raise("missing a required argument: '{}'", names_[index]);
    }
  }

  bool has(size_t index) const { return values_[index] != nullptr; }
  // Passed, and not none.
  bool given(size_t index) const { return has(index) && !values_[index]->is_none(); }
  const Value& operator[](size_t index) const { return *values_[index]; }
  Value get(size_t index, const Value& otherwise) const { return has(index) ? *values_[index] : otherwise; }
  bool flag(size_t index) const { return has(index) && truth(*values_[index]); }

  int64_t integer(size_t index, int64_t otherwise) const {
    if (!has(index)) return otherwise;
    if (values_[index]->is_undefined()) fail_undefined(*values_[index]);
    if (!values_[index]->is_int()) raise("'{}' object cannot be interpreted as an integer", type_name(*values_[index]));
    return values_[index]->as_int();
  }

  std::string_view text(size_t index, std::string_view otherwise) const {
    if (!has(index)) return otherwise;
    if (!values_[index]->is_string()) {
      raise("argument '{}' must be str, not {}", names_[index], type_name(*values_[index]));
    }
    return values_[index]->as_string();
  }

 private:
  std::array<std::string_view, kCount> names_;
  std::array<const Value*, kCount> values_{};
};

template <class... Names>
Bound<sizeof...(Names)> bind(const Arguments& arguments, size_t required, Names... names) {
  return Bound<sizeof...(Names)>(arguments, std::array<std::string_view, sizeof...(Names)>{std::string_view(names)...},
                                 required);
}

inline void expect_none(const Arguments& arguments) {
  if (!arguments.positional.empty() || !arguments.keyword.empty()) raise("takes no arguments");
}

// The entry of a table sorted by name; null where there is none.
template <class Entry, size_t kCount>
const Entry* find_entry(const Entry (&table)[kCount], std::string_view name) {
  const Entry* found = std::lower_bound(std::begin(table), std::end(table), name,
                                        [](const Entry& entry, std::string_view key) { return entry.name < key; });
  return found != std::end(table) && found->name == name ? found : nullptr;
}

}  // namespace minfer::chat::jinja
