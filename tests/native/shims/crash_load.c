// SPDX-License-Identifier: Apache-2.0
/* Dies before main. */
#include "forward.h"

#include <signal.h>

__attribute__((constructor)) static void crash(void) { raise(SIGSEGV); }

void* serve(size_t size) { return __libc_malloc(size); }
