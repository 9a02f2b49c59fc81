// Where a CPU backend adds up the times of its executables' steps, by kind of node. Engine's thread only.
#pragma once

#include <chrono>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_time.hpp"

namespace minfer::cpu {

class OpTimer {
 public:
  using Clock = std::chrono::steady_clock;

  bool on() const { return on_; }
  void set(bool on) { on_ = on; }

  // The row of a kind of node, made at the first call.
  size_t row(graph::Op op, const std::string& what);

  // What a step took: `stamps` has the section's start and the end of each node; node i adds to rows[i] with work[i].
  // Nodes whose work is nothing did not run.
  struct Step {
    bool decode;
    int64_t tokens;
    Clock::duration whole;
    std::span<const Clock::time_point> stamps;  // [nodes + 1]
    std::span<const size_t> rows;               // [nodes]
    std::span<const graph::OpWork> work;        // [nodes]
  };
  void add(const Step& step);

  graph::OpTimes times() const;

 private:
  struct Row {
    graph::OpTime decode;
    graph::OpTime prompt;
  };
  bool on_ = false;
  std::map<std::pair<graph::Op, std::string>, size_t> index_;
  std::vector<Row> rows_;
  graph::StepTimes decode_;
  graph::StepTimes prompt_;
};

}  // namespace minfer::cpu
