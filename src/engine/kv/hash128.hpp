// XXH3-128 over bytes that come piece by piece: the checksum of session files and the identity of models. One owner,
// one thread.
#pragma once

#include <xxhash.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.hpp"

namespace minfer::engine {

class Hash128 {
 public:
  Hash128() : state_(XXH3_createState()) {
    check(state_ != nullptr && XXH3_128bits_reset(state_.get()) == XXH_OK, "no hash state");
  }
  void add(std::span<const std::byte> bytes) {
    check(XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()) == XXH_OK, "a hash failed");
  }
  // Of all so far, the low 64 bits first.
  std::array<uint64_t, 2> value() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return {hash.low64, hash.high64};
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace minfer::engine
