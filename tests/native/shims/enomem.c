// SPDX-License-Identifier: Apache-2.0
/* Out of memory after a while. */
#include "forward.h"

#include <errno.h>

void* serve(size_t size) {
  if (count_call() > LATE) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_malloc(size);
}
