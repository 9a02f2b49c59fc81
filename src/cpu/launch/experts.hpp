// Mixtures of experts: routing, and products of rows with the matrices of the experts that they go to. A row goes to
// `used` experts; these (row, expert) pairs are its entries, and a group is the entries of one expert: they lie beside
// one another, so that a group is an ordinary product (launch/linear.hpp) and only experts with entries are read.
// Launchers are called by every thread of a section with equal arguments and end with a barrier. An output's bits do
// not depend on threads nor on the other rows. Breaking a condition is a programmer's error: Error{internal}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/thread_pool.hpp"
#include "cpu/launch/linear.hpp"
#include "cpu/runtime/isa.hpp"
#include "graph/enums.hpp"
#include "graph/routing.hpp"

namespace minfer::cpu {

// Routes of a step's rows, in memory of routes_bytes.
struct Routes {
  int64_t rows;
  int64_t used;
  int32_t* chosen;       // [rows][used]: experts, the best first
  int32_t* entry;        // [rows][used]: where the entries lie
  int32_t* source;       // [rows * used]: an entry's row
  int32_t* groups;       // how many there are
  int32_t* expert;       // [groups], ascending
  int32_t* first_entry;  // [groups + 1]

  int64_t entries() const { return rows * used; }
};
int64_t routes_bytes(int64_t rows, int64_t used);
Routes routes_at(std::byte* memory, int64_t rows, int64_t used);

// The choice and the weights of graph::RouteAttributes; a NaN is below all. Up to kMaxExperts experts, kMaxChosen used.
struct RouteArgs {
  const float* logits;  // [rows][experts]
  int64_t experts;
  const float* biases;  // [experts] or null
  graph::RouteAttributes choice;
  Routes routes;   // out; choice.used of each row
  float* weights;  // out, [rows][used]
};
void launch_route(Worker& worker, const RouteArgs& args);

// Matrices of all experts behind one another, packed one by one.
struct ExpertWeights {
  LinearWeight first;
  const float* bias = nullptr;  // [experts][first.rows] or null
};
// Bytes from one expert's matrix to the next.
int64_t expert_stride(const LinearWeight& weight);

// Inputs of experts' products: by entry, or by row; the latter are put in the entries' order first, in scratch of
// gather_bytes.
struct ExpertInput {
  ActivationRows x;
  int64_t k;
  bool by_entry;
};
int64_t gather_bytes(int64_t row_bytes, int64_t entries);

// out[entry] = x W^T + bias of the entry's expert; f32 [entries][rows of a matrix].
void launch_expert_linear(Isa isa, Worker& worker, const Routes& routes, const ExpertInput& input,
                          const ExpertWeights& weights, float* out, std::span<std::byte> scratch);

// activation(gate) * up of the entry's expert, to out or q8 (the other is null), [entries].
struct ExpertGlu {
  graph::Activation activation;
  ExpertWeights gate;
  ExpertWeights up;
  float* out = nullptr;
  std::byte* q8 = nullptr;
};
void launch_expert_glu(Isa isa, Worker& worker, const Routes& routes, const ExpertInput& input, const ExpertGlu& args,
                       std::span<std::byte> scratch);

// out[row] = sum of weights[row][i] * y[entry i of the row], in the order of i, + residual.
struct ExpertSumArgs {
  const float* y;  // [entries][n], or [rows][n] where by_row (used is 1 then)
  bool by_row;
  const float* weights;   // [rows][used]
  const float* residual;  // [rows][n] or null; may be out
  int64_t n;
  float* out;  // [rows][n]
};
void launch_expert_sum(Worker& worker, const Routes& routes, const ExpertSumArgs& args);

}  // namespace minfer::cpu
