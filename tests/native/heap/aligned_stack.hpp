// SPDX-License-Identifier: Apache-2.0
// For signal handlers of tests.
#pragma once

// QEMU 7.2 calls signal handlers with a stack that is not aligned; what a handler calls may use aligned instructions.
#if defined(__x86_64__)
#define ON_AN_ALIGNED_STACK [[gnu::force_align_arg_pointer]]
#else
#define ON_AN_ALIGNED_STACK
#endif
