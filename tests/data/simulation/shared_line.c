// SPDX-License-Identifier: Apache-2.0
// Two threads, each with a counter of its own, in one cache line: false sharing as it stands in textbooks.
#include <pthread.h>
#include <stdlib.h>

enum { kRounds = 20000 };

static _Alignas(64) volatile long counters[8];
static pthread_barrier_t both;

static void* count(void* own) {
  volatile long* const counter = own;
  pthread_barrier_wait(&both);
  for (int i = 0; i < kRounds; ++i) ++*counter;
  return 0;
}

int main(void) {
  pthread_t other;
  void* const block = malloc(100);
  if (!block || pthread_barrier_init(&both, 0, 2) || pthread_create(&other, 0, count, (void*)&counters[4])) return 1;
  count((void*)&counters[0]);
  pthread_join(other, 0);
  free(block);
  return counters[0] + counters[4] == 2 * kRounds ? 0 : 1;
}
