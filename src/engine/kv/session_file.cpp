// Identity of models, and reading and verifying of session files. See session_file.hpp; writing is in session_save.cpp.
#include "engine/kv/session_file.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file_map.hpp"
#include "engine/kv/hash128.hpp"
#include "engine/kv/session_format.hpp"

namespace minfer::engine {
namespace {

// Of each tensor's data, from its middle, in the identity of a model.
constexpr size_t kSampleBytes = 64;

// Numbers, and runs of bytes behind their lengths: no two lists of those hash the same bytes.
class IdentityHash {
 public:
  void bytes(std::span<const std::byte> data) {
    number(data.size());
    hash_.add(data);
  }
  void text(std::string_view text) { bytes(std::as_bytes(std::span(text.data(), text.size()))); }
  void number(uint64_t value) { hash_.add(std::as_bytes(std::span(&value, 1))); }
  std::array<uint64_t, 2> value() const { return hash_.value(); }

 private:
  Hash128 hash_;
};

// Takes structures from the front of a file whose size has been compared with what it must hold.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : left_(bytes) {}
  size_t left() const { return left_.size(); }
  std::span<const std::byte> take(size_t bytes) {
    check(bytes <= left_.size(), "a session file was read past its verified size");
    const auto taken = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return taken;
  }
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> left_;
};

template <size_t N>
std::string_view text_of(const std::array<char, N>& field) {
  return {field.data(), static_cast<size_t>(std::find(field.begin(), field.end(), '\0') - field.begin())};
}

std::string_view format_name(uint32_t format) {
  return format < graph::kKvFormatNames.size() ? graph::kKvFormatNames[format] : "of an unknown number";
}

// What a verified file holds; views into it.
struct Session {
  SessionHeader header;
  std::vector<SessionGroup> groups;
  std::vector<int32_t> ids;  // of the tokens, then of those pending
  std::span<const std::byte> pages;
};

// The file has its size, and is of this version. The magic and the version come first: of another version, nothing else
// is known.
SessionHeader read_header(const std::string& name, std::span<const std::byte> bytes) {
  constexpr size_t kLeast = sizeof(SessionHeader) + kSessionChecksumBytes;
  if (bytes.size() < kSessionMagic.size() ||
      std::memcmp(bytes.data(), kSessionMagic.data(), kSessionMagic.size()) != 0) {
    fail(ErrorCode::invalid_input, "{}: no session file: it doesn't begin with 'minferKV'", name);
  }
  if (bytes.size() < kLeast) {
    fail(ErrorCode::invalid_input, "{}: {} bytes; expected at least {}: the session file is cut", name, bytes.size(),
         kLeast);
  }
  const SessionHeader header = Cursor(bytes).take<SessionHeader>();
  if (header.version != kSessionVersion) {
    fail(ErrorCode::unsupported, "{}: version {} of the session format; expected {}", name, header.version,
         kSessionVersion);
  }
  if (header.file_bytes != bytes.size()) {
    fail(ErrorCode::invalid_input, "{}: {} bytes; its header says {}: the session file is cut or damaged", name,
         bytes.size(), header.file_bytes);
  }
  return header;
}

SessionHeader verify_file(const std::string& name, std::span<const std::byte> bytes) {
  const SessionHeader header = read_header(name, bytes);
  const auto body = bytes.first(bytes.size() - kSessionChecksumBytes);
  const auto stored = Cursor(bytes.last(kSessionChecksumBytes)).take<std::array<uint64_t, 2>>();
  Hash128 hash;
  hash.add(body);
  const std::array<uint64_t, 2> expected = hash.value();
  if (stored != expected) {
    fail(ErrorCode::invalid_input, "{}: checksum {:016x}{:016x}; expected {:016x}{:016x}: the session file is damaged",
         name, stored[1], stored[0], expected[1], expected[0]);
  }
  return header;
}

template <class Found, class Expected>
void mismatch(const std::string& name, std::string_view field, const Found& found, const Expected& expected) {
  fail(ErrorCode::unsupported, "{}: the session's {} is {}; expected {}", name, field, found, expected);
}

// Everything that the header and the model know of each other.
void match_model(const std::string& name, const SessionHeader& header, const ModelIdentity& model,
                 const graph::KvSpec& spec) {
  if (header.model_hash != model.hash) {
    fail(ErrorCode::unsupported,
         "{}: the session is of the model '{}' ({}, {:016x}{:016x}); expected '{}' ({}, {:016x}{:016x})", name,
         text_of(header.name), text_of(header.architecture), header.model_hash[1], header.model_hash[0], model.name,
         model.architecture, model.hash[1], model.hash[0]);
  }
  const auto key_format = static_cast<uint32_t>(spec.key_format);
  const auto value_format = static_cast<uint32_t>(spec.value_format);
  if (header.key_format != key_format) {
    mismatch(name, "key format", format_name(header.key_format), format_name(key_format));
  }
  if (header.value_format != value_format) {
    mismatch(name, "value format", format_name(header.value_format), format_name(value_format));
  }
  if (header.page_tokens != graph::kPageTokens) mismatch(name, "tokens a page", header.page_tokens, graph::kPageTokens);
  if (header.groups != spec.groups.size()) mismatch(name, "number of layer groups", header.groups, spec.groups.size());
  const auto most = static_cast<uint64_t>(spec.sequence_tokens);
  if (header.tokens > most) {
    fail(ErrorCode::unsupported, "{}: a session of {} tokens; the context holds {}; take a larger context (-c)", name,
         header.tokens, most);
  }
}

// And the cache.
void match_header(const std::string& name, const SessionHeader& header, const SessionTarget& target) {
  match_model(name, header, target.model, target.spec);
  if (text_of(header.layout) != target.cache.store().layout()) {
    mismatch(name, "page layout", text_of(header.layout), target.cache.store().layout());
  }
}

void match_group(const std::string& name, const SessionGroup& group, size_t index, uint64_t tokens,
                 const SessionTarget& target) {
  const auto match = [&](ErrorCode code, std::string_view field, uint64_t found, uint64_t expected) {
    if (found == expected) return;
    fail(code, "{}: in layer group {}, {} is {}; expected {}", name, index, field, found, expected);
  };
  const auto length = static_cast<int64_t>(tokens);
  match(ErrorCode::unsupported, "the window", group.window, static_cast<uint64_t>(target.cache.window(index)));
  match(ErrorCode::unsupported, "the size of a page", group.page_bytes,
        static_cast<uint64_t>(target.cache.store().page_bytes(static_cast<int32_t>(index))));
  const auto most = static_cast<uint64_t>(target.cache.first_visible_token(index, length));
  if (group.first_token > most) {
    fail(ErrorCode::invalid_input, "{}: in layer group {}, the first token is {}; expected at most {}", name, index,
         group.first_token, most);
  }
  const int64_t pages = page_count(length) - static_cast<int64_t>(group.first_token) / graph::kPageTokens;
  match(ErrorCode::invalid_input, "the number of pages", group.pages, static_cast<uint64_t>(pages));
}

// All sizes are those of the target by then, so that no product of them can overflow.
void verify_size(const std::string& name, const Session& session, size_t left, const SessionTarget& target) {
  const uint64_t ids = session.header.tokens + session.header.pending;
  uint64_t expected = ids * sizeof(int32_t) + kSessionChecksumBytes;
  for (const SessionGroup& group : session.groups) expected += group.pages * group.page_bytes;
  if (left != expected) {
    fail(ErrorCode::invalid_input, "{}: {} bytes of tokens and pages; expected {} for {} tokens in a context of {}",
         name, left, expected, ids, target.cache.sequence_tokens());
  }
}

Session verify(const std::string& name, std::span<const std::byte> bytes, const SessionTarget& target) {
  Session session{verify_file(name, bytes), {}, {}, {}};
  match_header(name, session.header, target);
  Cursor cursor(bytes.subspan(sizeof(SessionHeader)));
  for (size_t index = 0; index < session.header.groups; ++index) {
    if (cursor.left() < sizeof(SessionGroup)) {
      fail(ErrorCode::invalid_input, "{}: {} bytes; too few for {} layer groups", name, bytes.size(),
           session.header.groups);
    }
    session.groups.push_back(cursor.take<SessionGroup>());
    match_group(name, session.groups.back(), index, session.header.tokens, target);
  }
  verify_size(name, session, cursor.left(), target);
  session.ids.resize(session.header.tokens + session.header.pending);
  const auto ids = cursor.take(session.ids.size() * sizeof(int32_t));
  if (!ids.empty()) std::memcpy(session.ids.data(), ids.data(), ids.size());
  for (size_t i = 0; i < session.ids.size(); ++i) {
    if (session.ids[i] >= 0 && session.ids[i] < target.model.vocabulary) continue;
    fail(ErrorCode::invalid_input, "{}: token {} has the id {}; expected 0 to {}", name, i, session.ids[i],
         target.model.vocabulary - 1);
  }
  session.pages = cursor.take(cursor.left() - kSessionChecksumBytes);
  return session;
}

[[noreturn]] void fail_without_pages(const std::string& name, const Session& session, const SessionTarget& target) {
  for (size_t index = 0; index < session.groups.size(); ++index) {
    const int64_t available = target.cache.pool(index).available_pages();
    if (static_cast<int64_t>(session.groups[index].pages) <= available) continue;
    fail(ErrorCode::out_of_memory,
         "{}: the session needs {} KV pages of 64 tokens; {} of {} are free: let others end, or "
         "make the cache larger",
         name, session.groups[index].pages, available, target.cache.pool(index).pages());
  }
  fail(ErrorCode::internal, "{}: a session was refused that has pages", name);
}

void write_pages(const Session& session, const Sequence& sequence, graph::KvStore& store) {
  Cursor cursor(session.pages);
  for (size_t index = 0; index < session.groups.size(); ++index) {
    const SessionGroup& group = session.groups[index];
    for (const int32_t page : sequence.pages(index).last(group.pages)) {
      store.write_page(static_cast<int32_t>(index), page, cursor.take(group.page_bytes));
    }
  }
}

}  // namespace

ModelIdentity identify_model(const gguf::File& file, int64_t vocabulary, bool long_rope) {
  IdentityHash hash;
  hash.number(file.metadata().values().size());
  for (const gguf::Value& value : file.metadata().values()) {
    hash.text(value.key);
    hash.number(static_cast<uint64_t>(value.type));
    hash.number(static_cast<uint64_t>(value.element_type));
    hash.number(value.count);
    hash.bytes(value.payload);
  }
  hash.number(file.tensors().size());
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    hash.text(tensor.name);
    hash.number(static_cast<uint64_t>(tensor.dtype));
    for (const int64_t size : tensor.shape) hash.number(static_cast<uint64_t>(size));
    hash.number(tensor.bytes);
    hash.number(tensor.offset_bytes);
    const size_t sample = std::min(kSampleBytes, tensor.bytes);
    hash.bytes({tensor.data + (tensor.bytes - sample) / 2, sample});
  }
  if (long_rope) hash.text("long rope");
  const gguf::Metadata& metadata = file.metadata();
  return {std::string(metadata.find_string("general.name").value_or("")),
          std::string(metadata.find_string("general.architecture").value_or("")), hash.value(), vocabulary};
}

ModelIdentity identify_model(const model::Model& model, int64_t context) {
  const model::Config& config = model.config();
  ModelIdentity identity = identify_model(model.file(), config.vocabulary, config.rope.is_long(context));
  for (const model::Adapter& adapter : model.adapters()) {
    if (adapter.scale() == 0.0F) continue;
    const ModelIdentity own = identify_model(adapter.file(), 0);
    IdentityHash hash;
    for (const uint64_t word : {identity.hash[0], identity.hash[1], own.hash[0], own.hash[1]}) hash.number(word);
    hash.number(std::bit_cast<uint32_t>(adapter.scale()));
    identity.hash = hash.value();
    identity.name += fmt::format(" + {}:{}", adapter.name(), adapter.scale());
  }
  return identity;
}

std::vector<int32_t> load_session(const std::string& name, std::span<const std::byte> bytes, Sequence& sequence,
                                  const SessionTarget& target) {
  check(sequence.length() == 0, "a session is loaded into an empty sequence");
  const Session session = verify(name, bytes, target);
  std::vector<int64_t> first_tokens;
  for (const SessionGroup& group : session.groups) first_tokens.push_back(static_cast<int64_t>(group.first_token));
  const auto tokens = std::span(session.ids).first(session.header.tokens);
  if (!sequence.restore(tokens, first_tokens)) fail_without_pages(name, session, target);
  try {
    write_pages(session, sequence, target.cache.store());
  } catch (...) {
    sequence.clear();
    throw;
  }
  return {session.ids.begin() + static_cast<std::ptrdiff_t>(tokens.size()), session.ids.end()};
}

std::vector<int32_t> load_session(const std::string& path, Sequence& sequence, const SessionTarget& target) {
  const FileMap file(path);
  return load_session(path, file.bytes(), sequence, target);
}

void check_session(const std::string& path, const ModelIdentity& model, const graph::KvSpec& spec) {
  const FileMap file(path);
  match_model(path, read_header(path, file.bytes()), model, spec);
}

int64_t peek_session_tokens(const std::string& path) {
  constexpr uint64_t kMost = uint64_t{1} << 30;  // as docs/formats/session-file.md
  try {
    const FileMap file(path);
    if (file.bytes().size() < sizeof(SessionHeader)) return 0;
    const SessionHeader header = Cursor(file.bytes()).take<SessionHeader>();
    const bool known = header.magic == kSessionMagic && header.version == kSessionVersion;
    return known && header.tokens <= kMost ? static_cast<int64_t>(header.tokens + header.pending) : 0;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace minfer::engine
