// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/python_objects.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "tracer/events/countdown.hpp"
#include "tracer/events/next_symbol.hpp"
#include "tracer/events/python_runtime.hpp"
#include "tracer/events/thread_state.hpp"

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
constexpr int kMemory = 1, kObjects = 2;  // PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ

template <class Function>
using Pointer = Function*;

// What lies behind: both kinds of objects come from the same allocator. A context is passed on as it comes: it is the
// one that was there, so that a thread which reads an allocator while it is replaced has what goes together.
constinit Allocator next{};
constinit Arenas next_arenas{};
constinit Pointer<const char*()> name_of_current = nullptr;
constinit Pointer<void(int, Allocator*)> get_allocator = nullptr;
constinit Pointer<void(int, const Allocator*)> set_allocator = nullptr;
constinit Pointer<void(Arenas*)> get_arenas = nullptr;
constinit Pointer<void(const Arenas*)> set_arenas = nullptr;

// Larger ones Python's allocator asks malloc for.
constexpr size_t kLargest = 512;
bool is_small(size_t size) { return size - 1 < kLargest; }

void* object_malloc(void* context, size_t size) {
  if (is_small(size)) [[likely]] {
    if (is_due(size)) [[unlikely]]
      return std::malloc(size);  // a jump: to an unwinder Python has called it
    count_down(size);
  }
  return next.malloc(context, size);
}

void* object_calloc(void* context, size_t count, size_t size) {
  size_t bytes;
  if (!__builtin_mul_overflow(count, size, &bytes) && is_small(bytes)) {
    if (is_due(bytes)) [[unlikely]]
      return std::calloc(count, size);
    count_down(bytes);
  }
  return next.calloc(context, count, size);
}

// How large the old block is, only Python knows: so it is moved twice.
[[gnu::noinline]] void* due_realloc(void* context, void* old, size_t size) {
  void* const block = next.realloc(context, old, size);
  if (block == nullptr) return nullptr;
  void* const sample = std::malloc(size);
  if (sample == nullptr) return block;
  std::memcpy(sample, block, size);
  next.free(context, block);
  return sample;
}

void* object_realloc(void* context, void* old, size_t size) {
  if (is_small(size)) {
    if (is_due(size)) [[unlikely]]
      return due_realloc(context, old, size);
    count_down(size);
  }
  return next.realloc(context, old, size);
}

// Where it is Python's allocator of small objects that is at work, not one that checks or counts.
void take_domains() {
  if (next.malloc == nullptr) {
    const char* const name = name_of_current();  // of Python's own choice, null of any other
    if (name == nullptr || std::strcmp(name, "pymalloc") != 0) return;
    get_allocator(kObjects, &next);
  }
  for (const int domain : {kMemory, kObjects}) {
    Allocator now;
    get_allocator(domain, &now);
    if (now.malloc != next.malloc) continue;
    now.malloc = object_malloc;
    now.calloc = object_calloc;
    now.realloc = object_realloc;
    set_allocator(domain, &now);
  }
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
  for (const int domain : {kMemory, kObjects}) {
    Allocator now;
    get_allocator(domain, &now);
    if (now.malloc == object_malloc) set_allocator(domain, &next);
  }
}

}  // namespace heapyard::tracer
