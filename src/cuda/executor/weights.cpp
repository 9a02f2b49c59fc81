// Layout choice and loading of weights. See weights.hpp.
#include "cuda/executor/weights.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "base/thread_pool.hpp"
#include "cuda/launch/experts.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cuda {
namespace {

// Pinned memory is slow to get, 0.5 ms a megabyte: few, small slots.
constexpr int64_t kSlotBytes = int64_t{8} << 20;
constexpr size_t kSlots = 4;
// Threads that copy from the mapped file: one alone is ten times slower than the way to the card.
constexpr int kMostCopyThreads = 8;
constexpr int64_t kPieceBytes = int64_t{1} << 20;
// How many weights ahead of the one being copied the system is asked to read.
constexpr size_t kPrefetchWeights = 4;

int64_t held_bytes(const graph::WeightSource& source) {
  return choose_weight_layout(source.shape, source.dtype, source.role).bytes;
}

// What a weight needs at least: a vector, or a panel's rows.
int64_t least_slot_bytes(const graph::WeightSource& source) {
  if (source.role == graph::WeightRole::vector) {
    return source.shape.experts * source.shape.cols * static_cast<int64_t>(sizeof(float));
  }
  return kPanelRows * tensor::row_bytes(source.dtype, source.shape.cols);
}

int64_t slot_bytes(std::span<const graph::WeightSource> sources) {
  int64_t bytes = kSlotBytes;
  for (const graph::WeightSource& source : sources) {
    if (source.role != graph::WeightRole::elsewhere) bytes = std::max(bytes, least_slot_bytes(source));
  }
  return bytes;
}

int copy_threads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2, 1, kMostCopyThreads);
}

// Slices of the file on their way to the card.
class UploadRing {
 public:
  UploadRing(Device& device, int64_t slot_bytes)
      : device_(device),
        slot_bytes_(slot_bytes),
        staging_(slot_bytes * static_cast<int64_t>(kSlots), "weight staging"),
        pinned_(slot_bytes * static_cast<int64_t>(kSlots), "weight staging"),
        pool_(copy_threads()) {
    for (cudaEvent_t& event : free_) {
      check_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "weights/event");
    }
  }
  ~UploadRing() {
    cudaStreamSynchronize(device_.queue().stream);  // where loading failed, what was queued still reads the slots
    for (cudaEvent_t event : free_) cudaEventDestroy(event);
  }
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  void upload_vector(const graph::WeightSource& source, std::byte* target) {
    const auto& info = tensor::dtype_info(source.dtype);
    const int64_t elements = source.shape.experts * source.shape.cols;
    const int64_t bytes = elements * static_cast<int64_t>(sizeof(float));
    check(bytes <= slot_bytes_, "a vector weight larger than a slot");
    std::byte* pinned = next();
    info.dequantize(source.data.data(), elements / info.block_elements, reinterpret_cast<float*>(pinned));
    copy_to_device(device_.queue(), "weights/vector", target, pinned, bytes);
    taken();
  }

  // One of the source's experts.
  void upload_matrix(const graph::WeightSource& source, int64_t expert, PanelMatrix matrix) {
    const int64_t row = tensor::row_bytes(source.dtype, matrix.cols);
    const std::byte* rows_of_file = source.data.data() + expert * matrix.rows * row;
    matrix.data += expert * expert_stride(matrix.dtype, matrix.rows, matrix.cols);
    const int64_t slice_rows = slot_bytes_ / row / kPanelRows * kPanelRows;
    check(slice_rows > 0, "a matrix row larger than a slot");
    for (int64_t first = 0; first < matrix.rows; first += slice_rows) {
      const int64_t rows = std::min(slice_rows, matrix.rows - first);
      std::byte* pinned = next();
      copy(pinned, rows_of_file + first * row, rows * row);
      std::byte* staged = staging_.data() + (pinned - pinned_.data());
      copy_to_device(device_.queue(), "weights/copy", staged, pinned, rows * row);
      launch_pack(device_.queue(), matrix, staged, first, rows);
      taken();
    }
  }

 private:
  void copy(std::byte* to, const std::byte* from, int64_t bytes) {
    pool_.run([&](Worker& worker) {
      worker.parallel_for((bytes + kPieceBytes - 1) / kPieceBytes, 1, [&](int64_t begin, int64_t end) {
        const int64_t at = begin * kPieceBytes;
        std::memcpy(to + at, from + at, static_cast<size_t>(std::min(end * kPieceBytes, bytes) - at));
      });
    });
  }

  // The next slot, once what was in it is on the card.
  std::byte* next() {
    if (used_ >= kSlots) check_status(cudaEventSynchronize(free_[slot_]), "weights/slot");
    return pinned_.data() + static_cast<int64_t>(slot_) * slot_bytes_;
  }
  void taken() {
    check_status(cudaEventRecord(free_[slot_], device_.queue().stream), "weights/slot");
    slot_ = (slot_ + 1) % kSlots;
    ++used_;
  }

  Device& device_;
  int64_t slot_bytes_;
  DeviceBuffer staging_;
  PinnedBuffer pinned_;
  ThreadPool pool_;
  std::array<cudaEvent_t, kSlots> free_{};
  size_t slot_ = 0;
  size_t used_ = 0;
};

}  // namespace

graph::WeightLayout choose_weight_layout(const graph::WeightShape& shape, tensor::DType dtype, graph::WeightRole role) {
  if (role == graph::WeightRole::vector) {
    if (tensor::dtype_info(dtype).dequantize == nullptr) {
      fail(ErrorCode::unsupported, "tensor {} has type {}, which minfer can't decode", shape.name,
           tensor::dtype_info(dtype).name);
    }
    const int64_t bytes = shape.experts * shape.cols * static_cast<int64_t>(sizeof(float));
    return {"f32", (bytes + kPanelAlignment - 1) / kPanelAlignment * kPanelAlignment, true};
  }
  if (!has_panels(dtype)) {
    fail(ErrorCode::unsupported, "tensor {} has type {}, for which the CUDA device has no kernels", shape.name,
         tensor::dtype_info(dtype).name);
  }
  return {"panel8", shape.experts * panel_matrix_bytes(dtype, shape.rows, shape.cols), true};
}

CudaWeights::CudaWeights(Device& device, std::span<const graph::WeightSource> sources,
                         const graph::ProgressFn& progress) {
  int64_t total = 0;
  for (const graph::WeightSource& source : sources) {
    if (source.role != graph::WeightRole::elsewhere) total += held_bytes(source);
  }
  buffer_ = DeviceBuffer(total, "the weights");
  device.run([&] {
    UploadRing ring(device, slot_bytes(sources));
    std::byte* at = buffer_.data();
    const auto prefetch = [&](size_t i) {
      if (i >= sources.size() || sources[i].role == graph::WeightRole::elsewhere) return;
      if (sources[i].prefetch) sources[i].prefetch();
    };
    for (size_t i = 0; i < kPrefetchWeights; ++i) prefetch(i);
    for (size_t i = 0; i < sources.size(); ++i) {
      prefetch(i + kPrefetchWeights);
      const graph::WeightSource& source = sources[i];
      if (source.role == graph::WeightRole::elsewhere) {
        matrices_.emplace_back();
        held_.emplace_back();
        continue;
      }
      const bool is_vector = source.role == graph::WeightRole::vector;
      const tensor::DType dtype = is_vector ? tensor::DType::f32 : source.dtype;
      matrices_.push_back({dtype, at, source.shape.rows, source.shape.cols});
      if (is_vector) {
        ring.upload_vector(source, at);
      } else {
        for (int64_t e = 0; e < source.shape.experts; ++e) ring.upload_matrix(source, e, matrices_.back());
      }
      if (source.release) source.release();
      held_.push_back({source.shape, source.dtype, held_bytes(source)});
      at += held_.back().bytes;
      if (progress) progress(at - buffer_.data(), total);
    }
    device.wait("weights/done");
  });
}

const float* CudaWeights::vector(graph::WeightId id) const {
  return id == graph::kNoWeight ? nullptr : reinterpret_cast<const float*>(matrix(id).data);
}

}  // namespace minfer::cuda
