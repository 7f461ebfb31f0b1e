// SPDX-License-Identifier: Apache-2.0
// Where the stub lies in another process, and how it comes there and goes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tracer/injector/call_chain.hpp"
#include "tracer/injector/stub.hpp"
#include "tracer/injector/target_process.hpp"

namespace heapyard::injector {

// A stub that an injector left which was killed; its thread may still be in it.
struct Leftover {
  Range range;
  pid_t owner;
};

// O(bytes of slack), a few KiB an object.
std::vector<Leftover> leftovers(const TargetProcess& process);

// Room for a stub: bytes that are all zero, after the text of an object.
std::optional<Range> free_place(const TargetProcess& process);

// `thread` is any stopped one of the process.
bool write_stub(pid_t thread, Range place, const StubWords& words);
bool clear_stub(pid_t thread, Range place);

// Clears each leftover whose thread has ended, or is `held`, which stands elsewhere. False: `held` is still in one.
bool clear_leftovers(const TargetProcess& process, pid_t held, const CallChain& chain);

}  // namespace heapyard::injector
