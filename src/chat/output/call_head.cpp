// Heads and tails of calls in the two forms: names between marks, and JSON objects with the name as a field.
#include "chat/output/call_head.hpp"

#include <algorithm>

#include "chat/output/json_cursor.hpp"
#include "chat/output/json_scanner.hpp"

namespace minfer::chat::output {

namespace {

constexpr size_t kMostIdBytes = 64;

// The first mark of a piece: up to its first whitespace.
std::string_view first_mark(std::string_view piece) {
  piece.remove_prefix(after_space(piece));
  const size_t size = piece.find_first_of(" \n\t");
  return piece.substr(0, size);
}

// `piece` without the JSON at its end (`{"name": "` and what leads to it).
std::string_view before_json(std::string_view piece) {
  return trimmed(piece.substr(0, piece.find('{')));
}

// What closes a row's calls behind the JSON: the last mark of call_end and suffix.
std::string_view behind_json(std::string_view piece) {
  while (!piece.empty() && (is_space(piece.front()) || piece.front() == '}' || piece.front() == ']'))
    piece.remove_prefix(1);
  return piece;
}

std::string_view without_list(std::string_view piece) {
  while (piece.ends_with('[') || (!piece.empty() && is_space(piece.back()))) piece.remove_suffix(1);
  return piece;
}

void add_object_openers(const ToolSyntax& row, std::vector<Opener>& openers) {
  const std::string_view begin =
      row.prefix.empty() ? before_json(row.call_begin) : trimmed(without_list(trimmed(row.prefix)));
  const std::string_view closer = behind_json(row.suffix.empty() ? row.call_end : row.suffix);
  if (!begin.empty()) openers.push_back({begin, closer, true});
  if (!row.bare) return;
  openers.push_back({"<|python_tag|>", "", true});
  openers.push_back({"<tool_call>", "</tool_call>", true});
  openers.push_back({"<tools>", "</tools>", true});
  openers.push_back({"```json", "```", true, true});
}

// Fields of an object that make a call.
struct Fields {
  std::optional<size_t> tool;
  std::optional<std::string> arguments;  // known already
  bool begun = false;                    // the arguments come next
};

std::optional<size_t> tool_named(const CallSyntax& syntax, std::string_view name) {
  const std::vector<ToolSignature>& tools = *syntax.tools;
  for (size_t i = 0; i < tools.size(); ++i)
    if (tools[i].name == name) return i;
  return std::nullopt;
}

bool is_name_key(std::string_view key) {
  return key == "name" || key == "tool_name";
}
bool is_arguments_key(std::string_view key) {
  return key == "arguments" || key == "parameters";
}

// The value behind the key of the arguments. Sets fields.begun where it is an object that may be read as it comes.
bool read_arguments(JsonCursor& cursor, Fields& fields) {
  const char next = cursor.peek();
  if (cursor.fit() != Fit::yes) return false;
  if (next == '{' && fields.tool.has_value()) {
    fields.begun = true;
    return true;
  }
  std::string inner;
  std::string json;
  std::string_view text;
  if (next == '"') {  // JSON inside a string
    if (!cursor.string(inner)) return false;
    text = inner;
  } else if (!cursor.skip(text)) {
    return false;
  }
  const std::string_view value = trimmed(text);
  if (value.empty() || value == "null") {
    fields.arguments = "{}";
  } else if (value.front() == '{' && read_json(value, kMaxArgumentDepth, json)) {
    fields.arguments = std::move(json);
  } else {
    fields.arguments.reset();
    return cursor.refuse();
  }
  return true;
}

// The value behind `key`, in an object at `depth`.
bool read_field(const CallSyntax& syntax, const std::string& key, JsonCursor& cursor, Fields& fields, uint32_t& depth) {
  const char next = cursor.peek();
  if (cursor.fit() != Fit::yes) return false;
  const bool names = is_name_key(key) || (key == "function" && next == '"');
  if (names) {
    std::string name;
    if (!cursor.string(name)) return false;
    fields.tool = tool_named(syntax, name);
    return fields.tool.has_value() || cursor.refuse();
  }
  if (is_arguments_key(key)) return read_arguments(cursor, fields);
  if (key == "function" && next == '{' && depth == 1) {
    ++depth;
    return cursor.eat('{');
  }
  std::string_view skipped;
  return cursor.skip(skipped);
}

// A JSON object with the name and the arguments, `cursor` before its brace.
CallHead match_object(const CallSyntax& syntax, JsonCursor& cursor, bool needs_arguments) {
  CallHead head{.fit = Fit::no, .object = true};
  Fields fields;
  uint32_t depth = 1;
  if (!cursor.eat('{')) return {.fit = cursor.fit()};
  const auto is_call = [&] { return fields.tool.has_value() && (fields.arguments.has_value() || !needs_arguments); };
  while (depth > 0) {
    const char next = cursor.peek();
    if (cursor.fit() != Fit::yes) return {.fit = cursor.fit()};
    if (next == '}') {
      (void)cursor.eat('}');
      --depth;
      continue;
    }
    if (next == ',') (void)cursor.eat(',');
    std::string key;
    if (!cursor.string(key) || !cursor.eat(':') || !read_field(syntax, key, cursor, fields, depth))
      return {.fit = cursor.fit()};
    if (fields.begun || (fields.tool.has_value() && fields.arguments.has_value())) break;
  }
  if (!fields.begun && !is_call()) return head;
  head.fit = Fit::yes;
  head.size = cursor.at();
  head.tool = *fields.tool;
  head.open_objects = depth;
  if (!fields.begun) head.arguments = fields.arguments.value_or("{}");
  return head;
}

// An object, or the first of a list of them, behind `skipped` bytes of `text`.
CallHead match_objects(const CallSyntax& syntax, std::string_view text, size_t skipped, bool final,
                       bool needs_arguments) {
  JsonCursor cursor(text, skipped, final);
  const bool in_list = cursor.peek() == '[' && cursor.eat('[');
  if (cursor.fit() != Fit::yes) return {.fit = cursor.fit()};
  CallHead head = match_object(syntax, cursor, needs_arguments);
  head.in_list = in_list;
  return head;
}

// NAME [id] name_end, at the front of `text`.
CallHead match_name(const CallSyntax& syntax, std::string_view text, bool final) {
  const ToolSyntax& row = *syntax.row;
  CallHead best;
  bool undecided = false;
  for (size_t i = 0; i < syntax.tools->size(); ++i) {
    const std::string& name = (*syntax.tools)[i].name;
    const Match named = match_exact(text, name, final);
    undecided = undecided || named.fit == Fit::more;
    if (named.fit != Fit::yes) continue;
    size_t at = name.size();
    if (at == text.size()) {
      undecided = undecided || !final;
      continue;
    }
    if (is_name_byte(text[at])) continue;
    const Match mark = row.id_mark.empty() ? Match{} : match_exact(text.substr(at), row.id_mark, final);
    if (mark.fit == Fit::more) return {.fit = Fit::more};
    if (mark.fit == Fit::yes) {
      const size_t end = text.find(row.name_end.front(), at + mark.size);
      if (end == std::string_view::npos && text.size() - at <= kMostIdBytes && !final) return {.fit = Fit::more};
      if (end == std::string_view::npos || end - at > kMostIdBytes) continue;
      at = end;
    }
    const Match end = match_piece(text.substr(at), row.name_end, final);
    undecided = undecided || end.fit == Fit::more;
    if (end.fit == Fit::yes) best = {.fit = Fit::yes, .size = at + end.size, .tool = i};
  }
  if (best.fit != Fit::yes && undecided) best.fit = Fit::more;
  return best;
}

// call_begin NAME name_end, behind `skipped` bytes.
CallHead match_named(const CallSyntax& syntax, std::string_view text, size_t skipped, bool final) {
  const Match begin = match_piece(text.substr(skipped), syntax.row->call_begin, final);
  if (begin.fit != Fit::yes) return {.fit = begin.fit};
  CallHead head = match_name(syntax, text.substr(skipped + begin.size), final);
  head.size += skipped + begin.size;
  return head;
}

// Behind the arguments of a JSON object: its other fields and brackets, the next one of the list, the closing mark.
CallTail match_object_tail(const CallSyntax& syntax, const CallHead& last, std::string_view text, bool final) {
  JsonCursor cursor(text, 0, final);
  const auto failed = [&](size_t size) {
    return cursor.fit() == Fit::more ? CallTail{Fit::more} : CallTail{Fit::yes, size};
  };
  size_t sure = 0;  // bytes that are syntax for certain
  for (uint32_t open = last.open_objects; open > 0;) {
    if (cursor.peek() == ',') {
      std::string key;
      std::string_view value;
      if (!cursor.eat(',') || !cursor.string(key) || !cursor.eat(':') || !cursor.skip(value)) return failed(sure);
    } else if (cursor.eat('}')) {
      --open;
    } else {
      return failed(sure);
    }
    sure = cursor.at();
  }
  if (last.in_list) {
    const char next = cursor.peek();
    if (next == ',' && cursor.eat(',')) {
      CallHead head = match_object(syntax, cursor, false);
      if (head.fit == Fit::more) return {Fit::more};
      if (head.fit == Fit::no) return {Fit::yes, sure};
      head.in_list = true;
      head.closer = last.closer;
      return {Fit::yes, head.size, head};
    }
    if (!cursor.eat(']')) return failed(sure);
    sure = cursor.at();
  }
  const size_t space = after_space(text, sure);
  if (!last.closer.empty()) {
    const Match closer = match_exact(text.substr(space), last.closer, final);
    if (closer.fit == Fit::more) return {Fit::more};
    return {Fit::yes, closer.fit == Fit::yes ? space + closer.size : sure};
  }
  if (!syntax.row->bare || last.in_list) return {Fit::yes, sure};
  const size_t begin = space < text.size() && (text[space] == ';' || text[space] == ',') ? space + 1 : space;
  if (begin == text.size() && !final) return {Fit::more};
  CallHead next = match_objects(syntax, text, begin, final, true);
  if (next.fit == Fit::more) return {Fit::more};
  return next.fit == Fit::yes ? CallTail{Fit::yes, next.size, next} : CallTail{Fit::yes, sure};
}

}  // namespace

CallSyntax make_call_syntax(const ToolSyntax& row, const std::vector<ToolSignature>& tools) {
  CallSyntax syntax{.row = &row, .tools = &tools, .openers = {}};
  if (row.json_object) {
    add_object_openers(row, syntax.openers);
    return syntax;
  }
  for (const std::string_view piece : {row.prefix, row.call_begin}) {
    const std::string_view mark = without_list(first_mark(piece));
    const std::string_view closer = behind_json(row.suffix.empty() ? trimmed(row.call_end) : trimmed(row.suffix));
    if (!mark.empty()) syntax.openers.push_back({mark, closer});
  }
  return syntax;
}

CallHead match_head(const CallSyntax& syntax, const Opener& opener, std::string_view text, bool final) {
  CallHead head = match_objects(syntax, text, opener.mark.size(), final, opener.needs_arguments);
  if (head.fit == Fit::yes) head.closer = opener.closer;
  if (head.fit != Fit::no || opener.object_only) return head;
  CallHead named = match_named(syntax, text, 0, final);
  if (named.fit != Fit::no || syntax.row->prefix.empty()) return named;
  const Match prefix = match_piece(text, syntax.row->prefix, final);
  if (prefix.fit != Fit::yes) return {.fit = prefix.fit};
  return match_named(syntax, text, prefix.size, final);
}

CallHead match_bare_head(const CallSyntax& syntax, std::string_view text, bool final) {
  return match_objects(syntax, text, 0, final, true);
}

CallTail match_tail(const CallSyntax& syntax, const CallHead& last, std::string_view text, bool final) {
  if (last.object) return match_object_tail(syntax, last, text, final);
  const ToolSyntax& row = *syntax.row;
  size_t sure = 0;
  const size_t space = after_space(text);
  if (space == text.size() && !final) return {Fit::more};
  const std::string_view call_end = trimmed(row.call_end);
  if (!call_end.empty()) {
    const Match end = match_piece(text.substr(space), call_end, final);
    if (end.fit == Fit::more) return {Fit::more};
    if (end.fit == Fit::yes) sure = space + end.size;
  }
  const std::string_view rest = text.substr(sure);
  const Match separator = match_piece(rest.substr(after_space(rest)), trimmed(row.separator), final);
  if (separator.fit == Fit::more) return {Fit::more};
  if (separator.fit == Fit::yes) {
    const size_t begin = after_space(text, sure + after_space(rest) + separator.size);
    if (begin == text.size() && !final) return {Fit::more};
    const CallHead next = match_named(syntax, text, begin, final);
    if (next.fit == Fit::more) return {Fit::more};
    if (next.fit == Fit::yes) return {Fit::yes, next.size, next};
  }
  const std::string_view suffix = trimmed(row.suffix);
  if (!suffix.empty()) {
    const size_t begin = after_space(text, sure);
    const Match end = match_piece(text.substr(begin), suffix, final);
    if (end.fit == Fit::more) return {Fit::more};
    if (end.fit == Fit::yes) sure = begin + end.size;
  }
  return {Fit::yes, sure};
}

}  // namespace minfer::chat::output
