// The parser of one GGUF file: a cursor that can't leave the bytes, then header, metadata, tensor infos and the layout
// of the data, in file order. See parse.hpp and, for the layout, format.hpp.
//
// Work is linear in the header region: each element of a string or nested array takes at least 8 bytes of it, and
// counts are compared with what the file can hold before anything is allocated for them.
#include "gguf/parse.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "gguf/bytes.hpp"

namespace minfer::gguf {
namespace {

// The least bytes of a metadata entry (key length, key, type, value) and of a tensor info (name length, name, dims, one
// size, type, offset): what a count is compared with.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 8 + 4 + 8;

class Cursor {
 public:
  static constexpr uint64_t kNoIndex = ~uint64_t{0};

  Cursor(const std::string& source, std::span<const std::byte> bytes) : source_(source), bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }
  size_t size() const { return bytes_.size(); }
  const std::byte* here() const { return bytes_.data() + position_; }

  // What is being read, for errors: `kind` with its number, or, once known, with its name (checked to be text).
  void enter(std::string_view kind, uint64_t index) {
    kind_ = kind;
    index_ = index;
    name_ = {};
  }
  void set_name(std::string_view name) { name_ = name; }

  template <class... Args>
  [[noreturn]] void fail_at(size_t offset, ErrorCode code, fmt::format_string<Args...> format, Args&&... args) const {
    fail(code, "{}: {} at byte {}: {}", source_, subject(), offset, fmt::format(format, std::forward<Args>(args)...));
  }

  template <class T>
  T number(std::string_view what) {
    return load<T>(take(sizeof(T), what).data());
  }

  std::span<const std::byte> take(uint64_t size_bytes, std::string_view what) {
    if (size_bytes > remaining()) {
      fail_at(position_, ErrorCode::invalid_input,
              "{} needs {} bytes, and the file has {} left of its {}: it is cut or "
              "damaged, fetch it again",
              what, size_bytes, remaining(), bytes_.size());
    }
    const auto taken = bytes_.subspan(position_, size_bytes);
    position_ += size_bytes;
    return taken;
  }

  std::string_view string(std::string_view what) {
    const auto length = number<uint64_t>("a string's length");
    const auto text = take(length, what);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

 private:
  std::string subject() const {
    if (!name_.empty()) return fmt::format("{} '{}'", kind_, name_);
    return index_ == kNoIndex ? std::string(kind_) : fmt::format("{} {}", kind_, index_);
  }

  const std::string& source_;
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  std::string_view kind_ = "the file";
  std::string_view name_;
  uint64_t index_ = kNoIndex;
};

struct Counts {
  uint32_t version;
  uint64_t tensors;
  uint64_t keys;
};

// What the first bytes of some other kind of file tell, as a hint.
std::string_view recognise(std::string_view start) {
  if (start.starts_with("lmgg") || start.starts_with("fmgg") || start.starts_with("tjgg")) {
    return " (a file of an older ggml format: convert the original model to GGUF again)";
  }
  if (start.starts_with("vers")) return " (perhaps a Git LFS pointer: fetch the file that it stands for)";
  if (start.starts_with("<!DO") || start.starts_with("<htm")) return " (a web page: the download failed)";
  if (start.starts_with("PK")) return " (an archive, perhaps a PyTorch checkpoint: convert it to GGUF)";
  return "";
}

void check_magic(Cursor& cursor) {
  if (cursor.size() < kHeaderBytes) {
    cursor.fail_at(0, ErrorCode::invalid_input, "found {} bytes in all, expected a GGUF header of {} bytes",
                   cursor.size(), kHeaderBytes);
  }
  const auto magic = cursor.take(kMagic.size(), "the magic");
  const std::string_view start(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (start == kMagic) return;
  std::string hex;
  for (const std::byte byte : magic) hex += fmt::format(" {:02x}", static_cast<unsigned>(byte));
  cursor.fail_at(0, ErrorCode::invalid_input, "is no GGUF file: found the bytes{}, expected 'GGUF'{}", hex,
                 recognise(start));
}

uint32_t read_version(Cursor& cursor) {
  const size_t at = cursor.position();
  const auto version = cursor.number<uint32_t>("the version");
  if (version >= kOldestVersion && version <= kNewestVersion) return version;
  // The magic is the same in both byte orders; a small version in the upper half shows a big-endian file.
  const uint32_t swapped = __builtin_bswap32(version);
  if (version > 0xFFFF && swapped <= 0xFFFF) {
    cursor.fail_at(at, ErrorCode::unsupported,
                   "found a big-endian file (version {} with its bytes swapped), expected "
                   "little-endian: convert the model for little-endian machines",
                   swapped);
  }
  if (version == 1) {
    cursor.fail_at(at, ErrorCode::unsupported,
                   "found GGUF version 1, expected {} or {}: version 1 was replaced in 2023, "
                   "convert the original model again",
                   kOldestVersion, kNewestVersion);
  }
  cursor.fail_at(at, ErrorCode::unsupported, "found GGUF version {}, expected {} or {}", version, kOldestVersion,
                 kNewestVersion);
}

uint64_t read_count(Cursor& cursor, std::string_view what, uint64_t limit, uint64_t min_bytes) {
  const size_t at = cursor.position();
  const auto count = cursor.number<uint64_t>(what);
  if (count > limit) {
    cursor.fail_at(at, ErrorCode::invalid_input, "{} is {}, expected at most {}", what, count, limit);
  }
  if (count > cursor.remaining() / min_bytes) {
    cursor.fail_at(at, ErrorCode::invalid_input,
                   "{} is {}, which needs at least {} bytes, and the file has {} left: it is "
                   "cut or damaged",
                   what, count, count * min_bytes, cursor.remaining());
  }
  return count;
}

Counts read_header(Cursor& cursor) {
  cursor.enter("the file", Cursor::kNoIndex);
  check_magic(cursor);
  cursor.enter("the header", Cursor::kNoIndex);
  Counts counts{};
  counts.version = read_version(cursor);
  counts.tensors = read_count(cursor, "the tensor count", kMaxTensors, kMinTensorInfoBytes);
  counts.keys = read_count(cursor, "the metadata key count", kMaxKeys, kMinEntryBytes);
  return counts;
}

ValueType read_value_type(Cursor& cursor, std::string_view what) {
  const size_t at = cursor.position();
  const auto id = cursor.number<uint32_t>(what);
  if (id >= kValueTypes) {
    cursor.fail_at(at, ErrorCode::invalid_input, "{} is {}, expected a value type from 0 to {}", what, id,
                   kValueTypes - 1);
  }
  return static_cast<ValueType>(id);
}

void skip_elements(Cursor& cursor, ValueType type, uint64_t count, int depth);

// Passes over an array's header and elements; returns its element type and count, and where the elements start.
void skip_array(Cursor& cursor, int depth, ValueType& element_type, uint64_t& count, size_t& elements_at) {
  const size_t at = cursor.position();
  if (depth > kMaxArrayDepth) {
    cursor.fail_at(at, ErrorCode::unsupported, "found arrays nested {} deep, expected at most {}", depth,
                   kMaxArrayDepth);
  }
  element_type = read_value_type(cursor, "the array's element type");
  const size_t width = value_type_bytes(element_type);
  const uint64_t least = width != 0 ? width : element_type == ValueType::string ? 8 : 12;
  count = read_count(cursor, "the array's element count", kMaxArrayElements, least);
  elements_at = cursor.position();
  skip_elements(cursor, element_type, count, depth);
}

void skip_elements(Cursor& cursor, ValueType type, uint64_t count, int depth) {
  if (type == ValueType::string) {
    for (uint64_t i = 0; i < count; ++i) cursor.string("a string");
    return;
  }
  if (type == ValueType::array) {
    for (uint64_t i = 0; i < count; ++i) {
      ValueType element_type{};
      uint64_t elements = 0;
      size_t elements_at = 0;
      skip_array(cursor, depth + 1, element_type, elements, elements_at);
    }
    return;
  }
  const size_t at = cursor.position();
  const auto payload = cursor.take(count * value_type_bytes(type), "the value");
  if (type != ValueType::boolean) return;
  for (size_t i = 0; i < payload.size(); ++i) {
    if (payload[i] > std::byte{1}) {
      cursor.fail_at(at + i, ErrorCode::invalid_input, "found the bool {}, expected 0 or 1",
                     static_cast<int>(payload[i]));
    }
  }
}

Value read_entry(Cursor& cursor, uint64_t index) {
  cursor.enter("metadata entry", index);
  const size_t key_at = cursor.position();
  Value value;
  value.key = cursor.string("the key");
  if (const std::string problem = key_problem(value.key); !problem.empty()) {
    cursor.fail_at(key_at, ErrorCode::invalid_input, "the key {}", problem);
  }
  cursor.enter("metadata key", index);
  cursor.set_name(value.key);
  value.type = read_value_type(cursor, "the value's type");
  value.offset_bytes = cursor.position();
  size_t payload_at = cursor.position();
  if (value.type == ValueType::array) {
    skip_array(cursor, 1, value.element_type, value.count, payload_at);
  } else {
    skip_elements(cursor, value.type, 1, 1);
  }
  const size_t payload_bytes = cursor.position() - payload_at;
  value.payload = {cursor.here() - payload_bytes, payload_bytes};
  return value;
}

std::vector<Value> read_metadata(Cursor& cursor, uint64_t count) {
  std::vector<Value> values;
  values.reserve(count);
  std::map<std::string_view, size_t> offsets;
  for (uint64_t i = 0; i < count; ++i) {
    const size_t at = cursor.position();
    values.push_back(read_entry(cursor, i));
    const auto [earlier, added] = offsets.emplace(values.back().key, at);
    if (!added) {
      cursor.fail_at(at, ErrorCode::invalid_input,
                     "found the key a second time (first at byte {}), expected distinct keys", earlier->second);
    }
  }
  return values;
}

uint32_t read_alignment(Cursor& cursor, std::span<const Value> values) {
  const auto found = std::find_if(values.begin(), values.end(), [](const Value& v) { return v.key == kAlignmentKey; });
  if (found == values.end()) return kDefaultAlignment;
  cursor.enter("metadata key", Cursor::kNoIndex);
  cursor.set_name(kAlignmentKey);
  if (found->type != ValueType::u32) {
    cursor.fail_at(found->offset_bytes, ErrorCode::invalid_input, "has the type {}, expected u32",
                   describe_type(*found));
  }
  const auto alignment = load<uint32_t>(found->payload.data());
  if (const std::string problem = alignment_problem(alignment); !problem.empty()) {
    cursor.fail_at(found->offset_bytes, ErrorCode::invalid_input, "{}", problem);
  }
  return alignment;
}

tensor::DType read_dtype(Cursor& cursor) {
  const size_t at = cursor.position();
  const auto id = cursor.number<uint32_t>("the element type");
  if (const auto dtype = tensor::dtype_from_id(id)) return *dtype;
  cursor.fail_at(at, ErrorCode::unsupported,
                 "found the element type {}, which this version does not know: it is newer, or "
                 "was removed from the format",
                 id);
}

// Reads one tensor info; `offset_bytes` is still relative to the data section.
TensorInfo read_tensor(Cursor& cursor, uint64_t index, uint32_t alignment) {
  cursor.enter("tensor", index);
  const size_t name_at = cursor.position();
  TensorInfo info;
  const std::string_view name = cursor.string("the name");
  if (const std::string problem = tensor_name_problem(name); !problem.empty()) {
    cursor.fail_at(name_at, ErrorCode::invalid_input, "the name {}", problem);
  }
  info.name = name;
  cursor.set_name(name);
  const size_t dims_at = cursor.position();
  const auto dims = cursor.number<uint32_t>("the number of dimensions");
  if (dims < 1 || dims > kMaxDims) {
    cursor.fail_at(dims_at, ErrorCode::invalid_input, "has {} dimensions, expected 1 to {}", dims, kMaxDims);
  }
  info.dims = static_cast<int>(dims);
  std::array<uint64_t, kMaxDims> shape{};
  for (uint32_t dim = 0; dim < dims; ++dim) shape[dim] = cursor.number<uint64_t>("a dimension");
  info.dtype = read_dtype(cursor);
  const TensorExtent extent = tensor_extent(info.dtype, std::span(shape).first(dims));
  if (!extent.problem.empty()) cursor.fail_at(dims_at, ErrorCode::invalid_input, "{}", extent.problem);
  info.bytes = extent.bytes;
  for (uint32_t dim = 0; dim < kMaxDims; ++dim) info.shape[dim] = dim < dims ? static_cast<int64_t>(shape[dim]) : 1;
  const size_t offset_at = cursor.position();
  info.offset_bytes = cursor.number<uint64_t>("the data offset");
  if (info.offset_bytes % alignment != 0) {
    cursor.fail_at(offset_at, ErrorCode::invalid_input,
                   "has the data offset {}, expected a multiple of the alignment {}", info.offset_bytes, alignment);
  }
  return info;
}

// Turns offsets into ones from the file's start and checks that the data lies inside the file.
void place_tensor(Cursor& cursor, TensorInfo& info, size_t data_at, const std::byte* file) {
  cursor.enter("tensor", Cursor::kNoIndex);
  cursor.set_name(info.name);
  const size_t available = data_at < cursor.size() ? cursor.size() - data_at : 0;
  if (info.offset_bytes > available || info.bytes > available - info.offset_bytes) {
    cursor.fail_at(data_at, ErrorCode::invalid_input,
                   "has {} bytes of data at the offset {} of the data section, which has "
                   "{} bytes: the file is cut or damaged, fetch it again",
                   info.bytes, info.offset_bytes, available);
  }
  info.offset_bytes += data_at;
  info.data = file + info.offset_bytes;
}

void check_overlap(Cursor& cursor, const std::vector<TensorInfo>& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return tensors[a].offset_bytes < tensors[b].offset_bytes; });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& before = tensors[order[i - 1]];
    const TensorInfo& after = tensors[order[i]];
    if (after.offset_bytes - before.offset_bytes >= before.bytes) continue;
    cursor.enter("tensor", Cursor::kNoIndex);
    cursor.set_name(after.name);
    cursor.fail_at(after.offset_bytes, ErrorCode::invalid_input,
                   "its data overlaps that of '{}' (bytes {} to {}), expected "
                   "separate data",
                   before.name, before.offset_bytes, before.offset_bytes + before.bytes);
  }
}

}  // namespace

ParsedPart parse_part(const std::string& source, std::span<const std::byte> bytes) {
  Cursor cursor(source, bytes);
  const Counts counts = read_header(cursor);
  ParsedPart part;
  part.version = counts.version;
  part.values = read_metadata(cursor, counts.keys);
  const uint32_t alignment = read_alignment(cursor, part.values);
  cursor.enter("the tensor infos", Cursor::kNoIndex);
  part.tensors.reserve(counts.tensors);
  for (uint64_t i = 0; i < counts.tensors; ++i) part.tensors.push_back(read_tensor(cursor, i, alignment));
  const size_t data_at = (cursor.position() + alignment - 1) / alignment * alignment;
  for (TensorInfo& info : part.tensors) place_tensor(cursor, info, data_at, bytes.data());
  check_overlap(cursor, part.tensors);
  return part;
}

}  // namespace minfer::gguf
