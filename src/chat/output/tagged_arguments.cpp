// Arguments between tags, one parameter after another. A value of text is written on while it comes; any other is kept
// until its end tag, for only the whole tells what it is.
#include <utility>

#include "chat/output/argument_readers.hpp"
#include "chat/output/value_types.hpp"

namespace minfer::chat::output {

namespace {

constexpr size_t kMostKeyBytes = 256;
constexpr std::string_view kCdataBegin = "<![CDATA[";
constexpr std::string_view kCdataEnd = "]]>";

std::string_view without_space_behind(std::string_view piece) {
  while (!piece.empty() && is_space(piece.back())) piece.remove_suffix(1);
  return piece;
}

class TaggedReader final : public ArgumentReader {
 public:
  TaggedReader(const ToolSyntax& syntax, Value parameters) : syntax_(syntax), parameters_(std::move(parameters)) {}

  Match read(std::string_view text, bool final, std::string& out) override {
    if (!std::exchange(begun_, true)) out += '{';
    for (size_t at = 0;;) {
      const Match match = step(text.substr(at), final, out);
      at += match.size;
      if (match.fit != Fit::yes || place_ == Place::over) return {match.fit, at};
    }
  }

 private:
  enum class Place : uint8_t { between, key, value_begin, value, over };

  Match step(std::string_view text, bool final, std::string& out) {
    switch (place_) {
      case Place::between:
        return read_between(text, final, out);
      case Place::key:
        return read_key(text, final, out);
      case Place::value_begin:
        return read_value_begin(text, final);
      default:
        return read_value(text, out);
    }
  }

  Match read_between(std::string_view text, bool final, std::string& out) {
    const size_t space = after_space(text);
    const std::string_view rest = text.substr(space);
    if (rest.empty()) return {Fit::more};
    const Match begin = match_piece(rest, syntax_.parameter_begin, final);
    if (begin.fit == Fit::yes) {
      place_ = Place::key;
      return {Fit::yes, space + begin.size};
    }
    bool undecided = begin.fit == Fit::more;
    for (const std::string_view end : {syntax_.call_end, syntax_.separator, syntax_.suffix}) {
      const std::string_view mark = trimmed(end);
      if (mark.empty()) continue;
      const Match match = match_piece(rest, mark, final);
      if (match.fit == Fit::yes) {
        out += '}';
        place_ = Place::over;
        return {Fit::yes, space};
      }
      undecided = undecided || match.fit == Fit::more;
    }
    return {undecided ? Fit::more : Fit::no};
  }

  Match read_key(std::string_view text, bool final, std::string& out) {
    const std::string_view name_end = without_space_behind(syntax_.parameter_name_end);
    const std::string_view text_end = without_space_behind(syntax_.text_name_end);
    const size_t size = std::min(text.find(name_end.front()), text.find('\n'));
    if (std::min(size, text.size()) > kMostKeyBytes) return {Fit::no};
    if (size == std::string_view::npos) return {Fit::more};
    const std::string_view rest = text.substr(size);
    Match match = {Fit::no};
    const bool typed = !text_end.empty();
    if (typed) match = match_piece(rest, text_end, final);
    const bool said_text = match.fit == Fit::yes;
    if (match.fit == Fit::no) match = match_piece(rest, name_end, final);
    if (match.fit != Fit::yes) return {match.fit};
    begin_value(text.substr(0, size), typed, said_text, out);
    return {Fit::yes, size + match.size};
  }

  void begin_value(std::string_view key, bool typed, bool said_text, std::string& out) {
    types_ = parameter_types(parameters_, key);
    if (said_text) {
      types_.bits = TypeSet::text;
    } else if (typed && types_.only_text()) {
      types_.bits = TypeSet::any;
    }
    if (std::exchange(has_parameter_, true)) out += ", ";
    out += '"';
    append_escaped(out, key);
    out += "\": ";
    if (types_.only_text()) out += '"';
    value_.clear();
    end_ = trimmed(syntax_.parameter_end);
    place_ = Place::value_begin;
  }

  // One line break behind the opening tag is the syntax' own, where it has one.
  Match read_value_begin(std::string_view text, bool final) {
    size_t at = 0;
    if (syntax_.parameter_name_end.ends_with('\n')) {
      if (text.empty()) return {Fit::more};
      if (text.front() == '\n') at = 1;
    }
    if (syntax_.cdata) {
      const Match match = match_exact(text.substr(at), kCdataBegin, final);
      if (match.fit == Fit::more) return match;
      if (match.fit == Fit::yes) {
        at += match.size;
        end_ = std::string(kCdataEnd) + end_;
      }
    }
    place_ = Place::value;
    return {Fit::yes, at};
  }

  Match read_value(std::string_view text, std::string& out) {
    const bool own_break = syntax_.parameter_end.starts_with('\n');
    const size_t end = text.find(end_);
    const bool whole = end != std::string_view::npos;
    const std::string_view mark = end_;
    size_t size = whole ? end : certain_bytes(text, {&mark, 1});
    if (own_break && size > 0 && text[size - 1] == '\n') --size;
    if (types_.only_text()) {
      append_escaped(out, text.substr(0, size));
    } else {
      value_ += text.substr(0, size);
    }
    if (!whole) return {Fit::more, size};
    out += types_.only_text() ? "\"" : json_of_text(value_, types_);
    place_ = Place::between;
    return {Fit::yes, end + end_.size()};
  }

  const ToolSyntax& syntax_;
  const Value parameters_;
  Place place_ = Place::between;
  bool begun_ = false;
  bool has_parameter_ = false;
  TypeSet types_;
  std::string value_;  // so far, where it is kept until its end
  std::string end_;    // what ends the value
};

}  // namespace

std::unique_ptr<ArgumentReader> make_tagged_reader(const ToolSyntax& syntax, const ToolSignature& tool) {
  return std::make_unique<TaggedReader>(syntax, tool.parameters);
}

}  // namespace minfer::chat::output
