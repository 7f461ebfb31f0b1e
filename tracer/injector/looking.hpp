// SPDX-License-Identifier: Apache-2.0
// Finds a thread that may be made to call something, and has it call.
#pragma once

#include "tracer/injector/injection.hpp"

namespace heapyard::injector {

// Stops one thread at a time, each for well under a millisecond, until one stands at a safe place; gives up after some
// seconds. Blocks SIGCHLD, and the signals that would end this process while a thread is held.
Answer inject(const Request& request);

}  // namespace heapyard::injector
