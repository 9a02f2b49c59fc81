// The time of launches as the product runs them: captured in a graph, replayed, between events. For the benchmarks on
// the card. One thread; any failed call throws.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "cuda/runtime/status.hpp"

namespace minfer::cuda {

// Median milliseconds of a graph of what `body` launches on `stream`. Replays follow one another without a pause; the
// first two are not counted.
inline double graph_ms(cudaStream_t stream, int repeats, const std::function<void()>& body) {
  constexpr const char* kSite = "bench";
  check_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), kSite);
  body();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check_status(cudaStreamEndCapture(stream, &graph), kSite);
  check_status(cudaGraphInstantiate(&executable, graph, 0), kSite);
  std::vector<cudaEvent_t> events(static_cast<size_t>(repeats + 1));
  for (cudaEvent_t& event : events) check_status(cudaEventCreate(&event), kSite);
  for (int i = 0; i < 2; ++i) check_status(cudaGraphLaunch(executable, stream), kSite);
  check_status(cudaEventRecord(events[0], stream), kSite);
  for (size_t i = 1; i < events.size(); ++i) {
    check_status(cudaGraphLaunch(executable, stream), kSite);
    check_status(cudaEventRecord(events[i], stream), kSite);
  }
  check_status(cudaStreamSynchronize(stream), kSite);
  std::vector<float> times;
  for (size_t i = 1; i < events.size(); ++i) {
    float ms = 0;
    check_status(cudaEventElapsedTime(&ms, events[i - 1], events[i]), kSite);
    times.push_back(ms);
  }
  for (cudaEvent_t event : events) check_status(cudaEventDestroy(event), kSite);
  check_status(cudaGraphExecDestroy(executable), kSite);
  check_status(cudaGraphDestroy(graph), kSite);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace minfer::cuda
