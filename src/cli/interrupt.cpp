// The signal handler behind interrupt.hpp. A flag of a signal handler has to be a global; it is the program's only one.
// Signal handlers may touch nothing but such a flag.
#include "cli/interrupt.hpp"

#include <csignal>

namespace minfer::cli {
namespace {

volatile std::sig_atomic_t interrupt_count = 0;

void on_interrupt(int signal) {
  interrupt_count = interrupt_count + 1;
  // The next one finds the default action: the end of the process.
  std::signal(signal, SIG_DFL);
}

}  // namespace

void install_interrupt_handler() {
  std::signal(SIGINT, on_interrupt);
}

bool interrupted() {
  return interrupt_count > 0;
}

}  // namespace minfer::cli
