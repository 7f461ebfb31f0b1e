// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/python_objects.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tracer/events/next_symbol.hpp"
#include "tracer/events/python_runtime.hpp"
#include "tracer/events/recording.hpp"
#include "tracer/events/thread_state.hpp"

#define FRAME __builtin_frame_address(0)
#define SLOW [[gnu::noinline]] static

namespace heapyard::tracer {
namespace {

using std::size_t;

// PyMemAllocatorEx and PyObjectArenaAllocator, the same since 3.5.
struct Allocator {
  void* context;
  void* (*malloc)(void*, size_t);
  void* (*calloc)(void*, size_t, size_t);
  void* (*realloc)(void*, void*, size_t);
  void (*free)(void*, void*);
};
struct Arenas {
  void* context;
  void* (*alloc)(void*, size_t);
  void (*free)(void*, void*, size_t);
};
enum Domain { kRaw, kMemory, kObjects };

// What lies behind. A context is passed on as it comes: it is the one that was there, so that a thread which reads an
// allocator while it is replaced has a function and a context that go together.
constinit Allocator next_raw{}, next[2]{};
constinit Arenas next_arenas{};
template <class Function>
using Pointer = Function*;
constinit Pointer<void*(void*, size_t)> small_malloc = nullptr;  // of Python's allocator of small objects
constinit Pointer<const char*()> name_of_current = nullptr;
constinit Pointer<void(int, Allocator*)> get_allocator = nullptr;
constinit Pointer<void(int, const Allocator*)> set_allocator = nullptr;
constinit Pointer<void(Arenas*)> get_arenas = nullptr;
constinit Pointer<void(const Arenas*)> set_arenas = nullptr;

// Larger ones Python's allocator asks malloc for.
constexpr size_t kLargest = 512;
bool is_small(size_t size) { return size - 1 < kLargest; }

template <unsigned Which>
SLOW void* slow_malloc(void* context, size_t size) {
  return recorded(size, FRAME, [&] { return next[Which].malloc(context, size); });
}
template <unsigned Which>
SLOW void* slow_calloc(void* context, size_t count, size_t size) {
  return recorded(count * size, FRAME, [&] { return next[Which].calloc(context, count, size); });
}

template <unsigned Which>
void* object_malloc(void* context, size_t size) {
  if (is_small(size)) [[likely]] {
    if (is_due(size)) [[unlikely]]
      return slow_malloc<Which>(context, size);
    count_down(size);
  }
  return next[Which].malloc(context, size);
}

template <unsigned Which>
void* object_calloc(void* context, size_t count, size_t size) {
  size_t bytes;
  if (!__builtin_mul_overflow(count, size, &bytes) && is_small(bytes)) {
    if (is_due(bytes)) [[unlikely]]
      return slow_calloc<Which>(context, count, size);
    count_down(bytes);
  }
  return next[Which].calloc(context, count, size);
}

// Whose it is, Python's or malloc's, only Python knows: a block of malloc's is given back by malloc's free, which must
// not record it again.
template <unsigned Which>
SLOW void slow_free(void* context, void* block) {
  record_free(block, FreeKind::kFree);
  this_thread.told_free = reinterpret_cast<std::uintptr_t>(block);
  next[Which].free(context, block);
  this_thread.told_free = 0;
}

template <unsigned Which>
void object_free(void* context, void* block) {
  if (watched(block)) [[unlikely]]
    return slow_free<Which>(context, block);
  next[Which].free(context, block);
}

// Where malloc was asked, it has recorded what it gave.
template <unsigned Which>
SLOW void* slow_realloc(void* context, void* old, size_t size) {
  ThreadState& self = this_thread;
  const bool told = old != nullptr && watched(old) && record_free(old, FreeKind::kMove);
  self.told_free = reinterpret_cast<std::uintptr_t>(old);
  self.raw_called = false;
  void* const block = next[Which].realloc(context, old, size);
  self.told_free = 0;
  if (block == nullptr && told) record_stay(old);
  if (block == nullptr || self.raw_called || !is_small(size)) return block;
  if (is_due(size)) return record_allocation(block, size, FRAME, 0);
  count_down(size);
  return block;
}

template <unsigned Which>
void* object_realloc(void* context, void* old, size_t size) {
  if ((is_small(size) && is_due(size)) || watched(old)) [[unlikely]]
    return slow_realloc<Which>(context, old, size);
  if (is_small(size)) count_down(size);
  return next[Which].realloc(context, old, size);
}

void* raw_realloc(void* context, void* old, size_t size) {
  this_thread.raw_called = true;
  return next_raw.realloc(context, old, size);
}

template <unsigned Which>
void take_domain(Domain domain) {
  Allocator now;
  get_allocator(domain, &now);
  if (now.malloc != small_malloc) return;  // ours, or one that checks or counts
  next[Which] = now;
  const Allocator ours{now.context, object_malloc<Which>, object_calloc<Which>, object_realloc<Which>,
                       object_free<Which>};
  set_allocator(domain, &ours);
}
template <unsigned Which>
void give_domain(Domain domain) {
  Allocator now;
  get_allocator(domain, &now);
  if (now.malloc == object_malloc<Which>) set_allocator(domain, &next[Which]);
}

// Where it is Python's allocator of small objects that is at work.
void take_domains() {
  if (small_malloc == nullptr) {
    const char* const name = name_of_current();  // of Python's own choice, null of any other
    if (name == nullptr || std::strcmp(name, "pymalloc") != 0) return;
    Allocator objects;
    get_allocator(kObjects, &objects);
    small_malloc = objects.malloc;
  }
  Allocator raw;
  get_allocator(kRaw, &raw);
  if (raw.realloc != raw_realloc) {
    next_raw = raw;
    raw.realloc = raw_realloc;
    set_allocator(kRaw, &raw);
  }
  take_domain<0>(kMemory);
  take_domain<1>(kObjects);
}

// Asked for by the allocator of small objects only, and for the interpreter's own stacks.
void* arena_alloc(void* context, size_t bytes) {
  ThreadState& self = this_thread;
  self.for_arena = true;
  void* const arena = next_arenas.alloc(context, bytes);
  self.for_arena = false;
  take_domains();
  return arena;
}

template <class Function>
bool find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

}  // namespace

void take_python_objects() {
  if (!python || !find(get_allocator, "PyMem_GetAllocator") || !find(set_allocator, "PyMem_SetAllocator") ||
      !find(name_of_current, "_PyMem_GetCurrentAllocatorName") || !find(get_arenas, "PyObject_GetArenaAllocator") ||
      !find(set_arenas, "PyObject_SetArenaAllocator"))
    return;
  Arenas now;
  get_arenas(&now);
  if (now.alloc != arena_alloc) {
    next_arenas = now;
    now.alloc = arena_alloc;
    set_arenas(&now);
  }
  if (loaded_late()) take_domains();
}

void give_python_objects_back() {
  if (set_arenas == nullptr) return;
  Arenas arenas;
  get_arenas(&arenas);
  if (arenas.alloc == arena_alloc) set_arenas(&next_arenas);
  give_domain<0>(kMemory);
  give_domain<1>(kObjects);
  Allocator raw;
  get_allocator(kRaw, &raw);
  if (raw.realloc == raw_realloc) set_allocator(kRaw, &next_raw);
}

}  // namespace heapyard::tracer
