// Memory that was freed goes back to the system. An allocator keeps freed pieces for the next ones, in a heap for each
// of several threads; what a burst of work has spread over them would stay resident for as long as the process lives.
#pragma once

namespace minfer {

// Takes milliseconds, and other threads may wait meanwhile: for times without work. Nothing to do where the C library
// has no call for it.
void release_free_memory();

}  // namespace minfer
