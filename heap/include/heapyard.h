/* SPDX-License-Identifier: Apache-2.0
   What libheapyard offers beyond malloc: statistics, purges, a limit on memory, and heaps that go as a whole.

   Link with heapyard::heapyard (CMake), or `pkg-config --cflags --libs heapyard-heapyard`. C99 or later, and C++.
   Functions may be called by any thread, but not by a signal handler. docs/allocator.md has the options that the
   environment sets. */
#ifndef HEAPYARD_H
#define HEAPYARD_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the heap has, as JSON: bytes by what they serve, threads, and blocks by size class. Writes at most `bytes`
   bytes, a null byte at the end among them, and returns the length of the whole text, as snprintf does; 0 in a handler
   of pthread_atfork. HEAPYARD_STATISTICS_BYTES are always enough. O(classes x threads). */
#define HEAPYARD_STATISTICS_BYTES 8192
size_t heapyard_statistics(char* text, size_t bytes);

/* Gives back to the system what is free: what the calling thread and the depot keep, and free pages. Returns the bytes
   of pages that went. O(free pages / 1024) system calls. */
size_t heapyard_purge(void);

/* Memory that the heap may have at most, in bytes: pages in use, pages that are free and dirty, and mappings of their
   own. Its tables do not count. What would exceed it gets null and ENOMEM. SIZE_MAX, as at first: no limit. O(1). */
void heapyard_set_limit(size_t bytes);
size_t heapyard_limit(void);

/* A block and what may be used of it, as std::allocate_at_least has it. A null block: errno is ENOMEM. */
typedef struct heapyard_sized {
  void* block;
  size_t bytes;
} heapyard_sized;
heapyard_sized heapyard_allocate_at_least(size_t bytes);

/* First-class heaps. A block of one may be freed by free(), resized by realloc(), which keeps it in its heap, and asked
   by malloc_usable_size(). All that is left goes with the heap, in O(pages it has). A heap takes 12 KiB, and a page at
   least for each size class that it uses. Any threads may allocate from one at the same time; a lock serves each class.
   Null: errno is ENOMEM. */
typedef struct heapyard_heap heapyard_heap;
heapyard_heap* heapyard_heap_create(void);
void* heapyard_heap_allocate(heapyard_heap* heap, size_t bytes);
void* heapyard_heap_allocate_zeroed(heapyard_heap* heap, size_t count, size_t each);
/* `alignment`: a power of two; else null, and errno is EINVAL. */
void* heapyard_heap_allocate_aligned(heapyard_heap* heap, size_t alignment, size_t bytes);
/* Bytes of the pages that it has, without its own. */
size_t heapyard_heap_bytes(heapyard_heap* heap);
/* The heap that a block is of; null: it is of none. `block`: any that malloc or a heap gave, not freed since. */
heapyard_heap* heapyard_heap_of(const void* block);
/* Frees the heap and every block that is left of it. No other thread may use it meanwhile. `heap` may be null. 0; or
   EAGAIN in a handler of pthread_atfork, where nothing can be done: then the heap is as it was. */
int heapyard_heap_destroy(heapyard_heap* heap);

/* For tools: `taken` is told of each span and large block that the heap takes, `returned` of each that goes. Both are
   called while locks of the heap are held, and must not allocate. `events` must stay; null: nobody is told. */
struct heapyard_page_events {
  void (*taken)(void* memory, size_t bytes);
  void (*returned)(void* memory);
};
void heapyard_observe_pages(const struct heapyard_page_events* events);

#ifdef __cplusplus
}
#endif

#endif
