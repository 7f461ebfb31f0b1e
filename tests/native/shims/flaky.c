// SPDX-License-Identifier: Apache-2.0
/* Dies after a while in every third launch; the file named by HEAPYARD_TEST_COUNTER counts the launches. */
#include "counter.h"
#include "forward.h"

#include <signal.h>

static long launch;

__attribute__((constructor)) static void count_launch(void) { launch = next_count(); }

void* serve(size_t size) {
  if (count_call() > LATE && launch % 3 == 2) raise(SIGSEGV);
  return __libc_malloc(size);
}
