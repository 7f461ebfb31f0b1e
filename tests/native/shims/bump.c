// A malloc that does nothing but bump a pointer per thread, and never frees: what a mutator costs by itself.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { CHUNK = 64 << 20, ALIGNMENT = 16 };

static __thread char *next, *end;

static void *bump(size_t size, size_t alignment) {
  char *block = (char *)(((uintptr_t)next + alignment - 1) & ~(uintptr_t)(alignment - 1));
  if (!next || size > (size_t)(end - block) || block > end) {
    const size_t chunk = size + alignment > CHUNK ? size + alignment : CHUNK;
    next = mmap(NULL, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (next == MAP_FAILED) {
      next = NULL;
      return NULL;
    }
    end = next + chunk;
    block = (char *)(((uintptr_t)next + alignment - 1) & ~(uintptr_t)(alignment - 1));
  }
  next = block + size;
  return block;
}

void *malloc(size_t size) { return bump(size, ALIGNMENT); }
void *calloc(size_t count, size_t size) { return bump(count * size, ALIGNMENT); }  // fresh pages are zero
void *aligned_alloc(size_t alignment, size_t size) { return bump(size, alignment); }
int posix_memalign(void **block, size_t alignment, size_t size) { return (*block = bump(size, alignment)) ? 0 : 12; }
void free(void *block) { (void)block; }
void *realloc(void *block, size_t size) {
  void *grown = bump(size, ALIGNMENT);
  // The old size is unknown; blocks lie in one direction, so reading on is safe within the mapping.
  if (block && grown) memcpy(grown, block, size < (size_t)((char *)grown - (char *)block) ? size : 0);
  return grown;
}
