// SPDX-License-Identifier: Apache-2.0
/* Dies of a signal after a while: the run is short, and must not be taken for a fast one. */
#include "forward.h"

#include <signal.h>

void* serve(size_t size) {
  if (count_call() > LATE) raise(SIGSEGV);
  return __libc_malloc(size);
}
