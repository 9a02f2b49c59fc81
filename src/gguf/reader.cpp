// Opens files and split sets on top of the parser. See reader.hpp.
#include "gguf/reader.hpp"

#include <optional>
#include <utility>

#include "base/error.hpp"
#include "gguf/parse.hpp"

namespace minfer::gguf {
namespace {

constexpr std::string_view kSplitNumberKey = "split.no";  // 0-based
constexpr std::string_view kSplitCountKey = "split.count";
constexpr std::string_view kSplitTensorsKey = "split.tensors.count";  // over all parts

// "-00002-of-00003.gguf": the suffix of part 2 of 3.
std::string part_suffix(int64_t part, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", part, count);
}

// The path of part `wanted` of the set that `path` is part `part` of; nullopt if its name does not say so.
std::optional<std::string> sibling_path(const std::string& path, int64_t part, int64_t count, int64_t wanted) {
  const std::string suffix = part_suffix(part, count);
  if (!path.ends_with(suffix)) return std::nullopt;
  return path.substr(0, path.size() - suffix.size()) + part_suffix(wanted, count);
}

// "the metadata key 'k' (value at byte 12)", for a key that is there.
std::string describe_key(const Metadata& metadata, std::string_view key) {
  return fmt::format("the metadata key '{}' (value at byte {})", key, metadata.find(key)->offset_bytes);
}

}  // namespace

// Reads the split keys of part 1 and sets split_count_; a file without them is whole.
void File::check_first_part(const std::string& name) {
  const std::optional<int64_t> count = metadata_.find_i64(kSplitCountKey);
  if (!count || *count == 0 || *count == 1) return;
  if (*count < 0 || *count > kMaxSplitParts) {
    fail(ErrorCode::invalid_input, "{}: {} is {}, expected 0 to {}", name, describe_key(metadata_, kSplitCountKey),
         *count, kMaxSplitParts);
  }
  const int64_t number = metadata_.require_i64(kSplitNumberKey);
  if (number < 0 || number >= *count) {
    fail(ErrorCode::invalid_input, "{}: {} is {}, expected 0 to {}", name, describe_key(metadata_, kSplitNumberKey),
         number, *count - 1);
  }
  if (number != 0) {
    const auto first = sibling_path(name, number + 1, *count, 1);
    fail(ErrorCode::invalid_input, "{}: found part {} of a split set of {}, expected its part 1: open {}", name,
         number + 1, *count,
         first ? *first : fmt::format("the file whose name ends with '{}'", part_suffix(1, *count)));
  }
  split_count_ = *count;
}

void File::check_later_part(const std::string& name, const Metadata& metadata) const {
  const auto expected = static_cast<int64_t>(part_names_.size());
  const int64_t count = metadata.require_i64(kSplitCountKey);
  if (count != split_count_) {
    fail(ErrorCode::invalid_input, "{}: {} is {}, expected {} as in part 1 ({}): a part of another set", name,
         describe_key(metadata, kSplitCountKey), count, split_count_, part_names_[0]);
  }
  const int64_t number = metadata.require_i64(kSplitNumberKey);
  if (number == expected) return;
  const bool doubled = number >= 0 && number < expected;
  fail(ErrorCode::invalid_input, "{}: {} is {}, expected {} (part {} of {}): {}", name,
       describe_key(metadata, kSplitNumberKey), number, expected, expected + 1, split_count_,
       doubled
           ? fmt::format("the same part as {}, doubled under a second name", part_names_[static_cast<size_t>(number)])
           : std::string("the file has a wrong name"));
}

void File::add_part(const std::string& name, std::span<const std::byte> bytes, const FileMap* map) {
  ParsedPart part = parse_part(name, bytes);
  if (part_names_.empty()) {
    version_ = part.version;
    metadata_ = Metadata(name, std::move(part.values));
    check_first_part(name);
  } else {
    check_later_part(name, Metadata(name, std::move(part.values)));
  }
  for (TensorInfo& info : part.tensors) {
    info.part = static_cast<int>(part_names_.size());
    info.map = map;
    tensors_.push_back(std::move(info));
  }
  part_names_.push_back(name);
}

void File::index_tensors() {
  if (split_count_ > 1) {
    const int64_t total = metadata_.require_i64(kSplitTensorsKey);
    if (!std::cmp_equal(total, tensors_.size())) {
      fail(ErrorCode::invalid_input, "{}: the {} parts hold {} tensors, expected {} as {} says", part_names_[0],
           split_count_, tensors_.size(), total, describe_key(metadata_, kSplitTensorsKey));
    }
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto [earlier, added] = tensor_index_.emplace(tensors_[i].name, i);
    if (added) continue;
    const TensorInfo& first = tensors_[earlier->second];
    const TensorInfo& second = tensors_[i];
    fail(ErrorCode::invalid_input,
         "{}: found the tensor '{}' a second time (data at byte {}; first in {}, data at byte {}), "
         "expected distinct names",
         part_names_[static_cast<size_t>(second.part)], second.name, second.offset_bytes,
         part_names_[static_cast<size_t>(first.part)], first.offset_bytes);
  }
}

File::File(const std::string& path) {
  maps_.push_back(std::make_unique<FileMap>(path));
  add_part(path, maps_[0]->bytes(), maps_[0].get());
  for (int64_t part = 2; part <= split_count_; ++part) {
    const auto name = sibling_path(path, 1, split_count_, part);
    if (!name) {
      fail(ErrorCode::invalid_input,
           "{}: found part 1 of a split set of {}, expected a name that ends with '{}': rename it, "
           "so that the other parts can be found",
           path, split_count_, part_suffix(1, split_count_));
    }
    try {
      maps_.push_back(std::make_unique<FileMap>(*name));
    } catch (const Error& error) {
      fail(error.code(), "{}: part {} of {} is missing or can't be read ({}): put all parts in one folder", path, part,
           split_count_, error.what());
    }
    add_part(*name, maps_.back()->bytes(), maps_.back().get());
  }
  index_tensors();
}

File File::from_memory(std::span<const MemoryPart> parts) {
  check(!parts.empty(), "File::from_memory needs a part");
  File file;
  for (const MemoryPart& part : parts) {
    file.add_part(part.name, part.bytes, nullptr);
    // Known from part 1 on.
    if (std::cmp_not_equal(parts.size(), file.split_count_)) {
      fail(ErrorCode::invalid_input, "{}: found {} parts, expected {}", parts[0].name, parts.size(), file.split_count_);
    }
  }
  file.index_tensors();
  return file;
}

const TensorInfo* File::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace minfer::gguf
