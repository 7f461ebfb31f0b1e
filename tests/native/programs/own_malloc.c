// SPDX-License-Identifier: Apache-2.0
/* own_malloc: brings and exports a malloc of its own, which no preload can replace. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static _Alignas(16) char heap[1 << 20];
static size_t used;

void* malloc(size_t size) {
  size_t rounded = (size + 15) & ~(size_t)15;
  if (rounded < size || rounded > sizeof heap - used) return NULL;
  void* block = heap + used;
  used += rounded;
  return block;
}

void free(void* block) { (void)block; }

void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
  return malloc(bytes); /* static memory, never reused: already zero */
}

void* realloc(void* old, size_t size) {
  void* block = malloc(size);
  if (!block || !old) return block;
  size_t left = (size_t)(heap + sizeof heap - (char*)old);
  return memcpy(block, old, size < left ? size : left);
}

int main(void) {
  char* block = malloc(64);
  if (!block) return 1;
  strcpy(block, "done");
  puts(block);
}
