// SPDX-License-Identifier: Apache-2.0
/* Lets every LATE_EVERY-th request wait for LATE_MILLISECONDS: the median stays as it is, the tail does not. */
#include "forward.h"
#include "known_server.h"

#include <stdatomic.h>
#include <time.h>

void* serve(size_t size) {
  static atomic_ulong requests;
  if (size == REQUEST_BYTES && (atomic_fetch_add(&requests, 1) + 1) % LATE_EVERY == 0)
    nanosleep(&(struct timespec){0, LATE_MILLISECONDS * 1000000L}, NULL);
  return __libc_malloc(size);
}
