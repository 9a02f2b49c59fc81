// The parser: text waits in pending until it is certain what it is. In text the earliest mark is looked for, and the
// end that may become one is kept back; behind a mark the head of a call is tried (output/call_head.hpp) on all that
// waits; arguments go through a reader of their style (output/argument_reader.hpp).
//
// Whitespace at the end of text is kept back as well: behind it a mark may come, and then it belongs to the mark.
#include "chat/output_parser.hpp"

#include <algorithm>
#include <utility>

#include "chat/output/argument_reader.hpp"
#include "chat/output/call_head.hpp"
#include "chat/output/channels.hpp"

namespace minfer::chat {

namespace {

using output::CallHead;
using output::CallTail;
using output::Fit;
using output::Match;
using EventKind = OutputEvent::Kind;

constexpr size_t kMostHeadBytes = size_t{1} << 20;
constexpr size_t kNone = std::string_view::npos;

struct Mark {
  enum class Meaning : uint8_t { call, open_reasoning, close_reasoning, channel, dropped };
  std::string_view text;
  Meaning meaning;
  const output::Opener* opener = nullptr;
};

}  // namespace

struct OutputParser::State {
  State(const OutputFormat& format_in, std::vector<ToolSignature> tools_in, std::string_view prompt);

  void run(bool final);
  void finish();

  OutputFormat format;
  std::vector<ToolSignature> tools;
  std::string pending;  // not decided yet
  std::vector<OutputEvent>* events = nullptr;

 private:
  enum class Mode : uint8_t { content, reasoning, arguments, tail };

  bool step(bool final);
  bool step_text(bool final);
  bool step_bare(bool final, bool& waits);
  bool step_mark(bool final, bool& waits);
  bool step_channel(std::string_view mark, bool final, bool& waits);
  bool step_arguments(bool final);
  bool step_tail(bool final);
  Fit try_head(const CallHead& head, size_t skipped);
  void begin_call(const CallHead& head, size_t size);
  void break_call();
  void end_arguments(bool cut);
  void enter(Mode mode);
  void emit(EventKind kind, std::string_view text, bool cut = false);
  void emit_text(std::string_view text);
  const std::vector<Mark>& marks() const { return mode_ == Mode::reasoning ? reasoning_marks_ : content_marks_; }
  void add_marks();

  output::CallSyntax syntax_;
  std::vector<Mark> content_marks_;
  std::vector<Mark> reasoning_marks_;
  Mode mode_ = Mode::content;
  std::string space_;        // whitespace at the end of the text so far
  bool skip_space_ = false;  // behind a mark
  bool fresh_ = true;        // no text since the beginning or the last mark
  bool tried_bare_ = false;  // what waits is no bare call
  size_t next_try_ = 0;      // bytes that must wait before a head is tried again

  size_t calls_ = 0;
  CallHead head_;
  std::string call_text_;  // the call so far, as the model wrote it
  std::unique_ptr<output::ArgumentReader> reader_;
};

OutputParser::State::State(const OutputFormat& format_in, std::vector<ToolSignature> tools_in, std::string_view prompt)
    : format(format_in), tools(std::move(tools_in)), syntax_(output::make_call_syntax(*format.tools, tools)) {
  add_marks();
  if (begins_in_reasoning(format, prompt)) enter(Mode::reasoning);
}

void OutputParser::State::add_marks() {
  using Meaning = Mark::Meaning;
  if (!tools.empty())
    for (const output::Opener& opener : syntax_.openers)
      if (!format.tools->channels) content_marks_.push_back({opener.mark, Meaning::call, &opener});
  if (format.reasoning != nullptr) {
    content_marks_.push_back({format.reasoning->open, Meaning::open_reasoning});
    reasoning_marks_ = {{format.reasoning->close, Meaning::close_reasoning},
                        {format.reasoning->open, Meaning::open_reasoning}};  // once more behind the prompt's own
  }
  for (const std::string_view text : format.tools->dropped)
    if (!text.empty()) content_marks_.push_back({text, Meaning::dropped});
  if (!format.tools->channels) return;
  for (const std::string_view text : output::kChannelEnds) content_marks_.push_back({text, Meaning::dropped});
  content_marks_.push_back({output::kChannelStart, Meaning::channel});
  content_marks_.push_back({output::kChannelMark, Meaning::channel});
  reasoning_marks_ = content_marks_;
}

void OutputParser::State::run(bool final) {
  while (step(final)) {
  }
}

void OutputParser::State::finish() {
  run(true);
  emit_text(std::exchange(pending, {}));
  if (!skip_space_)
    emit(mode_ == Mode::reasoning ? EventKind::reasoning : EventKind::content, std::exchange(space_, {}));
}

bool OutputParser::State::step(bool final) {
  if (mode_ == Mode::arguments) return step_arguments(final);
  if (mode_ == Mode::tail) return step_tail(final);
  return step_text(final);
}

// Content or reasoning.
bool OutputParser::State::step_text(bool final) {
  if (pending.size() < next_try_ && !final) return false;
  if (skip_space_) pending.erase(0, output::after_space(pending));
  if (pending.empty()) return false;
  skip_space_ = false;
  bool waits = false;
  if (step_bare(final, waits)) return true;
  if (waits) return false;

  size_t first = kNone;
  for (const Mark& mark : marks()) first = std::min(first, pending.find(mark.text));
  if (first != kNone) {
    emit_text(std::string_view(pending).substr(0, first));
    pending.erase(0, first);
    return step_mark(final, waits);
  }
  size_t certain = pending.size();
  if (!final)
    for (const Mark& mark : marks()) certain = std::min(certain, output::certain_bytes(pending, {&mark.text, 1}));
  emit_text(std::string_view(pending).substr(0, certain));
  pending.erase(0, certain);
  return false;
}

// A call without any mark, at the beginning.
bool OutputParser::State::step_bare(bool final, bool& waits) {
  if (!fresh_ || tried_bare_ || mode_ != Mode::content || !format.tools->bare || tools.empty()) return false;
  const size_t space = output::after_space(pending);
  if (space == pending.size()) {
    waits = !final;
    return false;
  }
  if (pending[space] == '{' || pending[space] == '[') {
    const CallHead head = output::match_bare_head(syntax_, std::string_view(pending).substr(space), final);
    const Fit fit = try_head(head, space);
    waits = fit == Fit::more;
    if (fit != Fit::no) return fit == Fit::yes;
  }
  tried_bare_ = true;
  return false;
}

// pending begins with at least one of the marks.
bool OutputParser::State::step_mark(bool final, bool& waits) {
  size_t shortest = kNone;
  for (const Mark& mark : marks()) {
    if (!pending.starts_with(mark.text)) continue;
    shortest = std::min(shortest, mark.text.size());
    switch (mark.meaning) {
      case Mark::Meaning::call: {
        const Fit fit = try_head(output::match_head(syntax_, *mark.opener, pending, final), 0);
        if (fit != Fit::no) return fit == Fit::yes;
        break;
      }
      case Mark::Meaning::channel:
        if (step_channel(mark.text, final, waits)) return true;
        if (waits) return false;
        break;
      case Mark::Meaning::open_reasoning:
        if (!fresh_) break;
        pending.erase(0, mark.text.size());
        enter(Mode::reasoning);
        return true;
      case Mark::Meaning::close_reasoning:
        pending.erase(0, mark.text.size());
        enter(Mode::content);
        return true;
      case Mark::Meaning::dropped:
        pending.erase(0, mark.text.size());
        space_.clear();
        skip_space_ = true;
        return true;
    }
  }
  emit_text(std::string_view(pending).substr(0, shortest));
  pending.erase(0, shortest);
  next_try_ = 0;
  return true;
}

bool OutputParser::State::step_channel(std::string_view mark, bool final, bool& waits) {
  const output::ChannelHeader header = output::match_channel_header(pending, final);
  waits = header.fit == Fit::more;
  if (header.fit != Fit::yes) return false;
  if (header.recipient.empty()) {
    pending.erase(0, header.size);
    enter(header.reasoning ? Mode::reasoning : Mode::content);
    return true;
  }
  const auto tool = std::find_if(tools.begin(), tools.end(),
                                 [&](const ToolSignature& known) { return known.name == header.recipient; });
  if (tool != tools.end() && calls_ < kMaxCalls) {
    begin_call({.fit = Fit::yes, .size = header.size, .tool = static_cast<size_t>(tool - tools.begin())}, header.size);
    return true;
  }
  // A call of no known tool is content, with its header.
  if (mode_ == Mode::reasoning) enter(Mode::content);
  skip_space_ = false;
  emit_text(mark);
  pending.erase(0, mark.size());
  return true;
}

// What to do with a head that was looked for behind `skipped` bytes of pending.
Fit OutputParser::State::try_head(const CallHead& head, size_t skipped) {
  if (head.fit == Fit::more && pending.size() <= kMostHeadBytes) {
    // Trying again costs as much as there is text: only once an eighth more has come.
    next_try_ = pending.size() + pending.size() / 8;
    return Fit::more;
  }
  next_try_ = 0;
  if (head.fit != Fit::yes || head.size > kMostHeadBytes || calls_ >= kMaxCalls) return Fit::no;
  begin_call(head, skipped + head.size);
  return Fit::yes;
}

// `size` bytes of pending are the call's head.
void OutputParser::State::begin_call(const CallHead& head, size_t size) {
  head_ = head;
  call_text_ = std::exchange(space_, {}) + pending.substr(0, size);
  pending.erase(0, size);
  const ToolSignature& tool = tools[head.tool];
  emit(EventKind::call_begin, tool.name);
  if (head.arguments.has_value()) {
    emit(EventKind::arguments, *head.arguments);
    end_arguments(false);
    return;
  }
  reader_ = output::make_argument_reader(*format.tools, tool, head.object);
  mode_ = Mode::arguments;
}

bool OutputParser::State::step_arguments(bool final) {
  const size_t room = kMaxCallBytes - std::min(kMaxCallBytes, call_text_.size());
  const std::string_view text = std::string_view(pending).substr(0, room);
  const bool too_long = text.size() < pending.size();
  std::string json;
  const Match match = reader_->read(text, final && !too_long, json);
  if (!json.empty()) emit(EventKind::arguments, json);
  call_text_ += text.substr(0, match.size);
  pending.erase(0, match.size);
  if (match.fit == Fit::yes) {
    end_arguments(false);
    return true;
  }
  if (match.fit == Fit::no || too_long) {
    break_call();
    return true;
  }
  if (final) {
    end_arguments(true);
    pending.clear();  // the beginning of a mark, or of an escape
  }
  return false;
}

void OutputParser::State::end_arguments(bool cut) {
  emit(EventKind::call_end, {}, cut);
  reader_.reset();
  ++calls_;
  enter(Mode::tail);
}

void OutputParser::State::break_call() {
  emit(EventKind::call_broken, call_text_);
  reader_.reset();
  ++calls_;
  mode_ = Mode::content;
  fresh_ = false;
}

bool OutputParser::State::step_tail(bool final) {
  if (pending.empty() && !final) return false;
  const CallTail tail = output::match_tail(syntax_, head_, pending, final);
  if (tail.fit == Fit::more && pending.size() <= kMostHeadBytes) return false;
  if (tail.next.fit == Fit::yes && tail.size <= kMostHeadBytes && calls_ < kMaxCalls) {
    begin_call(tail.next, tail.size);
    return true;
  }
  if (tail.fit == Fit::yes && tail.next.fit != Fit::yes && tail.size <= kMostHeadBytes) pending.erase(0, tail.size);
  enter(Mode::content);
  return true;
}

void OutputParser::State::enter(Mode mode) {
  mode_ = mode;
  space_.clear();
  skip_space_ = mode != Mode::tail;
  fresh_ = true;
  tried_bare_ = false;
  next_try_ = 0;
}

void OutputParser::State::emit(EventKind kind, std::string_view text, bool cut) {
  const bool piece = kind == EventKind::content || kind == EventKind::reasoning || kind == EventKind::arguments;
  if (piece && text.empty()) return;
  const size_t call = kind == EventKind::content || kind == EventKind::reasoning ? 0 : calls_;
  if (piece && !events->empty() && events->back().kind == kind && events->back().call == call) {
    events->back().text += text;
    return;
  }
  events->push_back({kind, call, std::string(text), cut});
}

void OutputParser::State::emit_text(std::string_view text) {
  const EventKind kind = mode_ == Mode::reasoning ? EventKind::reasoning : EventKind::content;
  size_t end = text.size();
  if (!marks().empty())
    while (end > 0 && output::is_space(text[end - 1])) --end;
  if (end > 0) {
    emit(kind, std::exchange(space_, {}));
    emit(kind, text.substr(0, end));
    fresh_ = false;
  }
  space_ += text.substr(end);
}

OutputParser::OutputParser(const OutputFormat& format, std::vector<ToolSignature> tools, std::string_view prompt)
    : state_(std::make_unique<State>(format, std::move(tools), prompt)) {}

OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

void OutputParser::push(std::string_view text, std::vector<OutputEvent>& events) {
  state_->pending += text;
  state_->events = &events;
  state_->run(false);
}

void OutputParser::finish(std::vector<OutputEvent>& events) {
  state_->events = &events;
  state_->finish();
}

}  // namespace minfer::chat
