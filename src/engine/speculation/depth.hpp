// How many tokens to draft. A longer draft makes a step slower by what its rows cost, and gains what is accepted of it:
// StepCost learns the first from the measured steps, DepthPolicy the second from what became of the drafts. The
// adaptive policy takes the depth of the most expected tokens a second, 0 included, and never stakes more than it has:
// each token earns kLossShare of a token, drafts earn what they gain, and a draft is as long at most as the credit
// would pay for if all of it were refused. So whatever the text, drafting costs at most kLossShare of the tokens and
// kFirstCredit once, as far as costs are known. What a draft model has to read before its first guess is part of that:
// it begins with as much of the text's end as the credit pays for, and goes back further once drafts have earned it.
// Where drafts don't pay, a short one is tried after pauses that double.
// Pure but for their own state; no clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/speculation/proposer.hpp"

namespace minfer::engine {

inline constexpr int64_t kMaxDepth = 16;

// Seconds that a step of so many rows takes: those of decoding, with the proposing of drafts; steps with a prompt's
// rows don't count. One serves all sequences of a device.
class StepCost {
 public:
  // The first step of a size is left out, as it compiles the step.
  void record(int64_t rows, double seconds);
  // Between sizes that were measured a straight line, a steeper one beyond them; before the first, in units of one
  // row's step.
  double seconds(int64_t rows) const;
  // Of a proposer's reading of tokens that it had not read (Proposer::catch_up), which is no part of the steps'
  // seconds.
  void record_catch_up(int64_t tokens, double seconds);
  double catch_up_seconds(int64_t tokens) const;
  // Whether that was measured, lately.
  bool knows(int64_t rows) const { return is_known(size_index(rows)); }
  // Whether what a row adds was, or is a guess still.
  bool knows_slope() const { return known_sizes_ > 1; }

 private:
  // Sizes, as steps are compiled for; others count as the next one. Larger ones continue the line.
  static constexpr std::array<int64_t, 20> kSizes = {1,  2,  3,  4,   6,   8,   12,  16,  24,  32,
                                                     48, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
  struct Measured {
    double seconds = 0;
    int64_t samples = 0;
    int64_t last = 0;  // record() that gave one
  };

  static size_t size_index(int64_t rows);
  bool is_known(size_t index) const;
  void fill();

  std::array<Measured, kSizes.size()> measured_;
  std::array<double, kSizes.size()> line_{};  // all sizes, the unknown ones by the known
  int64_t known_sizes_ = 0;
  int64_t records_ = 0;
  double catch_up_seconds_ = 0;  // of a token; 0: unknown
};

class DepthPolicy {
 public:
  static constexpr double kLossShare = 0.015;
  static constexpr double kFirstCredit = 1.5;  // tokens
  static constexpr double kMostCredit = 8.0;

  // Errors: invalid_input for a depth that is not 1 to kMaxDepth.
  static DepthPolicy fixed(int64_t depth) { return DepthPolicy(depth, false); }
  static DepthPolicy adaptive(int64_t most) { return DepthPolicy(most, true); }

  // The tokens to draft for the next step, which has `other_rows` rows of other sequences.
  int64_t next(const StepCost& cost, int64_t other_rows) const;
  // How many tokens a proposer is to read before it drafts so many (Proposer::catch_up): 0: none; nullopt: that can't
  // be paid now, so that nothing is to be drafted.
  std::optional<int64_t> tokens_to_read(const StepCost& cost, int64_t other_rows, const Lag& lag) const;
  void pay_reading(const StepCost& cost, int64_t other_rows, int64_t tokens);
  // What became of it: how many were drafted, which the proposer may have had fewer of, and how many accepted.
  void record(const StepCost& cost, int64_t other_rows, int64_t drafted, int64_t accepted);

 private:
  DepthPolicy(int64_t depth, bool adapts);

  int64_t depth_;
  bool adapts_;
  double acceptance_ = 0.5;       // of a drafted token whose predecessors were accepted
  double credit_ = kFirstCredit;  // tokens that may be lost
  int64_t idle_ = 0;              // steps since the last draft
  int64_t pause_;                 // before the next probe
};

}  // namespace minfer::engine
