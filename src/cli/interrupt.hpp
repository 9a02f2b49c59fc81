// Ctrl-C: the first asks the running work to stop at its next step, a second one ends the process at once.
#pragma once

namespace minfer::cli {

void install_interrupt_handler();
bool interrupted();

}  // namespace minfer::cli
