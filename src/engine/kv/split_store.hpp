// The KV pages of a model whose layers are on several devices: each device's store has its own layers of every page,
// under the same page ids. A page's bytes are those of the parts, one after the other; moves are done by every part.
// The stores outlive it; the engine's thread makes all calls.
#pragma once

#include <string>
#include <vector>

#include "graph/backend.hpp"

namespace minfer::engine {

class SplitKvStore final : public graph::KvStore {
 public:
  // In order of the layers.
  explicit SplitKvStore(std::vector<graph::KvStore*> parts);

  int64_t bytes() const override;
  std::string_view layout() const override { return layout_; }
  int64_t page_bytes(int32_t group) const override;
  void move(std::span<const graph::KvMove> moves) override;
  void read_page(int32_t group, int32_t page, int64_t tokens, std::span<std::byte> out) const override;
  void write_page(int32_t group, int32_t page, std::span<const std::byte> in) override;

 private:
  std::vector<graph::KvStore*> parts_;
  std::string layout_;
};

}  // namespace minfer::engine
