// The signal handler behind interrupt.hpp. A flag of a signal handler has to be a global; it is the program's only one.
// Signal handlers may touch nothing but such a flag.
#include "cli/interrupt.hpp"

#include <csignal>

namespace minfer::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

volatile std::sig_atomic_t interrupt_count = 0;

void on_interrupt(int) {
  interrupt_count = interrupt_count + 1;
  // The next one, of either kind, finds the default action: the end of the process.
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

}  // namespace

void install_interrupt_handler() {
  // Without SA_RESTART: a read or write that waits for someone else ends with EINTR.
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
  // A file beyond the limit of its size is an error of the write, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
}

bool interrupted() {
  return interrupt_count > 0;
}

}  // namespace minfer::cli
