// SPDX-License-Identifier: Apache-2.0
/* A library that allocates, to be loaded and unloaded. */
#include <stdlib.h>

__attribute__((noinline)) void* plugin_allocates(size_t size) {
  void* block = malloc(size);
  __asm__ volatile("" ::: "memory");
  return block;
}

/* Which malloc it calls. */
void* plugin_calls(void) { return (void*)malloc; }
