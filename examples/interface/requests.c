/* SPDX-License-Identifier: Apache-2.0
   A server that gives each request a heap of its own: what a request forgets to free goes with it. */
#include <heapyard.h>
#include <stdio.h>
#include <stdlib.h>

/* Builds an answer of many small blocks, and frees none of them. */
static size_t serve(heapyard_heap* heap, int request) {
  size_t length = 0;
  for (int line = 0; line < 1000; ++line) {
    char* text = heapyard_heap_allocate(heap, 80);
    if (text == NULL) return 0;
    length += (size_t)snprintf(text, 80, "line %d of the answer to request %d", line, request);
  }
  return length;
}

int main(void) {
  heapyard_set_limit((size_t)64 << 20); /* bytes; what would exceed it gets null and ENOMEM */
  size_t length = 0;
  for (int request = 0; request < 10000; ++request) {
    heapyard_heap* heap = heapyard_heap_create();
    if (heap == NULL) return perror("heapyard_heap_create"), EXIT_FAILURE;
    length += serve(heap, request);
    heapyard_heap_destroy(heap);
  }
  heapyard_purge();

  char statistics[HEAPYARD_STATISTICS_BYTES];
  if (heapyard_statistics(statistics, sizeof statistics) == 0) return EXIT_FAILURE;
  printf("%zu bytes served\n%s\n", length, statistics);
  return EXIT_SUCCESS;
}
