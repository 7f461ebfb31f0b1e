// SPDX-License-Identifier: Apache-2.0
/* Loops of one pair of calls each, for an instruction counter: count_NAME makes PAIRS of them once warm_NAME made some.
   Whatever a loop has beside its pair is in count_nothing. */
#include <stdint.h>
#include <stdlib.h>

enum { PAIRS = 1000, BYTES = 64 };

void* operator_new(size_t) __asm__("_Znwm") __attribute__((weak));
void operator_delete(void*, size_t) __asm__("_ZdlPvm") __attribute__((weak));

static inline void* opaque(void* block) {
  __asm__ volatile("" : "+r"(block) : : "memory");
  return block;
}

#define LOOP(NAME, TAKE, GIVE)                          \
  __attribute__((noipa)) static void NAME(long pairs) { \
    for (long i = 0; i < pairs; ++i) {                  \
      void* block = opaque(TAKE);                       \
      GIVE;                                             \
    }                                                   \
  }
#define PAIR(NAME, TAKE, GIVE)  \
  LOOP(warm_##NAME, TAKE, GIVE) \
  LOOP(count_##NAME, TAKE, GIVE)

PAIR(nothing, (void*)(uintptr_t)i, (void)block)
PAIR(malloc, malloc(BYTES), free(block))
PAIR(aligned_alloc, aligned_alloc(BYTES, BYTES), free(block))
PAIR(realloc, realloc(malloc(BYTES), BYTES), free(block))
PAIR(new, operator_new(BYTES), operator_delete(block, BYTES))

int main(void) {
  warm_nothing(PAIRS), count_nothing(PAIRS);
  warm_malloc(PAIRS), count_malloc(PAIRS);
  warm_aligned_alloc(PAIRS), count_aligned_alloc(PAIRS);
  warm_realloc(PAIRS), count_realloc(PAIRS);
  if (operator_new != NULL && operator_delete != NULL) warm_new(PAIRS), count_new(PAIRS);
  return 0;
}
