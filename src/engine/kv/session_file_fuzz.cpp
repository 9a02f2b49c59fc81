// Fuzzes the reading of session files: any bytes either load or throw minfer::Error with nothing changed, and what
// loads can be saved, cut, shifted and gone on with. Each input is also tried with its size and checksum made right, so
// that the fields behind them are reached. Seeds: fuzz/corpus/session_file, saved by
// save_session from the cache and model here: no tokens, one page, a pending token behind it, a window, and a window
// that begins within a page.
#include <xxhash.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "engine/kv/session_file.hpp"
#include "engine/kv/session_format.hpp"
#include "engine/kv/test_fake_store.hpp"

namespace {

using minfer::Error;
using minfer::ErrorCode;
using minfer::engine::testing::FakeCache;

constexpr std::array<FakeCache::Group, 2> kGroups = {{{0, 5}, {70, 4}}};

void require(bool condition) {
  if (!condition) __builtin_trap();
}

void go_on(FakeCache& fake, minfer::engine::Sequence& sequence) {
  const std::array<int32_t, 3> ids = {1, 2, 3};
  try {
    fake.append(sequence, ids);
    if (sequence.length() > 70) sequence.remove(5, 20);
    sequence.truncate(sequence.length() / 2);
    fake.append(sequence, ids);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::unsupported || error.code() == ErrorCode::invalid_input);
  }
}

void load(std::span<const std::byte> bytes) {
  const minfer::engine::ModelIdentity model{"fuzz", "llama", {1, 2}, 100};
  FakeCache fake(kGroups, 300);
  minfer::engine::Sequence sequence(fake.cache, true);
  try {
    minfer::engine::load_session("fuzz.session", bytes, sequence, {model, fake.spec, fake.cache});
    go_on(fake, sequence);
  } catch (const Error& error) {
    require(error.code() != ErrorCode::internal);
    require(sequence.length() == 0);
  }
  sequence.clear();
  for (size_t group = 0; group < kGroups.size(); ++group) {
    require(fake.cache.pool(group).available_pages() == kGroups[group].pages);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  load(std::as_bytes(std::span(data, size)));
  if (size < sizeof(minfer::engine::SessionHeader) + minfer::engine::kSessionChecksumBytes) return 0;
  std::vector<uint8_t> whole(data, data + size);
  const uint64_t file_bytes = size;
  std::memcpy(whole.data() + offsetof(minfer::engine::SessionHeader, file_bytes), &file_bytes, sizeof(file_bytes));
  const size_t body = size - minfer::engine::kSessionChecksumBytes;
  const XXH128_hash_t hash = XXH3_128bits(whole.data(), body);
  std::memcpy(whole.data() + body, &hash.low64, sizeof(hash.low64));
  std::memcpy(whole.data() + body + sizeof(hash.low64), &hash.high64, sizeof(hash.high64));
  load(std::as_bytes(std::span(whole)));
  return 0;
}
