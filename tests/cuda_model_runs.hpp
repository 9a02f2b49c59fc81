// What the tests of whole models on a card share: the card, with the lever that makes its calls fail, golden files, and
// greedy runs. One thread uses them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/synthetic.hpp"
#include "model_runs.hpp"

namespace minfer::test {

inline constexpr int64_t kContext = 256;

// The site at which calls of the card fail; "": none.
inline std::string& failing_site() {
  static std::string site;
  return site;
}

inline graph::Backend& card() {
  static const std::unique_ptr<graph::Backend> device = [] {
    graph::BackendOptions options;
    options.failing_site = &failing_site();
    return device_factories().front().create(options);
  }();
  return *device;
}

struct Golden {
  std::vector<int32_t> prompt, greedy;
  std::vector<std::vector<float>> logits;
};

inline Golden golden(const std::string& variant) {
  const auto json = read_json(golden_path("tiny/" + variant + ".json"));
  Golden result{json.at("prompt").get<std::vector<int32_t>>(), json.at("greedy").get<std::vector<int32_t>>(),
                json.at("prompt_logits").get<std::vector<std::vector<float>>>()};
  for (const auto& row : json.at("decode_logits")) result.logits.push_back(row.get<std::vector<float>>());
  return result;
}

inline std::vector<std::vector<float>> all_logits(engine::Runner& runner, const std::vector<int32_t>& ids) {
  std::vector<std::vector<float>> rows;
  engine::Sequence sequence(runner.cache());
  engine::append_scored(runner, sequence, ids, 0, [&](int64_t, std::span<const float> logits) {
    rows.emplace_back(logits.begin(), logits.end());
  });
  return rows;
}

// Ids that no tokenizer needs to know.
inline std::vector<int32_t> some_ids(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> ids;
  uint64_t state = 88172645463325252ULL;
  for (int64_t i = 0; i < count; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    ids.push_back(static_cast<int32_t>(state % static_cast<uint64_t>(vocabulary)));
  }
  return ids;
}

// A synthetic model's file, removed at the end.
class SyntheticFile {
 public:
  explicit SyntheticFile(const std::string& shape_and_mix)
      : path_((std::filesystem::temp_directory_path() / ("minfer-" + shape_and_mix + ".gguf")).string()) {
    model::write_synthetic(shape_and_mix, path_);
  }
  ~SyntheticFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  SyntheticFile(const SyntheticFile&) = delete;
  SyntheticFile& operator=(const SyntheticFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace minfer::test
