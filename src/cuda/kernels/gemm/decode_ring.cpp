// The two slots' events. See decode_ring.hpp.
#include "cuda/kernels/gemm/decode_ring.hpp"

#include "cuda/launch/gemm.hpp"

namespace minfer::cuda {
namespace {

constexpr const char* kSite = "gemm/ring";

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  check_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), kSite);
  return event;
}

}  // namespace

DecodeRing::DecodeRing(std::byte* memory) : memory_(memory) {
  int lowest = 0;
  int highest = 0;
  check_status(cudaDeviceGetStreamPriorityRange(&lowest, &highest), kSite);
  check_status(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, lowest), kSite);
  fork_ = make_event();
  decoded_ = make_event();
  for (cudaEvent_t& event : consumed_) event = make_event();
}

DecodeRing::~DecodeRing() {
  for (cudaEvent_t event : consumed_) cudaEventDestroy(event);
  cudaEventDestroy(decoded_);
  cudaEventDestroy(fork_);
  cudaStreamDestroy(stream_);
}

void DecodeRing::open(const Queue& queue) {
  guard_call(queue, kSite);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long capture = 0;
  check_status(cudaStreamGetCaptureInfo(queue.stream, &status, &capture), kSite);
  if (status == cudaStreamCaptureStatusNone) capture = 0;
  if (capture != 0 && capture == capture_) return;
  check_status(cudaEventRecord(fork_, queue.stream), kSite);
  check_status(cudaStreamWaitEvent(stream_, fork_), kSite);
  for (int64_t& used : used_) used = 0;
  capture_ = capture;
}

std::byte* DecodeRing::begin() {
  if (used_[slot_] > 0) check_status(cudaStreamWaitEvent(stream_, consumed_[slot_]), kSite);
  return memory_ + slot_ * kGemmSliceBytes;
}

Queue DecodeRing::side(const Queue& queue) const {
  Queue side = queue;
  side.stream = stream_;
  side.chained = false;
  return side;
}

void DecodeRing::decoded(const Queue& queue) {
  check_status(cudaEventRecord(decoded_, stream_), kSite);
  check_status(cudaStreamWaitEvent(queue.stream, decoded_), kSite);
}

void DecodeRing::consumed(const Queue& queue) {
  check_status(cudaEventRecord(consumed_[slot_], queue.stream), kSite);
  ++used_[slot_];
  slot_ = (slot_ + 1) % kSlots;
}

}  // namespace minfer::cuda
