// The rules of the GGUF format that reader and writer share. See format.hpp.
#include "gguf/format.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <limits>

#include "base/utf8.hpp"

namespace minfer::gguf {
namespace {

struct ValueTypeRow {
  std::string_view name;
  size_t bytes;
};

// Indexed by the type's id.
constexpr std::array<ValueTypeRow, kValueTypes> kValueTypeRows = {{{"u8", 1},
                                                                   {"i8", 1},
                                                                   {"u16", 2},
                                                                   {"i16", 2},
                                                                   {"u32", 4},
                                                                   {"i32", 4},
                                                                   {"f32", 4},
                                                                   {"bool", 1},
                                                                   {"string", 0},
                                                                   {"array", 0},
                                                                   {"u64", 8},
                                                                   {"i64", 8},
                                                                   {"f64", 8}}};

// Names are printed in errors and tables, so that they must be text: no control characters, valid UTF-8.
std::string text_problem(std::string_view text, uint64_t max_bytes) {
  if (text.empty()) return "is empty, expected at least one byte";
  if (text.size() > max_bytes) return fmt::format("has {} bytes, expected at most {}", text.size(), max_bytes);
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = utf8_step(text, i);
    const auto byte = static_cast<uint8_t>(text[i]);
    if (step.status != Utf8Status::whole)
      return fmt::format("has the byte 0x{:02x} at its index {}, expected valid UTF-8", byte, i);
    if (byte < 0x20 || byte == 0x7F) {
      return fmt::format("has the control character 0x{:02x} at its index {}, expected text", byte, i);
    }
    i += step.size_bytes;
  }
  return {};
}

}  // namespace

std::string_view value_type_name(ValueType type) {
  return kValueTypeRows[static_cast<size_t>(type)].name;
}

size_t value_type_bytes(ValueType type) {
  return kValueTypeRows[static_cast<size_t>(type)].bytes;
}

std::string key_problem(std::string_view key) {
  return text_problem(key, kMaxKeyBytes);
}

std::string tensor_name_problem(std::string_view name) {
  return text_problem(name, kMaxTensorNameBytes);
}

TensorExtent tensor_extent(tensor::DType dtype, std::span<const uint64_t> shape) {
  constexpr auto kMaxCount = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  TensorExtent extent;
  if (shape.empty() || shape.size() > kMaxDims) {
    extent.problem = fmt::format("has {} dimensions, expected 1 to {}", shape.size(), kMaxDims);
    return extent;
  }
  uint64_t elements = 1;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] == 0 || shape[dim] > kMaxCount) {
      extent.problem = fmt::format("has the size {} in dimension {}, expected 1 to {}", shape[dim], dim, kMaxCount);
      return extent;
    }
    if (__builtin_mul_overflow(elements, shape[dim], &elements) || elements > kMaxCount) {
      extent.problem =
          fmt::format("has the shape [{}], expected at most {} elements", fmt::join(shape, ", "), kMaxCount);
      return extent;
    }
  }
  const tensor::DTypeInfo& info = tensor::dtype_info(dtype);
  const auto block = static_cast<uint64_t>(info.block_elements);
  if (shape[0] % block != 0) {
    extent.problem =
        fmt::format("has rows of {} elements, expected a multiple of {}'s block of {}", shape[0], info.name, block);
    return extent;
  }
  const bool overflow =
      __builtin_mul_overflow(elements / block, static_cast<uint64_t>(info.block_bytes), &extent.bytes);
  if (overflow || extent.bytes > kMaxCount) {
    extent.problem = fmt::format("has the shape [{}] of {}, expected at most {} bytes", fmt::join(shape, ", "),
                                 info.name, kMaxCount);
  }
  return extent;
}

std::string alignment_problem(uint32_t alignment) {
  if (std::has_single_bit(alignment) && alignment >= kMinAlignment && alignment <= kMaxAlignment) return {};
  return fmt::format("is {}, expected a power of two from {} to {}", alignment, kMinAlignment, kMaxAlignment);
}

}  // namespace minfer::gguf
