// Transposing on demand. See transposed.hpp.
#include "model/transposed.hpp"

#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "tensor/dtype.hpp"

namespace minfer::model {
namespace {

size_t bytes_of(const gguf::TensorInfo& tensor) {
  constexpr std::string_view kWhat = "bytes of a transposed tensor";
  const int64_t rows = checked_multiply(tensor.shape[1], tensor.shape[2], kWhat);
  return static_cast<size_t>(
      checked_multiply(checked_multiply(tensor.shape[0], rows, kWhat), static_cast<int64_t>(sizeof(float)), kWhat));
}

}  // namespace

Transposed::Transposed(const gguf::TensorInfo& tensor) : tensor_(tensor), bytes_(bytes_of(tensor)) {
  void* const memory =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    fail(ErrorCode::out_of_memory, "no addresses for {} bytes of tensor {}", bytes_, tensor.name);
  }
  memory_ = static_cast<std::byte*>(memory);
}

Transposed::~Transposed() {
  munmap(memory_, bytes_);
}

void Transposed::make() {
  if (made_) return;
  const int64_t rows = tensor_.shape[0], cols = tensor_.shape[1], matrices = tensor_.shape[2];
  const tensor::DTypeInfo& info = tensor::dtype_info(tensor_.dtype);
  const int64_t row_bytes = tensor::row_bytes(tensor_.dtype, rows);
  auto* out = reinterpret_cast<float*>(memory_);
  std::vector<float> values(static_cast<size_t>(rows));
  for (int64_t m = 0; m < matrices; ++m) {
    for (int64_t c = 0; c < cols; ++c) {
      info.dequantize(tensor_.data + (m * cols + c) * row_bytes, rows / info.block_elements, values.data());
      for (int64_t r = 0; r < rows; ++r) out[(m * rows + r) * cols + c] = values[static_cast<size_t>(r)];
    }
  }
  made_ = true;
}

void Transposed::drop() {
  madvise(memory_, bytes_, MADV_DONTNEED);
  made_ = false;
}

}  // namespace minfer::model
