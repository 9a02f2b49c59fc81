// Ctrl-C and SIGTERM: the first asks the running work to stop at its next step, a second one ends the process at once.
// Only a flag is set in the handler; whoever works in steps asks for it between them.
#pragma once

#include <csignal>

namespace minfer::cli {

void install_interrupt_handler();
bool interrupted();

// For a command whose work is done by other threads: while the gate is there, the signals of the thread that made it
// and of those that it starts wait until it is in wait(), which ends without a poll.
class InterruptGate {
 public:
  // Errors: io, where the system has no file descriptor left.
  InterruptGate();
  ~InterruptGate();
  InterruptGate(const InterruptGate&) = delete;
  InterruptGate& operator=(const InterruptGate&) = delete;

  // Until a signal comes, or wake() is called.
  void wait();
  // From any thread.
  void wake();
  // From now on a signal reaches this thread at once.
  void open();

 private:
  sigset_t before_ = {};
  int event_ = -1;
};

}  // namespace minfer::cli
