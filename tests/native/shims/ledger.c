// SPDX-License-Identifier: Apache-2.0
/* Keeps account of every block and tells on standard error, when the program ends:
 * "<allocated> <freed> <written>": blocks handed out, given back, and given back with a byte changed.
 *
 * Ends the program at once when a block comes back twice or was never handed out. With HEAPYARD_TEST_SMUDGE set it does
 * damage: each call flips a bit in the block handed out before, if the program (of one thread) still holds it.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);

enum { FILL = 0xa5, LEAST_ALIGNMENT = 16 };
static const uint64_t LIVE = 0x6576696c, DEAD = 0x64616564;

/* Directly before each block. */
struct header {
  void* raw;
  size_t size;
  uint64_t state;
  uint64_t padding;
};

static atomic_ulong allocated, freed, written;
static unsigned char* last;
static int smudges;

__attribute__((constructor)) static void start(void) { smudges = getenv("HEAPYARD_TEST_SMUDGE") != NULL; }

static void* hand_out(size_t size, size_t alignment) {
  if (alignment < LEAST_ALIGNMENT) alignment = LEAST_ALIGNMENT;
  const size_t before = alignment > sizeof(struct header) ? alignment : sizeof(struct header);
  char* raw = size < SIZE_MAX / 2 ? __libc_memalign(alignment, before + size) : NULL;
  if (!raw) {
    errno = ENOMEM;
    return NULL;
  }
  char* block = raw + before;
  ((struct header*)block)[-1] = (struct header){raw, size, LIVE, 0};
  memset(block, FILL, size);
  if (smudges) {
    if (last) *last ^= 1;
    last = (unsigned char*)block;
  }
  atomic_fetch_add_explicit(&allocated, 1, memory_order_relaxed);
  return block;
}

void* malloc(size_t size) { return hand_out(size, LEAST_ALIGNMENT); }

void free(void* block) {
  if (!block) return;
  struct header* header = (struct header*)block - 1;
  if (header->state != LIVE) _exit(99);
  header->state = DEAD;
  if (block == last) last = NULL;
  for (size_t i = 0; i < header->size; ++i) {
    if (((unsigned char*)block)[i] == FILL) continue;
    atomic_fetch_add_explicit(&written, 1, memory_order_relaxed);
    break;
  }
  atomic_fetch_add_explicit(&freed, 1, memory_order_relaxed);
  __libc_free(header->raw);
}

void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
  void* block = malloc(bytes);
  last = NULL;  // the C library's own tables are not damaged
  return block ? memset(block, 0, bytes) : NULL;
}

void* realloc(void* block, size_t size) {
  void* moved = malloc(size);
  if (!block || !moved) return moved;
  const size_t held = ((struct header*)block)[-1].size;
  memcpy(moved, block, held < size ? held : size);
  free(block);
  return moved;
}

void* aligned_alloc(size_t alignment, size_t size) { return hand_out(size, alignment); }
void* memalign(size_t alignment, size_t size) { return hand_out(size, alignment); }

int posix_memalign(void** block, size_t alignment, size_t size) {
  return (*block = hand_out(size, alignment)) ? 0 : ENOMEM;
}

__attribute__((destructor)) static void tell(void) {
  const unsigned long numbers[] = {atomic_load(&allocated), atomic_load(&freed), atomic_load(&written)};
  char text[80];
  size_t at = sizeof text;
  text[--at] = '\n';
  for (int i = 2; i >= 0; --i) {
    unsigned long number = numbers[i];
    do text[--at] = (char)('0' + number % 10);
    while (number /= 10);
    if (i) text[--at] = ' ';
  }
  if (write(STDERR_FILENO, text + at, sizeof text - at) < 0) return;
}
