/* Work of a known amount: the same machine code in a program and in the shim that slows it, so that the true share of added
 * time is a ratio of unit counts and needs no clock.
 */
#pragma once

/* A chain in which every step waits for the one before: its time depends on neither alignment nor neighbours. O(units). */
static inline __attribute__((always_inline)) void work(unsigned long units) {
  unsigned long value = units;
  for (unsigned long i = 0; i < units; ++i) {
    value = value * 6364136223846793005UL + 1442695040888963407UL;
    __asm__ volatile("" : "+r"(value)); /* the compiler must not fold the chain */
  }
}

enum {
  UNITS_PER_PAIR = 20000,            /* what `mallocs` does for every malloc and free: some 300 times the cost of the pair */
  SLOW_UNITS = UNITS_PER_PAIR / 20, /* what libslow adds to every malloc: 5 % */
};
