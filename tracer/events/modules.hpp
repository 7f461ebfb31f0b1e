// SPDX-License-Identifier: Apache-2.0
// The loaded objects: the collector is told of each once, and what is known of their code is forgotten when one may
// have gone.
//
// Cost: O(objects) when code of one is met for the first time. Threads: any; there is no lock, so that an object may be
// told twice. Signals: only the thread's own recording comes here.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "tracer/events/thread_state.hpp"
#include "tracer/events/unwinder.hpp"

namespace heapyard::tracer {

inline constinit RuleCache rules;                           // of their code
inline constinit std::atomic<std::uint32_t> generation{1};  // another once modules may have gone, and in a child

// Tells the collector of it, if that was not done. The thread has a ring.
void send_module(ThreadState& self, const dl_find_object& object);

// The collector is told of every object anew: in a forked child, or once some may have gone. O(1).
void tell_modules_anew();

// Some may have been unloaded. O(rules there may be).
void forget_modules();

}  // namespace heapyard::tracer
