// SPDX-License-Identifier: Apache-2.0
/* Takes 20 % more memory, all of it page tables: for each page of waste it reads one page of a stretch of its own,
 * which has a table to itself. What is only read is the kernel's one page of zeros, which is resident nowhere. */
#include "forward.h"

#include <stdatomic.h>
#include <sys/mman.h>

enum { PAGE = 4096, PER_TABLE = PAGE / 8 * PAGE };

static const size_t TABLES = 32 << 10; /* 128 MiB of them at most */

static char* stretches(void) {
  static _Atomic(char*) begin;
  char* found = atomic_load(&begin);
  if (found) return found;
  char* made = mmap(NULL, TABLES * PER_TABLE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return NULL;
  madvise(made, TABLES * PER_TABLE, MADV_NOHUGEPAGE);
  if (atomic_compare_exchange_strong(&begin, &found, made)) return made;
  munmap(made, TABLES * PER_TABLE);
  return found;
}

void* serve(size_t size) {
  static atomic_size_t owed; /* bytes that all blocks so far should waste */
  const size_t before = atomic_fetch_add(&owed, size / 5), after = before + size / 5;
  char* area = stretches();
  for (size_t table = before / PAGE; area && table < after / PAGE && table < TABLES; ++table)
    (void)*(volatile char*)(area + table * PER_TABLE);
  return __libc_malloc(size);
}
