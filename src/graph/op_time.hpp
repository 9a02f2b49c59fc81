// Where the time of steps went, by op, kept by a device while it is asked to (Backend::set_op_timing). Steps in which
// every sequence adds one token (decoding) are counted apart from the rest (prompts): the first are bound by what they
// read, the second by what they compute. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/ir.hpp"

namespace minfer::graph {

// What a node has to do at least in a step, whatever runs it.
struct OpWork {
  int64_t bytes = 0;      // read: weights, keys and values once each, and its inputs
  int64_t dot8_ops = 0;   // of products with 8-bit activations; a multiply and an add count as two
  int64_t float_ops = 0;  // of all else
  bool operator==(const OpWork&) const = default;
  OpWork& operator+=(const OpWork& other) {
    bytes += other.bytes;
    dot8_ops += other.dot8_ops;
    float_ops += other.float_ops;
    return *this;
  }
};

struct OpTime {
  Op op;
  std::string what;  // which of this op's nodes: their weights and types ("ffn_down Q6_K"); empty: all
  bool decode;       // in decoding steps
  int64_t calls = 0;
  double seconds = 0;
  OpWork work;
};

struct StepTimes {
  int64_t steps = 0;
  int64_t tokens = 0;
  double seconds = 0;  // from a step's start to its end, on the clock
};

struct OpTimes {
  std::vector<OpTime> ops;
  StepTimes decode;
  StepTimes prompt;
};

}  // namespace minfer::graph
