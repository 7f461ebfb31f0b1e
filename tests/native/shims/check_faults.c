// SPDX-License-Identifier: Apache-2.0
/* A whole malloc family over the C library's, with the one fault that the build names: what `heapyard check` must find.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
  NONE,
  DIRTY,
  FORGETFUL,
  ERRNO,
  BOUNDLESS,
  WRAPS,
  CROOKED,
  GENEROUS,
  ONE_ZERO,
  EARLY,
  STUCK,
  RACY,
  LEAKY,
  NEVER_FREE,
  DESPAIRS,
  ATFORK,
  UNEXPLAINED,
  RESERVES,
  WASTES,
  GREEDY,
  MADVISES,
  MISCOUNTS,
  SCATTERS,
  GUARDS,
  PEEKS
};

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int started;
static size_t forgotten;

/* ATFORK: holds its lock across the fork, before the C library takes its own, under which it allocates. */
static void lock_for_fork(void) { pthread_mutex_lock(&lock); }
static void unlock_after_fork(void) { pthread_mutex_unlock(&lock); }

/* A mapping of its own, which the program pays for and nobody unmaps. */
static void* mapping(size_t size, int protection) {
  void* memory = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  return memory;
}

/* RESERVES: address space that no 64-bit machine lacks, and that every limit and every walk over it counts. */
static void reserve(void) {
  const size_t all = (size_t)16 << 40;
  *(char*)mapping(all, PROT_READ | PROT_WRITE) = 1; /* a core dump passes over what was never touched */
}

__attribute__((constructor)) static void start(void) {
  if (FAULT == ATFORK) pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
  if (FAULT == RESERVES) reserve();
  started = 1;
}

/* GUARDS: every large block between two pages that nobody may touch. */
static void* guarded(size_t size) {
  char* memory = mapping(size + 8192, PROT_NONE);
  if (mprotect(memory + 4096, size, PROT_READ | PROT_WRITE) != 0) abort();
  return memory + 4096;
}

/* Faults that need another thread in between let one in: they show on a single processor too. */
static void hold(void) {
  if ((FAULT != STUCK && FAULT != ATFORK) || !started) return;
  pthread_mutex_lock(&lock);
  sched_yield();
}
static void let_go(void) {
  if ((FAULT == STUCK || FAULT == ATFORK) && started) pthread_mutex_unlock(&lock);
}

/* RACY: a list that several threads take from and put on, as if they were one. */
static void* volatile racy;

/* PEEKS: a page that every hundredth block replaces by another one. */
static char* page;
static void replace_page(void) {
  static __thread int turn __attribute__((tls_model("initial-exec")));
  if (++turn % 100 != 0) return;
  char* old = __atomic_exchange_n(&page, (char*)mapping(4096, PROT_READ | PROT_WRITE), __ATOMIC_ACQ_REL);
  if (old) munmap(old, 4096);
}

void* malloc(size_t size) {
  static char nothing[16];
  if (FAULT == PEEKS) replace_page();
  if (FAULT == ONE_ZERO && size == 0) return nothing;
  if (FAULT == BOUNDLESS && size > PTRDIFF_MAX) size = 64;
  if (FAULT == RACY && size >= 50 && size <= 1000) {
    size = 1000;
    void* block = racy;
    if (block) {
      void* next = *(void* volatile*)block;
      sched_yield();
      racy = next;
      return block;
    }
  }
  if (FAULT == LEAKY) {
    static __thread int seen __attribute__((tls_model("initial-exec")));
    if (!seen++) memset(__libc_malloc(4096), 1, 4096);
  }
  if (FAULT == MISCOUNTS) {
    static __thread int seen __attribute__((tls_model("initial-exec")));
    if (!seen++) __atomic_add_fetch(&forgotten, 1024, __ATOMIC_RELAXED);
  }
  if (FAULT == GREEDY) {
    static __thread int seen __attribute__((tls_model("initial-exec")));
    if (!seen++) memset(mapping(4 << 20, PROT_READ | PROT_WRITE), 1, 512 << 10);
  }
  if (FAULT == GUARDS && size >= 128 << 10) return guarded((size + 4095) / 4096 * 4096);
  /* SCATTERS: a page table for each block. */
  if (FAULT == SCATTERS && started && size >= 500 && size <= 1000) return mapping(2 << 20, PROT_READ | PROT_WRITE);
  hold();
  void* block = __libc_malloc(FAULT == WASTES && size < (size_t)1 << 40 ? 3 * size : size);
  let_go();
  if (FAULT == WASTES && block && size < (size_t)1 << 40) memset(block, 1, 3 * size);
  if (FAULT == DESPAIRS && !block) abort();
  if (FAULT == UNEXPLAINED && !block) errno = 0;
  return block;
}

void free(void* block) {
  if (FAULT == EARLY && !started) abort();
  if (FAULT == NEVER_FREE) return;
  if (FAULT == ERRNO) errno = EAGAIN;
  if (FAULT == RACY && block) {
    size_t (*usable)(void*) = (size_t (*)(void*))dlsym(RTLD_NEXT, "malloc_usable_size");
    if (usable(block) == 1000) {
      *(void* volatile*)block = racy;
      racy = block;
      return;
    }
  }
  if ((FAULT == GUARDS || FAULT == SCATTERS) && (uintptr_t)block % 4096 == 0) return;
  hold();
  __libc_free(block);
  let_go();
}

void* calloc(size_t count, size_t size) {
  if (FAULT == WRAPS) return __libc_calloc(1, count * size);
  if (FAULT == DIRTY && size > 100 && count == 1) return __libc_malloc(size);
  return __libc_calloc(count, size);
}

void* realloc(void* block, size_t size) {
  /* MADVISES: asks the kernel at every step. */
  if (FAULT == MADVISES) madvise((void*)((uintptr_t)block & ~(uintptr_t)4095), 4096, MADV_NORMAL);
  if (FAULT == FORGETFUL && block && size > 3000) {
    void* moved = __libc_realloc(block, size);
    if (moved) ((char*)moved)[100] ^= 1;
    return moved;
  }
  return __libc_realloc(block, size);
}

void* memalign(size_t alignment, size_t size) {
  return __libc_memalign(FAULT == CROOKED && alignment > 128 ? 128 : alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** result, size_t alignment, size_t size) {
  if (alignment % sizeof(void*) || !alignment || (alignment & (alignment - 1))) return EINVAL;
  void* block = memalign(alignment, size);
  if (!block) return ENOMEM;
  *result = block;
  return 0;
}
void* valloc(size_t size) { return __libc_memalign(4096, size); }
void* pvalloc(size_t size) { return __libc_memalign(4096, size > PTRDIFF_MAX ? size : (size + 4095) / 4096 * 4096); }

/* What is counted is exact but for MISCOUNTS: there each thread leaves a kilobyte in the account. PEEKS reads what
   another thread may have given back. */
struct mallinfo2 mallinfo2(void) {
  if (FAULT == PEEKS && page) {
    volatile char* at = __atomic_load_n(&page, __ATOMIC_ACQUIRE);
    sched_yield();
    (void)*at;
  }
  struct mallinfo2 (*next)(void) = (struct mallinfo2 (*)(void))dlsym(RTLD_NEXT, "mallinfo2");
  struct mallinfo2 info = next();
  info.uordblks += __atomic_load_n(&forgotten, __ATOMIC_RELAXED);
  return info;
}

size_t malloc_usable_size(void* block) {
  size_t (*next)(void*) = (size_t (*)(void*))dlsym(RTLD_NEXT, "malloc_usable_size");
  return next(block) + (FAULT == GENEROUS && block ? 24 : 0);
}
