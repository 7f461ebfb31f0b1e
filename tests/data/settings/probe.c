// SPDX-License-Identifier: Apache-2.0
// Does what settings of allocators are about, and prints what can be seen of it from outside: `stage.field value`
// lines. `probe N`: sleeps N milliseconds where an allocator may give memory back by the clock.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SMALL = 40000, THREADS = 12, OWN = 2000 };

static char text[1 << 20];
static pthread_barrier_t barrier;
static long milliseconds;

static void read_file(const char* name) {
  const int file = open(name, O_RDONLY);
  ssize_t got;
  size_t length = 0;
  while (file >= 0 && (got = read(file, text + length, sizeof text - 1 - length)) > 0) length += (size_t)got;
  text[length] = 0;
  close(file);
}

static long field(const char* file, const char* name) {
  read_file(file);
  const char* found = strstr(text, name);
  return found ? atol(found + strlen(name)) : -1;
}

static long lines_of(const char* file) {
  long lines = 0;
  read_file(file);
  for (const char* at = text; (at = strchr(at, '\n')); at++) lines++;
  return lines;
}

static void look(const char* stage) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("%s.faults %ld\n%s.rss %ld\n%s.size %ld\n", stage, usage.ru_minflt, stage,
         field("/proc/self/status", "VmRSS:"), stage, field("/proc/self/status", "VmSize:"));
  printf("%s.huge %ld\n%s.maps %ld\n%s.threads %ld\n", stage, field("/proc/self/smaps_rollup", "AnonHugePages:"), stage,
         lines_of("/proc/self/maps"), stage, field("/proc/self/status", "Threads:"));
}

static void* touched(size_t bytes) {
  void* block = malloc(bytes);
  memset(block, 1, bytes < 65536 ? (bytes < 64 ? bytes : 64) : bytes);
  return block;
}

static void take_and_give(void** blocks, int count, size_t bytes, size_t step) {
  for (int i = 0; i < count; i++) blocks[i] = touched(bytes + (size_t)i * step);
  for (int i = 0; i < count; i++) free(blocks[i]);
}

static void* in_a_thread(void* nothing) {
  void* blocks[OWN];
  take_and_give(blocks, OWN, 16, 1);
  take_and_give(blocks, 64, 6000, 500);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 30; i++) take_and_give(blocks, OWN, 2000, 0);
  for (int i = 0; i < OWN; i++) blocks[i] = touched(64);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < OWN; i++) free(blocks[i]);
  return nothing;
}

static void in_threads(void) {
  pthread_t threads[THREADS];
  pthread_barrier_init(&barrier, 0, THREADS + 1);
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, in_a_thread, 0);
  pthread_barrier_wait(&barrier);
  look("begun");
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  look("cached");
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
  look("joined");
}

int main(int count, char** words) {
  static void* blocks[SMALL];
  static char out[16384];
  setvbuf(stdout, out, _IOFBF, sizeof out);
  milliseconds = count > 1 ? atol(words[1]) : 0;
  for (int i = 0; i < SMALL; i++) blocks[i] = touched(64 + (size_t)(i % 16) * 16);
  look("small");
  for (int i = 0; i < SMALL; i++)
    if (i % 64) free(blocks[i]);
  look("holes");
  for (int i = 0; i < SMALL; i += 64) free(blocks[i]);
  look("none");
  for (int i = 0; i < 60; i++) blocks[i] = touched(200000 + (size_t)i * 4096);
  look("middle");
  for (int i = 0; i < 60; i++) free(blocks[i]);
  look("freed");
  for (int i = 0; i < 5; i++) take_and_give(blocks, 1, 12 << 20, 0);
  look("large");
  for (int i = 0; i < 6; i++) {
    for (int j = 0; j < 80; j++) blocks[j] = touched(j < 40 ? 700000 : 40000);
    for (int j = 0; j < 80; j++) free(blocks[j]);
    usleep(milliseconds > 0 ? 150000 : 15000);
  }
  look("churn");
  in_threads();
  const long before = field("/proc/self/status", "VmRSS:");
  usleep((useconds_t)milliseconds * 1000);
  take_and_give(blocks, 1, 100, 0);
  printf("idle.given %ld\n", before - field("/proc/self/status", "VmRSS:"));
  take_and_give(blocks, SMALL, 64, 0);
  take_and_give(blocks, 40, 300000, 0);
  look("slept");
  return 0;
}
