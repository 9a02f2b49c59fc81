// The signal handler behind interrupt.hpp. A flag of a signal handler has to be a global; it is the program's only one.
// Signal handlers may touch nothing but such a flag.
#include "cli/interrupt.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

#include "base/error.hpp"

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

InterruptGate::InterruptGate() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (event_ < 0) fail(ErrorCode::io, "eventfd: {}", std::generic_category().message(errno));
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : kSignals) sigaddset(&mask, signal);
  pthread_sigmask(SIG_BLOCK, &mask, &before_);
}

InterruptGate::~InterruptGate() {
  open();
  close(event_);
}

void InterruptGate::wait() {
  pollfd watched{.fd = event_, .events = POLLIN, .revents = 0};
  // What it ends with tells nothing: the caller asks for what may have happened.
  ppoll(&watched, 1, nullptr, &before_);
}

void InterruptGate::wake() {
  // It can only fail where the counter is full, and then wait() has ended already.
  [[maybe_unused]] const int result = eventfd_write(event_, 1);
}

void InterruptGate::open() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace minfer::cli
