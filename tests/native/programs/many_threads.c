// SPDX-License-Identifier: Apache-2.0
// COUNT threads at a time, each with a few blocks of 20 sizes: tells resident memory and page tables, in KiB, when all
// are there; then they end, and one more works. 1: a thread could not be started; how many there were goes before.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSizes = 20 };
static pthread_barrier_t all_there, told;

static void* work(void* waits) {
  char* blocks[kSizes];
  for (int i = 0; i < kSizes; ++i) {
    const size_t bytes = 16 + 40 * (size_t)i;
    blocks[i] = malloc(bytes);
    if (blocks[i] == NULL) continue;  // under a limit the last stack may leave nothing
    memset(blocks[i], i, bytes);
  }
  if (waits != NULL) {
    pthread_barrier_wait(&all_there);
    pthread_barrier_wait(&told);
  }
  for (int i = 0; i < kSizes; ++i) {
    for (size_t at = 0; blocks[i] != NULL && at < 16 + 40 * (size_t)i; ++at) {
      if (blocks[i][at] != i) abort();
    }
    free(blocks[i]);
  }
  return NULL;
}

static int status(const char* name) {
  char line[256];
  int kib = 0;
  FILE* file = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) kib = atoi(line + strlen(name));
  }
  fclose(file);
  return kib;
}

int main(int words, char** word) {
  const int count = words > 1 ? atoi(word[1]) : 1;
  pthread_barrier_init(&all_there, NULL, (unsigned)count + 1);
  pthread_barrier_init(&told, NULL, (unsigned)count + 1);
  pthread_t* threads = malloc((size_t)count * sizeof *threads);
  pthread_attr_t small;
  pthread_attr_init(&small);
  if (words > 2) pthread_attr_setstacksize(&small, (size_t)atoi(word[2]) << 10);
  for (int i = 0; i < count; ++i) {
    if (pthread_create(&threads[i], &small, work, &all_there) != 0) {
      printf("%d\n", i);
      fflush(stdout);
      _Exit(1);
    }
  }
  pthread_barrier_wait(&all_there);
  printf("%d %d\n", status("VmRSS:"), status("VmPTE:"));
  pthread_barrier_wait(&told);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  work(NULL);
  return 0;
}
