// The GGUF writer. See writer.hpp.
#include "gguf/writer.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/output_file.hpp"

namespace minfer::gguf {
namespace {

// Encodings are built in strings, whose append takes raw bytes.
void append(std::string& out, std::span<const std::byte> bytes) {
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

template <class T>
void append_number(std::string& out, T value) {
  append(out, std::as_bytes(std::span<const T>(&value, 1)));
}

void append_string(std::string& out, std::string_view text) {
  append_number(out, static_cast<uint64_t>(text.size()));
  out += text;
}

// Zeros up to the next multiple of the alignment.
void pad(OutputFile& file, uint32_t alignment) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  for (uint64_t left = (alignment - file.position() % alignment) % alignment; left > 0;) {
    const auto step = static_cast<size_t>(std::min<uint64_t>(left, kZeros.size()));
    file.write(std::span(kZeros).first(step));
    left -= step;
  }
}

}  // namespace

Writer::Writer(std::string path, uint32_t alignment) : path_(std::move(path)), alignment_(alignment) {
  if (const std::string problem = alignment_problem(alignment); !problem.empty()) {
    fail(ErrorCode::invalid_input, "{}: the alignment {}", path_, problem);
  }
  if (alignment != kDefaultAlignment) add(kAlignmentKey, alignment);
  // From here on the key is taken, so that nobody contradicts the constructor.
  keys_.emplace(kAlignmentKey);
}

void Writer::begin_entry(std::string_view key, ValueType type) {
  if (const std::string problem = key_problem(key); !problem.empty()) {
    fail(ErrorCode::invalid_input, "{}: a metadata key {}", path_, problem);
  }
  if (keys_.size() >= kMaxKeys) {
    fail(ErrorCode::invalid_input, "{}: can't add the metadata key '{}', expected at most {} keys", path_, key,
         kMaxKeys);
  }
  if (!keys_.emplace(key).second) {
    fail(ErrorCode::invalid_input, "{}: the metadata key '{}' is already there, expected distinct keys", path_, key);
  }
  append_string(entries_, key);
  append_number(entries_, static_cast<uint32_t>(type));
}

void Writer::add_entry(std::string_view key, ValueType type, std::span<const std::byte> payload) {
  begin_entry(key, type);
  append(entries_, payload);
}

void Writer::add_array_entry(std::string_view key, ValueType element_type, uint64_t count,
                             std::span<const std::byte> payload) {
  if (count > kMaxArrayElements) {
    fail(ErrorCode::invalid_input, "{}: the metadata key '{}' has {} elements, expected at most {}", path_, key, count,
         kMaxArrayElements);
  }
  begin_entry(key, ValueType::array);
  append_number(entries_, static_cast<uint32_t>(element_type));
  append_number(entries_, count);
  append(entries_, payload);
}

void Writer::add_string(std::string_view key, std::string_view value) {
  begin_entry(key, ValueType::string);
  append_string(entries_, value);
}

void Writer::add_strings(std::string_view key, std::span<const std::string> values) {
  std::string payload;
  for (const std::string& value : values) append_string(payload, value);
  add_array_entry(key, ValueType::string, values.size(), std::as_bytes(std::span(payload)));
}

void Writer::add_tensor(std::string_view name, tensor::DType dtype, std::span<const int64_t> shape, Producer producer) {
  if (const std::string problem = tensor_name_problem(name); !problem.empty()) {
    fail(ErrorCode::invalid_input, "{}: a tensor name {}", path_, problem);
  }
  Tensor tensor{std::string(name), dtype, {}, 0, data_bytes_, std::move(producer)};
  // A negative size becomes one over 2^63, which the rule refuses.
  for (const int64_t size : shape) tensor.shape.push_back(static_cast<uint64_t>(size));
  TensorExtent extent = tensor_extent(dtype, tensor.shape);
  if (!extent.problem.empty()) fail(ErrorCode::invalid_input, "{}: the tensor '{}' {}", path_, name, extent.problem);
  tensor.bytes = extent.bytes;
  // Both terms are under 2^63, so that the sum can't wrap around.
  const uint64_t end = data_bytes_ + tensor.bytes;
  if (end > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) - kMaxAlignment ||
      tensors_.size() >= kMaxTensors) {
    fail(ErrorCode::invalid_input,
         "{}: can't add the tensor '{}' of {} bytes to {} tensors of {} bytes: too many for a file", path_, name,
         tensor.bytes, tensors_.size(), data_bytes_);
  }
  if (!tensor_names_.emplace(name).second) {
    fail(ErrorCode::invalid_input, "{}: the tensor '{}' is already there, expected distinct names", path_, name);
  }
  data_bytes_ = (end + alignment_ - 1) / alignment_ * alignment_;
  tensors_.push_back(std::move(tensor));
}

void Writer::add_tensor(std::string_view name, tensor::DType dtype, std::span<const int64_t> shape,
                        std::span<const std::byte> data) {
  add_tensor(name, dtype, shape, [data](const Sink& sink) { sink(data); });
}

std::string Writer::encode_header() const {
  std::string header(kMagic);
  append_number(header, kNewestVersion);
  append_number(header, static_cast<uint64_t>(tensors_.size()));
  // The set holds general.alignment also where it is the default and not written.
  append_number(header, static_cast<uint64_t>(keys_.size() - (alignment_ == kDefaultAlignment ? 1 : 0)));
  header += entries_;
  for (const Tensor& tensor : tensors_) {
    append_string(header, tensor.name);
    append_number(header, static_cast<uint32_t>(tensor.shape.size()));
    for (const uint64_t size : tensor.shape) append_number(header, size);
    append_number(header, static_cast<uint32_t>(tensor.dtype));
    append_number(header, tensor.offset);
  }
  return header;
}

void Writer::finish() {
  check(!finished_, "Writer::finish called twice");
  finished_ = true;
  OutputFile file(path_, OutputFile::Access::everyone);
  const std::string header = encode_header();
  file.write(std::as_bytes(std::span(header)));
  pad(file, alignment_);
  for (const Tensor& tensor : tensors_) {
    uint64_t written = 0;
    tensor.producer([&](std::span<const std::byte> bytes) {
      if (bytes.size() > tensor.bytes - written) {
        fail(ErrorCode::invalid_input, "{}: the tensor '{}' got more than its {} bytes of data", path_, tensor.name,
             tensor.bytes);
      }
      file.write(bytes);
      written += bytes.size();
    });
    if (written != tensor.bytes) {
      fail(ErrorCode::invalid_input, "{}: the tensor '{}' got {} bytes of data, expected {}", path_, tensor.name,
           written, tensor.bytes);
    }
    pad(file, alignment_);
  }
  file.commit();
}

}  // namespace minfer::gguf
