// SPDX-License-Identifier: Apache-2.0
// What a forked child does first: it forgets the parent's session, and begins one of its own at its first record.
#pragma once

namespace heapyard::tracer {

// For pthread_atfork(): by the one thread that the child has. O(rings); system calls only.
void after_fork_in_child();

}  // namespace heapyard::tracer
