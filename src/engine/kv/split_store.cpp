// One call to every part. See split_store.hpp.
#include "engine/kv/split_store.hpp"

#include <utility>

namespace minfer::engine {

SplitKvStore::SplitKvStore(std::vector<graph::KvStore*> parts) : parts_(std::move(parts)) {
  for (const graph::KvStore* part : parts_) {
    if (!layout_.empty()) layout_ += '+';
    layout_ += part->layout();
  }
}

int64_t SplitKvStore::bytes() const {
  int64_t bytes = 0;
  for (const graph::KvStore* part : parts_) bytes += part->bytes();
  return bytes;
}

int64_t SplitKvStore::page_bytes(int32_t group) const {
  int64_t bytes = 0;
  for (const graph::KvStore* part : parts_) bytes += part->page_bytes(group);
  return bytes;
}

void SplitKvStore::move(std::span<const graph::KvMove> moves) {
  for (graph::KvStore* part : parts_) part->move(moves);
}

void SplitKvStore::read_page(int32_t group, int32_t page, int64_t tokens, std::span<std::byte> out) const {
  for (const graph::KvStore* part : parts_) {
    const size_t bytes = static_cast<size_t>(part->page_bytes(group));
    part->read_page(group, page, tokens, out.first(bytes));
    out = out.subspan(bytes);
  }
}

void SplitKvStore::write_page(int32_t group, int32_t page, std::span<const std::byte> in) {
  for (graph::KvStore* part : parts_) {
    const size_t bytes = static_cast<size_t>(part->page_bytes(group));
    part->write_page(group, page, in.first(bytes));
    in = in.subspan(bytes);
  }
}

}  // namespace minfer::engine
