// The functions of malloc, each passed on to the next malloc and recorded around it.
#include <dlfcn.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tracer/events/next_malloc.hpp"
#include "tracer/events/recording.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define FRAME __builtin_frame_address(0)

namespace {

using heapyard::tracer::allocated;
using heapyard::tracer::EarlyBlocks;
using heapyard::tracer::FreeKind;
using heapyard::tracer::NextMalloc;
using heapyard::tracer::record_free;
using heapyard::tracer::watched;

constinit EarlyBlocks early;
constinit std::atomic<int> resolved{0};  // 0 not yet, 1 at it, 2 done
constinit NextMalloc found{};

template <class Function>
void find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// False while it is being found out, by this thread or another: then the early blocks serve.
[[gnu::noinline, gnu::cold]] bool resolve() {
  int none = 0;
  if (!resolved.compare_exchange_strong(none, 1)) return resolved.load(std::memory_order_acquire) == 2;
  find(found.malloc, "malloc");
  find(found.free, "free");
  find(found.calloc, "calloc");
  find(found.realloc, "realloc");
  find(found.memalign, "memalign");
  find(found.aligned_alloc, "aligned_alloc");
  find(found.posix_memalign, "posix_memalign");
  find(found.valloc, "valloc");
  find(found.pvalloc, "pvalloc");
  find(found.malloc_usable_size, "malloc_usable_size");
  find(found.dlclose, "dlclose");
  resolved.store(2, std::memory_order_release);
  return true;
}

inline bool known() {
  if (resolved.load(std::memory_order_acquire) == 2) [[likely]]
    return true;
  return resolve();
}

[[gnu::cold]] void* early_block(std::size_t size) {
  void* block = early.take(size);
  if (block == nullptr) errno = ENOMEM;
  return block;
}

[[gnu::cold]] void* early_aligned(std::size_t alignment, std::size_t size) {
  const auto block = reinterpret_cast<std::uintptr_t>(early_block(size + alignment + 16));
  if (block == 0) return nullptr;
  const std::uintptr_t aligned = (block + 16 + alignment - 1) & ~(alignment - 1);
  std::memcpy(reinterpret_cast<void*>(aligned - 16), &size, sizeof size);
  return reinterpret_cast<void*>(aligned);
}

inline void* told(void* block, std::size_t size, void* frame) {
  if (block != nullptr) [[likely]]
    allocated(block, size, frame);
  return block;
}

inline void* moved(void* old, std::size_t size, void* frame) {
  if (early.owns(old)) {
    void* block = found.malloc(size);
    if (block == nullptr) return nullptr;
    const std::size_t had = EarlyBlocks::size_of(old);
    std::memcpy(block, old, had < size ? had : size);
    return told(block, size, frame);
  }
  const bool look = old != nullptr && watched(old);
  if (look) record_free(old, FreeKind::kMove);
  void* block = found.realloc(old, size);
  if (block == nullptr) [[unlikely]] {
    // realloc(p, 0) has freed p; any other null has left it alone.
    if (look && size != 0) heapyard::tracer::record_stay(old);
    return nullptr;
  }
  allocated(block, size, frame);
  return block;
}

}  // namespace

EXPORTED void* malloc(std::size_t size) {
  if (!known()) return early_block(size);
  return told(found.malloc(size), size, FRAME);
}

EXPORTED void free(void* block) {
  if (block == nullptr || early.owns(block)) [[unlikely]]
    return;
  if (watched(block)) [[unlikely]]
    record_free(block, FreeKind::kFree);
  if (!known()) [[unlikely]]
    return;
  found.free(block);
}

EXPORTED void* calloc(std::size_t count, std::size_t size) {
  std::size_t bytes;
  if (!known()) return __builtin_mul_overflow(count, size, &bytes) ? nullptr : early_block(bytes);
  void* block = found.calloc(count, size);
  return told(block, count * size, FRAME);
}

EXPORTED void* realloc(void* old, std::size_t size) {
  if (!known()) {
    void* block = early_block(size);
    if (block != nullptr && old != nullptr) {
      const std::size_t had = EarlyBlocks::size_of(old);
      std::memcpy(block, old, had < size ? had : size);
    }
    return block;
  }
  return moved(old, size, FRAME);
}

EXPORTED void* reallocarray(void* old, std::size_t count, std::size_t size) {
  std::size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  if (!known()) return old == nullptr ? early_block(bytes) : nullptr;
  return moved(old, bytes, FRAME);
}

EXPORTED void* memalign(std::size_t alignment, std::size_t size) {
  if (!known()) return early_aligned(alignment, size);
  return told(found.memalign(alignment, size), size, FRAME);
}

EXPORTED void* aligned_alloc(std::size_t alignment, std::size_t size) {
  if (!known()) return early_aligned(alignment, size);
  return told(found.aligned_alloc(alignment, size), size, FRAME);
}

EXPORTED int posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  if (!known()) return (*result = early_aligned(alignment, size)) == nullptr ? ENOMEM : 0;
  const int error = found.posix_memalign(result, alignment, size);
  if (error == 0) told(*result, size, FRAME);
  return error;
}

EXPORTED void* valloc(std::size_t size) {
  if (!known()) return early_aligned(4096, size);
  return told(found.valloc(size), size, FRAME);
}

EXPORTED void* pvalloc(std::size_t size) {
  if (!known()) return early_aligned(4096, (size + 4095) & ~std::size_t{4095});
  return told(found.pvalloc(size), size, FRAME);
}

EXPORTED std::size_t malloc_usable_size(void* block) {
  if (block == nullptr) return 0;
  if (early.owns(block)) return EarlyBlocks::size_of(block);
  return known() && found.malloc_usable_size != nullptr ? found.malloc_usable_size(block) : 0;
}

// C23: a free that knows the size.
EXPORTED void free_sized(void* block, std::size_t) { free(block); }
EXPORTED void free_aligned_sized(void* block, std::size_t, std::size_t) { free(block); }

EXPORTED int dlclose(void* handle) {
  known();
  const int result = found.dlclose(handle);
  heapyard::tracer::forget_modules();
  return result;
}

// For programs that name their phases: a point in time with the exact composition of the heap.
EXPORTED void heapyard_trace_mark(const char* name) { heapyard::tracer::record_mark(name); }
