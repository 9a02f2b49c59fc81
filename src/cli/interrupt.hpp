// Ctrl-C and SIGTERM: the first asks the running work to stop at its next step, a second one ends the process at once.
// Only a flag is set in the handler; whoever works in steps asks for it between them.
#pragma once

namespace minfer::cli {

void install_interrupt_handler();
bool interrupted();

}  // namespace minfer::cli
