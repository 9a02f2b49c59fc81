// Damaged models, each field in its turn: what the header says of the architecture, its tokenizer and its tensors is
// changed in place in every tiny model of tests/golden/tiny, and the whole way to an answer is gone: model, vocabulary,
// plan, load, one step. Each ends in a step, or in an Error that names the file, the key or the tensor and is not
// internal. The header's own fields (sizes, types, offsets) are gguf/corruption_test.cpp's.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "model/vocab.hpp"
#include "model_runs.hpp"
#include "tokenizer/tokenizer.hpp"

namespace minfer::test {
namespace {

constexpr int64_t kMemoryLimit = 64 << 20;  // that a damaged model may ask for
constexpr size_t kTokenStride = 7;          // every so manieth token is changed

struct Counts {
  int ran = 0;
  int refused = 0;
};

std::vector<std::byte> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

class Damage : public ::testing::TestWithParam<std::string> {
 protected:
  Damage() : whole_(read_bytes(golden_path("tiny/" + GetParam() + ".gguf"))), registry_(cpu_factory(), {1, ""}) {}

  gguf::File open(const std::vector<std::byte>& bytes) const {
    const gguf::MemoryPart part{"damaged.gguf", bytes};
    return gguf::File::from_memory({&part, 1});
  }

  // From bytes to the logits, or hidden states, of one step.
  void run(const std::vector<std::byte>& bytes) {
    const model::Model model(open(bytes));
    const tokenizer::Tokenizer tokenizer(model::read_vocab(model.file()));
    auto options = exact_options(16, 8);
    options.memory_limit_bytes = kMemoryLimit;
    engine::Runner runner(model, registry_.preferred(), options, {});
    engine::Sequence sequence(runner.cache());
    const int32_t ids[] = {0, 1, 0};
    if (!runner.encodes()) {
      engine::append(runner, sequence, ids);
      return;
    }
    ASSERT_TRUE(sequence.reserve(std::ssize(ids)));
    const int32_t rows[] = {0, 1, 2};
    const graph::SequenceStep mine[] = {sequence.step(0, std::ssize(ids))};
    graph::StepData step{ids, rows, mine};
    step.hidden = true;
    runner.step(step);
  }

  // An error's message names the file, or `name`.
  void expect_handled(const std::vector<std::byte>& bytes, const std::string& what, const std::string& name) {
    SCOPED_TRACE(what);
    try {
      run(bytes);
      ++counts_.ran;
    } catch (const Error& error) {
      ++counts_.refused;
      const std::string message = error.what();
      EXPECT_NE(error.code(), ErrorCode::internal) << message;
      const auto says = [&](std::string_view text) { return message.find(text) != std::string::npos; };
      // The tokenizer names its tokens and merges by number.
      const bool names = says(name) || says("damaged.gguf") || says("token ") || says("tokens ") || says("merge ") ||
                         error.code() == ErrorCode::out_of_memory;
      EXPECT_TRUE(names) << message;
    }
  }

  std::vector<std::byte> whole_;
  graph::Registry registry_;
  Counts counts_;
};

template <class T>
std::vector<std::byte> as_bytes_of(T value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// What a number of so many bytes may become: edges as an integer and as a float.
std::vector<std::vector<std::byte>> edge_values(size_t size) {
  std::vector<std::vector<std::byte>> values;
  for (const uint64_t number :
       {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{7}, uint64_t{255}, uint64_t{65'537},
        uint64_t{1} << 31, (uint64_t{1} << 32) - 1, uint64_t{1} << 62, std::numeric_limits<uint64_t>::max()}) {
    auto bytes = as_bytes_of(number);
    bytes.resize(size);
    values.push_back(std::move(bytes));
  }
  if (size != sizeof(float)) return values;
  for (const float number : {-1.0F, 1e-30F, 1e30F, std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::max()}) {
    values.push_back(as_bytes_of(number));
  }
  return values;
}

void write_at(std::vector<std::byte>& bytes, size_t at, const std::vector<std::byte>& value) {
  std::memcpy(bytes.data() + at, value.data(), value.size());
}

TEST_P(Damage, EveryValueOfTheMetadata) {
  const gguf::File file = open(whole_);
  for (const gguf::Value& value : file.metadata().values()) {
    const std::string key(value.key);
    const bool is_array = value.type == gguf::ValueType::array;
    const bool has_numbers =
        value.type != gguf::ValueType::string && !(is_array && value.element_type == gguf::ValueType::string);
    if (!has_numbers || value.payload.empty()) continue;
    const size_t first = static_cast<size_t>(value.payload.data() - whole_.data());
    const size_t size = value.payload.size() / value.count;
    for (const auto& edge : edge_values(size)) {
      auto bytes = whole_;
      write_at(bytes, first, edge);
      expect_handled(bytes, key + " changed", key);
      if (value.count < 2) continue;
      for (uint64_t i = 0; i < value.count; ++i) write_at(bytes, first + i * size, edge);
      expect_handled(bytes, key + " changed throughout", key);
    }
  }
  EXPECT_GT(counts_.ran, 0);
  EXPECT_GT(counts_.refused, 0);
}

TEST_P(Damage, EveryTypeAndNameOfTheMetadata) {
  const gguf::File file = open(whole_);
  for (const gguf::Value& value : file.metadata().values()) {
    const std::string key(value.key);
    // The type stands behind the key.
    const size_t type_at =
        static_cast<size_t>(reinterpret_cast<const std::byte*>(value.key.data()) - whole_.data()) + value.key.size();
    for (uint32_t type = 0; type <= 12; ++type) {
      auto bytes = whole_;
      write_at(bytes, type_at, as_bytes_of(type));
      expect_handled(bytes, key + " of another type", key);
    }
    if (value.type == gguf::ValueType::array) {
      for (uint32_t type = 0; type <= 12; ++type) {
        auto bytes = whole_;
        write_at(bytes, value.offset_bytes, as_bytes_of(type));
        expect_handled(bytes, key + " of another element type", key);
      }
    }
    // Under another name it is missing.
    auto bytes = whole_;
    bytes[type_at - 1] = std::byte{'~'};
    expect_handled(bytes, key + " renamed", key);
  }
  EXPECT_GT(counts_.refused, 0);
}

TEST_P(Damage, TokensOfTheVocabulary) {
  const gguf::File file = open(whole_);
  size_t index = 0;
  for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    if (file.metadata().find(key) == nullptr) continue;
    for (const std::string_view text : file.metadata().require_strings(key)) {
      if (text.empty() || ++index % kTokenStride != 0) continue;
      const size_t at = static_cast<size_t>(reinterpret_cast<const std::byte*>(text.data()) - whole_.data());
      for (const char byte : {'\0', '<', ' ', '\xFF'}) {
        auto bytes = whole_;
        bytes[at] = static_cast<std::byte>(byte);
        expect_handled(bytes, fmt::format("{}: '{}'", key, text), "tokenizer.ggml");
      }
    }
  }
}

TEST_P(Damage, EveryTensor) {
  const gguf::File file = open(whole_);
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const std::string name(tensor.name);
    // Behind the name: u32 dimensions, u64 each, u32 type, u64 offset.
    const auto mark = as_bytes_of(static_cast<uint64_t>(name.size()));
    std::string text(reinterpret_cast<const char*>(mark.data()), mark.size());
    text += name;
    const std::string_view all(reinterpret_cast<const char*>(whole_.data()), whole_.size());
    const size_t dims_at = all.find(text) + text.size();
    ASSERT_LT(dims_at, whole_.size());
    const size_t type_at = dims_at + 4 + 8 * static_cast<size_t>(tensor.dims);
    for (int d = 0; d < tensor.dims; ++d) {
      const auto size = static_cast<uint64_t>(tensor.shape[static_cast<size_t>(d)]);
      for (const uint64_t other : {size - 1, size / 2, size + 1, size * 2, uint64_t{1}}) {
        if (other == size) continue;
        auto bytes = whole_;
        write_at(bytes, dims_at + 4 + 8 * static_cast<size_t>(d), as_bytes_of(other));
        const int ran = counts_.ran;
        expect_handled(bytes, fmt::format("{}: dimension {} is {}", name, d, other), name);
        EXPECT_EQ(counts_.ran, ran) << name << " ran with a dimension of " << other;
      }
    }
    for (const uint32_t type : {1u, 2u, 8u, 12u, 24u, 28u, 30u, 39u, 99u}) {
      auto bytes = whole_;
      write_at(bytes, type_at, as_bytes_of(type));
      expect_handled(bytes, fmt::format("{}: type {}", name, type), name);
    }
    auto bytes = whole_;
    bytes[dims_at - 1] = std::byte{'~'};
    const int ran = counts_.ran;
    expect_handled(bytes, name + " renamed", name);
    EXPECT_LE(counts_.ran, ran + (name.ends_with(".bias") || name == "output.weight" ? 1 : 0)) << name;
  }
  EXPECT_GT(counts_.refused, 0);
}

std::vector<std::string> tiny_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_path("tiny"))) {
    const bool is_adapter = entry.path().stem().extension() == ".lora";
    if (entry.path().extension() == ".gguf" && !is_adapter) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Tiny, Damage, ::testing::ValuesIn(tiny_models()), [](const auto& row) { return row.param; });

}  // namespace
}  // namespace minfer::test
