// SPDX-License-Identifier: Apache-2.0
/* No fault either: says on standard error, when the program ends, how many allocations it asked for. */
#include <stdatomic.h>
#include <unistd.h>

#include "forward.h"

static atomic_ulong calls;

void* serve(size_t size) {
  atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
  return __libc_malloc(size);
}

__attribute__((destructor)) static void tell(void) {
  char text[24];
  size_t at = sizeof text;
  text[--at] = '\n';
  unsigned long number = atomic_load(&calls);
  do text[--at] = (char)('0' + number % 10);
  while (number /= 10);
  if (write(STDERR_FILENO, text + at, sizeof text - at) < 0) return;
}
