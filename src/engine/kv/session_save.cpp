// Writing of session files. See session_file.hpp.
#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/output_file.hpp"
#include "engine/kv/hash128.hpp"
#include "engine/kv/session_file.hpp"
#include "engine/kv/session_format.hpp"

namespace minfer::engine {
namespace {

// A file that hashes what it writes. What was said in a session is its user's business: no others read it.
class HashedFile {
 public:
  explicit HashedFile(const std::string& path) : file_(path, OutputFile::Access::owner) {}

  void write(std::span<const std::byte> bytes) {
    hash_.add(bytes);
    file_.write(bytes);
  }

  // The hash of what has been written.
  std::array<uint64_t, 2> checksum() const { return hash_.value(); }

  void commit() {
    file_.sync();
    file_.commit();
  }

 private:
  OutputFile file_;
  Hash128 hash_;
};

// The text, or as much of it as the field holds, cut before a character of UTF-8 that doesn't fit.
template <size_t N>
std::array<char, N> text_field(std::string_view text) {
  size_t bytes = std::min(text.size(), N);
  const auto continues = [&](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U; };
  while (bytes < text.size() && bytes > 0 && continues(bytes)) --bytes;
  std::array<char, N> field{};
  std::copy_n(text.begin(), bytes, field.begin());
  return field;
}

std::vector<SessionGroup> groups_of(const Sequence& sequence, const SessionTarget& target) {
  std::vector<SessionGroup> groups;
  for (size_t index = 0; index < target.cache.groups(); ++index) {
    // Not what a long step has left that no later token sees: a cache for shorter steps has no pages for it.
    const int64_t seen = target.cache.first_visible_page(index, sequence.length()) * graph::kPageTokens;
    const int64_t first = std::max(sequence.first_token(index), seen);
    groups.push_back({static_cast<uint64_t>(target.cache.window(index)), static_cast<uint64_t>(first),
                      static_cast<uint64_t>(page_count(sequence.length()) - first / graph::kPageTokens),
                      static_cast<uint64_t>(target.cache.store().page_bytes(static_cast<int32_t>(index)))});
  }
  return groups;
}

SessionHeader header_of(const Sequence& sequence, size_t pending, const SessionTarget& target,
                        std::span<const SessionGroup> groups) {
  const std::string_view layout = target.cache.store().layout();
  SessionHeader header{};
  check(layout.size() <= header.layout.size(), "a KV layout whose name is too long");
  header.magic = kSessionMagic;
  header.version = kSessionVersion;
  header.page_tokens = graph::kPageTokens;
  header.model_hash = target.model.hash;
  header.architecture = text_field<sizeof(header.architecture)>(target.model.architecture);
  header.name = text_field<sizeof(header.name)>(target.model.name);
  header.layout = text_field<sizeof(header.layout)>(layout);
  header.key_format = static_cast<uint32_t>(target.spec.key_format);
  header.value_format = static_cast<uint32_t>(target.spec.value_format);
  header.groups = static_cast<uint32_t>(groups.size());
  header.pending = static_cast<uint32_t>(pending);
  header.tokens = static_cast<uint64_t>(sequence.length());
  header.file_bytes = sizeof(header) + groups.size_bytes() + (header.tokens + header.pending) * sizeof(int32_t);
  header.file_bytes += kSessionChecksumBytes;
  for (const SessionGroup& group : groups) header.file_bytes += group.pages * group.page_bytes;
  return header;
}

void write_pages(HashedFile& file, const Sequence& sequence, size_t index, const SessionGroup& group,
                 const graph::KvStore& store) {
  const int64_t length = sequence.length();
  std::vector<std::byte> bytes(static_cast<size_t>(group.page_bytes));
  for (int64_t entry = page_count(length) - static_cast<int64_t>(group.pages); entry < page_count(length); ++entry) {
    const int64_t tokens = std::min(graph::kPageTokens, length - entry * graph::kPageTokens);
    store.read_page(static_cast<int32_t>(index), sequence.pages(index)[static_cast<size_t>(entry)], tokens, bytes);
    file.write(bytes);
  }
}

}  // namespace

void save_session(const std::string& path, const Sequence& sequence, std::span<const int32_t> pending,
                  const SessionTarget& target) {
  const std::vector<SessionGroup> groups = groups_of(sequence, target);
  const SessionHeader header = header_of(sequence, pending.size(), target, groups);
  HashedFile file(path);
  file.write(std::as_bytes(std::span(&header, 1)));
  file.write(std::as_bytes(std::span(groups)));
  file.write(std::as_bytes(sequence.tokens()));
  file.write(std::as_bytes(pending));
  for (size_t index = 0; index < groups.size(); ++index) {
    write_pages(file, sequence, index, groups[index], target.cache.store());
  }
  const std::array<uint64_t, 2> checksum = file.checksum();
  file.write(std::as_bytes(std::span(checksum)));
  file.commit();
}

}  // namespace minfer::engine
