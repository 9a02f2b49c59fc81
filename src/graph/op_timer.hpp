// Where a device adds up the times of its executables' steps, by kind of node; shared by the devices. Engine's thread
// only.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_time.hpp"
#include "graph/op_work.hpp"

namespace minfer::graph {

// Of a device: the sums.
class OpTimer {
 public:
  bool on() const { return on_; }
  void set(bool on) { on_ = on; }

  // The row of a kind of node, made at the first call.
  size_t row(Op op, const std::string& what);

  // What a step took: node i node_seconds[i], which goes to rows[i] with work[i]. Nodes whose work is nothing did not
  // run.
  struct Step {
    bool decode;
    int64_t tokens;
    double seconds;
    std::span<const double> node_seconds;
    std::span<const size_t> rows;
    std::span<const OpWork> work;
  };
  void add(const Step& step);

  OpTimes times() const;

 private:
  struct Row {
    OpTime decode;
    OpTime prompt;
  };
  bool on_ = false;
  std::map<std::pair<Op, std::string>, size_t> index_;
  std::vector<Row> rows_;
  StepTimes decode_;
  StepTimes prompt_;
};

// Of an executable: what its nodes are, and the times of one step on their way to the sums. Graph, weights and timer
// outlive it. Made at the first step that is timed.
class StepTimer {
 public:
  // `cache_row_bytes`: by layer, keys and values of one position.
  StepTimer(OpTimer& timer, const Graph& graph, std::span<const HeldWeight> weights,
            std::vector<int64_t> cache_row_bytes);
  // To be filled before add(): seconds of each node.
  std::span<double> node_seconds() { return node_seconds_; }
  void add(const StepData& step, double seconds);

 private:
  OpTimer& timer_;
  const Graph& graph_;
  std::span<const HeldWeight> weights_;
  std::vector<int64_t> cache_row_bytes_;
  std::vector<size_t> rows_;  // by node
  std::vector<OpWork> work_;
  std::vector<double> node_seconds_;
};

}  // namespace minfer::graph
