/* A whole malloc family over the C library's, with the one fault that the build names: what `heapyard check` must find. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
  NONE, DIRTY, FORGETFUL, ERRNO, BOUNDLESS, WRAPS, CROOKED, GENEROUS, ONE_ZERO, EARLY, STUCK, RACY, LEAKY, NEVER_FREE, DESPAIRS
};

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int started;

__attribute__((constructor)) static void start(void) { started = 1; }

/* Faults that need another thread in between let one in: they show on a single processor too. */
static void hold(void) {
  if (FAULT != STUCK || !started) return;
  pthread_mutex_lock(&lock);
  sched_yield();
}
static void let_go(void) {
  if (FAULT == STUCK && started) pthread_mutex_unlock(&lock);
}

/* RACY: a list that several threads take from and put on, as if they were one. */
static void *volatile racy;

void *malloc(size_t size) {
  static char nothing[16];
  if (FAULT == ONE_ZERO && size == 0) return nothing;
  if (FAULT == BOUNDLESS && size > PTRDIFF_MAX) size = 64;
  if (FAULT == RACY && size >= 50 && size <= 1000) {
    size = 1000;
    void *block = racy;
    if (block) {
      void *next = *(void *volatile *)block;
      sched_yield();
      racy = next;
      return block;
    }
  }
  if (FAULT == LEAKY) {
    static __thread int seen __attribute__((tls_model("initial-exec")));
    if (!seen++) memset(__libc_malloc(4096), 1, 4096);
  }
  hold();
  void *block = __libc_malloc(size);
  let_go();
  if (FAULT == DESPAIRS && !block) abort();
  return block;
}

void free(void *block) {
  if (FAULT == EARLY && !started) abort();
  if (FAULT == NEVER_FREE) return;
  if (FAULT == ERRNO) errno = EAGAIN;
  if (FAULT == RACY && block) {
    size_t (*usable)(void *) = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    if (usable(block) == 1000) {
      *(void *volatile *)block = racy;
      racy = block;
      return;
    }
  }
  hold();
  __libc_free(block);
  let_go();
}

void *calloc(size_t count, size_t size) {
  if (FAULT == WRAPS) return __libc_calloc(1, count * size);
  if (FAULT == DIRTY && size > 100 && count == 1) return __libc_malloc(size);
  return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
  if (FAULT == FORGETFUL && block && size > 3000) {
    void *moved = __libc_realloc(block, size);
    if (moved) ((char *)moved)[100] ^= 1;
    return moved;
  }
  return __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size) {
  return __libc_memalign(FAULT == CROOKED && alignment > 128 ? 128 : alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **result, size_t alignment, size_t size) {
  if (alignment % sizeof(void *) || !alignment || (alignment & (alignment - 1))) return EINVAL;
  void *block = memalign(alignment, size);
  if (!block) return ENOMEM;
  *result = block;
  return 0;
}
void *valloc(size_t size) { return __libc_memalign(4096, size); }
void *pvalloc(size_t size) { return __libc_memalign(4096, (size + 4095) / 4096 * 4096); }

size_t malloc_usable_size(void *block) {
  size_t (*next)(void *) = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
  return next(block) + (FAULT == GENEROUS && block ? 24 : 0);
}
