// Session files over a fake store: what goes in comes back, and whatever is damaged, cut or of another model, format or
// context is refused by name with nothing changed. With a real model: tests/session_test.cpp.
#include "engine/kv/session_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <xxhash.h>
#include <fstream>

#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "engine/kv/session_format.hpp"
#include "engine/kv/test_fake_store.hpp"
#include "gguf/test_support.hpp"

namespace minfer::engine {
namespace {

using gguf::test::read_bytes;
using minfer::error_of;
using testing::FakeCache;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<int32_t> ids(int32_t from, size_t count) {
  std::vector<int32_t> result(count);
  std::iota(result.begin(), result.end(), from);
  return result;
}

// A cache that sessions are saved from or loaded into.
struct Place {
  explicit Place(std::vector<FakeCache::Group> groups = {{0, 8}, {100, 6}}, int64_t context = 400)
      : fake(groups, context), target{model, fake.spec, fake.cache}, sequence(fake.cache, true) {}

  void append(const std::vector<int32_t>& tokens) { ASSERT_TRUE(fake.append(sequence, tokens)); }
  std::vector<int32_t> load(std::span<const std::byte> bytes) {
    return load_session("a.session", bytes, sequence, target);
  }
  // The error of a load, which has to have changed nothing.
  std::string load_error(std::span<const std::byte> bytes) {
    const auto cells = fake.store.cells();
    const std::string error = error_of([&] { load(bytes); });
    EXPECT_EQ(sequence.length(), 0);
    EXPECT_TRUE(fake.store.cells() == cells);
    for (size_t group = 0; group < fake.cache.groups(); ++group) {
      EXPECT_EQ(fake.cache.pool(group).available_pages(), fake.cache.pool(group).pages());
      EXPECT_EQ(sequence.pages(group).size(), 0u);
    }
    return error;
  }

  ModelIdentity model{"Tiny", "llama", {1, 2}, 1000};
  FakeCache fake;
  SessionTarget target;
  Sequence sequence;
};

class SessionFile : public ::testing::Test {
 protected:
  SessionFile() : folder_(::testing::UnitTest::GetInstance()->current_test_info()->name()) {}

  std::string path() const { return folder_.file("a.session"); }
  std::vector<std::byte> saved(const Place& place) {
    save_session(path(), place.sequence, {}, place.target);
    EXPECT_EQ(folder_.entries(), 1u) << "no temporary file stays";
    return read_bytes(path());
  }
  // 40 tokens in one group and 2 pending: a small file.
  std::vector<std::byte> small() {
    Place place({{0, 8}});
    place.append(ids(0, 40));
    save_session(path(), place.sequence, ids(40, 2), place.target);
    return read_bytes(path());
  }

  gguf::test::Folder folder_;
};

// Writes a number into a file and makes its checksum right again.
template <class T>
std::vector<std::byte> patched(std::vector<std::byte> bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
  const size_t body = bytes.size() - kSessionChecksumBytes;
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), body);
  std::memcpy(bytes.data() + body, &hash.low64, 8);
  std::memcpy(bytes.data() + body + 8, &hash.high64, 8);
  return bytes;
}

void expect_same_cells(Place& a, Place& b) {
  ASSERT_EQ(a.sequence.length(), b.sequence.length());
  for (size_t group = 0; group < a.fake.cache.groups(); ++group) {
    ASSERT_EQ(a.sequence.first_token(group), b.sequence.first_token(group));
    for (int64_t i = a.sequence.first_token(group); i < a.sequence.length(); ++i) {
      const auto entry = static_cast<size_t>(i / graph::kPageTokens);
      ASSERT_EQ(a.fake.store.at(group, a.sequence.pages(group)[entry], i % graph::kPageTokens),
                b.fake.store.at(group, b.sequence.pages(group)[entry], i % graph::kPageTokens))
          << "group " << group << ", position " << i;
    }
  }
}

TEST_F(SessionFile, WhatIsSavedComesBackAndGoesOn) {
  Place from, to;
  from.append(ids(0, 230));
  from.append(ids(230, 1));
  ASSERT_TRUE(from.sequence.reserve(60));
  save_session(path(), from.sequence, {}, from.target);
  load_session(path(), to.sequence, to.target);
  const auto tokens = to.sequence.tokens();
  EXPECT_EQ(std::vector<int32_t>(tokens.begin(), tokens.end()), ids(0, 231));
  EXPECT_EQ(to.sequence.first_token(1), 128);
  EXPECT_EQ(to.fake.cache.pool(1).available_pages(), 4);
  expect_same_cells(from, to);
  from.append(ids(300, 100));
  to.append(ids(300, 100));
  expect_same_cells(from, to);
}

TEST_F(SessionFile, AWindowThatBeginsWithinAPageComesBackSo) {
  Place from, to;
  from.append(ids(0, 300));
  from.append(ids(300, 1));
  ASSERT_TRUE(from.sequence.remove(5, 91));
  EXPECT_EQ(from.sequence.first_token(1), 101);
  to.load(saved(from));
  expect_same_cells(from, to);
  EXPECT_THAT(error_of([&] { to.sequence.truncate(190); }), StartsWith("unsupported: can't go back"));
}

TEST_F(SessionFile, AnEmptySequenceComesBackEmpty) {
  Place from, to;
  to.load(saved(from));
  EXPECT_EQ(to.sequence.length(), 0);
}

TEST_F(SessionFile, ReplacesAnEarlierFile) {
  Place from, to;
  from.append(ids(0, 10));
  saved(from);
  from.append(ids(10, 10));
  to.load(saved(from));
  EXPECT_EQ(to.sequence.length(), 20);
}

TEST_F(SessionFile, TheFormatIsThatOfItsPage) {
  const std::vector<std::byte> bytes = small();
  const auto number = [&](size_t offset, size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + offset, size);
    return value;
  };
  const auto text = [&](size_t offset) { return std::string(reinterpret_cast<const char*>(bytes.data()) + offset); };
  ASSERT_EQ(bytes.size(), 256 + 32 + 42 * 4 + 64 * sizeof(testing::Cell) + 16);
  EXPECT_EQ(text(0).substr(0, 8), "minferKV");
  EXPECT_EQ(number(8, 4), 2u);
  EXPECT_EQ(number(12, 4), 64u);
  EXPECT_EQ(number(16, 8), bytes.size());
  EXPECT_EQ(number(24, 8), 1u);
  EXPECT_EQ(number(32, 8), 2u);
  EXPECT_EQ(text(40), "llama");
  EXPECT_EQ(text(72), "Tiny");
  EXPECT_EQ(text(200), "cells");
  EXPECT_EQ(number(232, 4), 1u) << "f16";
  EXPECT_EQ(number(236, 4), 1u);
  EXPECT_EQ(number(240, 4), 1u) << "groups";
  EXPECT_EQ(number(244, 4), 2u) << "pending";
  EXPECT_EQ(number(248, 8), 40u) << "tokens";
  EXPECT_EQ(number(256, 8), 0u) << "no window";
  EXPECT_EQ(number(264, 8), 0u);
  EXPECT_EQ(number(272, 8), 1u) << "pages";
  EXPECT_EQ(number(280, 8), 64 * sizeof(testing::Cell));
  EXPECT_EQ(number(288 + 39 * 4, 4), 39u) << "the last token";
  EXPECT_EQ(number(288 + 41 * 4, 4), 41u) << "the last pending one";
}

TEST_F(SessionFile, ALongNameIsCutBetweenCharacters) {
  Place place({{0, 8}});
  place.model.name = std::string(127, 'x') + "\xC3\xA9";
  const auto bytes = saved(place);
  EXPECT_EQ(bytes[72 + 126], std::byte{'x'});
  EXPECT_EQ(bytes[72 + 127], std::byte{0});
}

TEST_F(SessionFile, EveryDamagedByteIsRefused) {
  const std::vector<std::byte> good = small();
  Place place({{0, 8}});
  for (size_t i = 0; i < good.size(); ++i) {
    for (const unsigned flip : {0x01U, 0x80U, 0xFFU}) {
      auto bad = good;
      bad[i] ^= static_cast<std::byte>(flip);
      const std::string error = place.load_error(bad);
      ASSERT_TRUE(
          error.starts_with(i >= 8 && i < 12 ? "unsupported: a.session: version" : "invalid_input: a.session: "))
          << "byte " << i << ": " << error;
    }
  }
  EXPECT_EQ(place.load(good), ids(40, 2));
  EXPECT_EQ(place.sequence.length(), 40);
}

TEST_F(SessionFile, EveryCutAndEveryAdditionIsRefused) {
  const std::vector<std::byte> good = small();
  Place place({{0, 8}});
  for (size_t size = 0; size < good.size(); ++size) {
    const std::string error = place.load_error(std::span(good).first(size));
    ASSERT_THAT(error, StartsWith("invalid_input: a.session: ")) << size;
  }
  auto longer = good;
  longer.push_back({});
  EXPECT_THAT(place.load_error(longer), HasSubstr("bytes; its header says"));
}

TEST_F(SessionFile, NamesWhatIsAnotherThanExpected) {
  const std::vector<std::byte> good = small();
  const auto error = [&](auto&& change) {
    Place place({{0, 8}});
    change(place);
    return place.load_error(good);
  };
  EXPECT_EQ(error([](Place& p) { p.model = {"Other", "qwen2", {5, 6}, 1000}; }),
            "unsupported: a.session: the session is of the model 'Tiny' (llama, 00000000000000020000000000000001); "
            "expected 'Other' (qwen2, 00000000000000060000000000000005)");
  EXPECT_EQ(error([](Place& p) { p.fake.spec.key_format = graph::KvFormat::q8_0; }),
            "unsupported: a.session: the session's key format is f16; expected q8_0");
  EXPECT_EQ(error([](Place& p) { p.fake.spec.value_format = graph::KvFormat::f32; }),
            "unsupported: a.session: the session's value format is f16; expected f32");
  EXPECT_EQ(error([](Place& p) { p.fake.store.layout_name = "rows"; }),
            "unsupported: a.session: the session's page layout is cells; expected rows");
  EXPECT_EQ(error([](Place& p) { p.model.vocabulary = 41; }),
            "invalid_input: a.session: token 41 has the id 41; expected 0 to 40");
}

// By the header alone, so that nothing has to be loaded.
TEST_F(SessionFile, IsLookedAtBeforeThereIsACache) {
  const auto good = small();
  Place place({{0, 8}});
  const auto error = [&](const ModelIdentity& model, const graph::KvSpec& spec) -> std::string {
    try {
      check_session(path(), model, spec);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error(place.model, place.fake.spec), "");
  EXPECT_THAT(error({"Other", "qwen2", {5, 6}, 1000}, place.fake.spec), HasSubstr("is of the model 'Tiny' (llama, "));
  graph::KvSpec spec = place.fake.spec;
  spec.value_format = graph::KvFormat::f32;
  EXPECT_THAT(error(place.model, spec), HasSubstr("value format is f16; expected f32"));
  spec = place.fake.spec;
  spec.sequence_tokens = 39;
  EXPECT_THAT(error(place.model, spec), HasSubstr("a session of 40 tokens; the context holds 39"));
  std::ofstream(path()) << "nothing";
  EXPECT_THAT(error(place.model, place.fake.spec), HasSubstr("no session file"));
}

TEST_F(SessionFile, NamesACacheThatDoesNotFit) {
  const std::vector<std::byte> good = small();
  EXPECT_EQ(Place({{0, 8}, {100, 6}}).load_error(good),
            "unsupported: a.session: the session's number of layer groups is 1; expected 2");
  EXPECT_EQ(Place({{100, 8}}).load_error(good),
            "unsupported: a.session: in layer group 0, the window is 0; expected 100");
  EXPECT_EQ(Place({{0, 8}}, 39).load_error(good),
            "unsupported: a.session: a session of 40 tokens; the context holds 39; take a larger context (-c)");
  EXPECT_EQ(Place({{0, 0}}).load_error(good),
            "out_of_memory: a.session: the session needs 1 KV pages of 64 tokens; 0 of 0 are free: let others end, or "
            "make the cache larger");
}

TEST_F(SessionFile, NamesAWrongFieldUnderARightChecksum) {
  const std::vector<std::byte> good = small();
  Place place({{0, 8}});
  const auto error = [&](size_t offset, auto value) { return place.load_error(patched(good, offset, value)); };
  EXPECT_EQ(error(8, uint32_t{1}), "unsupported: a.session: version 1 of the session format; expected 2");
  EXPECT_EQ(error(12, uint32_t{32}), "unsupported: a.session: the session's tokens a page is 32; expected 64");
  EXPECT_EQ(error(232, uint32_t{9}),
            "unsupported: a.session: the session's key format is of an unknown number; expected f16");
  EXPECT_EQ(
      error(244, uint32_t{3}),
      "invalid_input: a.session: 1720 bytes of tokens and pages; expected 1724 for 43 tokens in a context of 400");
  EXPECT_EQ(error(248, ~uint64_t{0}),
            "unsupported: a.session: a session of 18446744073709551615 tokens; the context holds 400; take a larger "
            "context (-c)");
  EXPECT_EQ(
      error(248, uint64_t{41}),
      "invalid_input: a.session: 1720 bytes of tokens and pages; expected 1724 for 43 tokens in a context of 400");
  EXPECT_EQ(error(264, ~uint64_t{0}),
            "invalid_input: a.session: in layer group 0, the first token is 18446744073709551615; expected at most 0");
  EXPECT_EQ(error(272, uint64_t{2}),
            "invalid_input: a.session: in layer group 0, the number of pages is 2; expected 1");
  EXPECT_EQ(error(280, uint64_t{1} << 60),
            "unsupported: a.session: in layer group 0, the size of a page is 1152921504606846976; expected 1536");
  EXPECT_EQ(error(288, int32_t{-1}), "invalid_input: a.session: token 0 has the id -1; expected 0 to 999");
  EXPECT_EQ(place.load_error(std::as_bytes(std::span("GGUF and more"))),
            "invalid_input: a.session: no session file: it doesn't begin with 'minferKV'");
}

TEST_F(SessionFile, WhatIsRestoredIsNotPublished) {
  Place from, to;
  from.append(ids(0, 130));
  to.load(saved(from));
  to.append(ids(130, 70));
  Sequence other(to.fake.cache, true);
  EXPECT_EQ(other.reuse_prefix(ids(0, 200)), 0);
}

TEST_F(SessionFile, AFailingDeviceLeavesAnEmptySequence) {
  const std::vector<std::byte> good = small();
  Place place({{0, 8}});
  place.fake.store.fail_to_write = true;
  EXPECT_EQ(place.load_error(good), "device: the device is lost");
}

TEST_F(SessionFile, NamesWhatTheSystemRefuses) {
  Place place;
  EXPECT_EQ(error_of([&] { load_session(path(), place.sequence, place.target); }),
            "io: " + path() + ": can't open: No such file or directory");
  EXPECT_THAT(error_of([&] { load_session(folder_.file(""), place.sequence, place.target); }),
              HasSubstr("invalid_input: "));
  EXPECT_THAT(error_of([&] { save_session(folder_.file("none/a"), place.sequence, {}, place.target); }),
              HasSubstr("can't create: No such file or directory"));
  std::filesystem::create_directory(path());
  EXPECT_THAT(error_of([&] { save_session(path(), place.sequence, {}, place.target); }), HasSubstr("can't rename to "));
  EXPECT_EQ(folder_.entries(), 1u) << "the temporary file is gone";
}

TEST_F(SessionFile, AFullDiskLeavesTheEarlierFile) {
  const std::vector<std::byte> good = small();
  Place place;
  place.append(ids(0, 200));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small_files{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small_files), 0);
  const std::string error = error_of([&] { save_session(path(), place.sequence, {}, place.target); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(error, HasSubstr("can't write at byte 4096: File too large"));
  EXPECT_EQ(folder_.entries(), 1u);
  EXPECT_EQ(read_bytes(path()), good);
}

}  // namespace
}  // namespace minfer::engine
