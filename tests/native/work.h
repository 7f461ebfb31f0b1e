// SPDX-License-Identifier: Apache-2.0
/* Work of a known amount, by the same machine code in a program and in the shim that slows it: the true share of added
 * time is a ratio of unit counts and needs no clock.
 */
#pragma once

/* A chain in which every step waits for the one before: neither alignment nor neighbours matter. O(units). */
__attribute__((visibility("hidden"))) void work(unsigned long units);

enum {
  UNITS_PER_PAIR = 20000,           /* what `mallocs` does for every malloc and free: some 300 times their cost */
  SLOW_UNITS = UNITS_PER_PAIR / 20, /* what libslow adds to every malloc: 5 % */
};
