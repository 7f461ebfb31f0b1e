// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program, counts its calls of malloc and how many bytes they asked for; glibc serves them.
//
// When a process ends it appends one line, "calls bytes", to the file COUNT_MALLOCS_FILE names. Counting costs two
// atomic additions for each call: never time a program under it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* block, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void* block);

static atomic_ullong calls, bytes;

static void count(size_t size) {
  atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&bytes, size, memory_order_relaxed);
}

void* malloc(size_t size) {
  count(size);
  return __libc_malloc(size);
}

void* calloc(size_t number, size_t size) {
  count(number * size);
  return __libc_calloc(number, size);
}

void* realloc(void* block, size_t size) {
  count(size);
  return __libc_realloc(block, size);
}

void free(void* block) { __libc_free(block); }

void* memalign(size_t alignment, size_t size) {
  count(size);
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** block, size_t alignment, size_t size) {
  void* found = memalign(alignment, size);
  if (found == NULL) return ENOMEM;
  *block = found;
  return 0;
}

// Of glibc itself: a program linked with another allocator would otherwise ask that one about our blocks.
size_t malloc_usable_size(void* block) {
  static size_t (*of_glibc)(void*);
  if (of_glibc == NULL) {
    void* libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    *(void**)&of_glibc = dlsym(libc, "malloc_usable_size");
  }
  return of_glibc(block);
}

// Known from the beginning: nginx takes all variables away from its workers.
static char path[4096];

__attribute__((constructor)) static void begin(void) {
  const char* given = getenv("COUNT_MALLOCS_FILE");
  snprintf(path, sizeof path, "%s", given != NULL ? given : "");
}

__attribute__((destructor)) static void tell(void) {
  const int file = *path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (file < 0) return;
  char line[64];
  const int length = snprintf(line, sizeof line, "%llu %llu\n", atomic_load(&calls), atomic_load(&bytes));
  if (write(file, line, (size_t)length) != length) perror("count_mallocs");
  close(file);
}
