// SPDX-License-Identifier: Apache-2.0
// operator new and delete of allocators that bring their own and do not go through malloc (jemalloc, tcmalloc,
// mimalloc).
//
// Where the next operator new is the C++ library's, it calls malloc, which is recorded there, and these only pass on.
#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <new>

#include "tracer/events/next_symbol.hpp"
#include "tracer/events/recording.hpp"

#define VISIBLE __attribute__((visibility("default")))
#define FRAME __builtin_frame_address(0)

namespace {

using namespace heapyard::tracer;

// Whether `function` lies in the library whose malloc serves.
bool of_the_allocator(void* function) {
  const link_map* allocator = object_around(next_symbol("malloc"));
  return allocator != nullptr && object_around(function) == allocator;
}

// A function's address, and in the top bit whether it is the allocator's own, to be recorded here. 0: not looked up
// yet.
class Next {
 public:
  constexpr explicit Next(const char* name) : name_(name) {}

  std::uintptr_t get() {
    const std::uintptr_t known = word_.load(std::memory_order_relaxed);
    return known != 0 ? known : look_up();
  }
  static bool own(std::uintptr_t word) { return word >> 63 != 0; }
  template <class Function>
  static Function function(std::uintptr_t word) {
    return reinterpret_cast<Function>(word << 1 >> 1);
  }

 private:
  // A program may load the C++ library late and out of sight of the search order.
  [[gnu::noinline, gnu::cold]] std::uintptr_t look_up() {
    void* function = next_symbol(name_);
    if (function == nullptr) {
      void* library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
      if (library == nullptr) library = dlopen("libc++.so.1", RTLD_LAZY | RTLD_NOLOAD);
      if (library != nullptr) function = dlsym(library, name_);
    }
    if (function == nullptr) std::abort();  // called without a C++ library in the process
    const auto word =
        reinterpret_cast<std::uintptr_t>(function) | static_cast<std::uintptr_t>(of_the_allocator(function)) << 63;
    word_.store(word, std::memory_order_relaxed);
    return word;
  }

  const char* name_;
  std::atomic<std::uintptr_t> word_{0};
};

}  // namespace

// Each ends in a jump, to the next function or to its slow twin (hooks.cpp).
#define ALLOCATES(number, head, tail, name, type, size, parameters, ...)                          \
  static constinit Next next_##number(name);                                                      \
  [[gnu::noinline]] static void* slow_##number parameters tail {                                  \
    const auto allocate = [&] { return Next::function<type>(next_##number.get())(__VA_ARGS__); }; \
    return recorded(size, FRAME, allocate);                                                       \
  }                                                                                               \
  VISIBLE void* head parameters tail {                                                            \
    const std::uintptr_t word = next_##number.get();                                              \
    if (Next::own(word)) {                                                                        \
      if (is_due(size)) [[unlikely]]                                                              \
        return slow_##number(__VA_ARGS__);                                                        \
      count_down(size);                                                                           \
    }                                                                                             \
    return Next::function<type>(word)(__VA_ARGS__);                                               \
  }
#define FREES(number, head, name, type, parameters, ...) \
  static constinit Next next_##number(name);             \
  VISIBLE void head parameters noexcept {                \
    const std::uintptr_t word = next_##number.get();     \
    if (Next::own(word) && watched(block)) [[unlikely]]  \
      record_free(block, FreeKind::kFree);               \
    Next::function<type>(word)(__VA_ARGS__);             \
  }

using Size = std::size_t;
using Align = std::align_val_t;
using Quiet = const std::nothrow_t&;
using New = void* (*)(Size);
using QuietNew = void* (*)(Size, Quiet);
using AlignedNew = void* (*)(Size, Align);
using QuietAlignedNew = void* (*)(Size, Align, Quiet);
using Delete = void (*)(void*);
using QuietDelete = void (*)(void*, Quiet);
using SizedDelete = void (*)(void*, Size);
using AlignedDelete = void (*)(void*, Align);
using SizedAlignedDelete = void (*)(void*, Size, Align);
using QuietAlignedDelete = void (*)(void*, Align, Quiet);
#define NOTHING

ALLOCATES(1, operator new, NOTHING, "_Znwm", New, size, (Size size), size)
ALLOCATES(2, operator new[], NOTHING, "_Znam", New, size, (Size size), size)
ALLOCATES(3, operator new, noexcept, "_ZnwmRKSt9nothrow_t", QuietNew, size, (Size size, Quiet quiet), size, quiet)
ALLOCATES(4, operator new[], noexcept, "_ZnamRKSt9nothrow_t", QuietNew, size, (Size size, Quiet quiet), size, quiet)
ALLOCATES(5, operator new, NOTHING, "_ZnwmSt11align_val_t", AlignedNew, size, (Size size, Align align), size, align)
ALLOCATES(6, operator new[], NOTHING, "_ZnamSt11align_val_t", AlignedNew, size, (Size size, Align align), size, align)
ALLOCATES(7, operator new, noexcept, "_ZnwmSt11align_val_tRKSt9nothrow_t", QuietAlignedNew, size,
          (Size size, Align align, Quiet quiet), size, align, quiet)
ALLOCATES(8, operator new[], noexcept, "_ZnamSt11align_val_tRKSt9nothrow_t", QuietAlignedNew, size,
          (Size size, Align align, Quiet quiet), size, align, quiet)
FREES(9, operator delete, "_ZdlPv", Delete, (void* block), block)
FREES(10, operator delete[], "_ZdaPv", Delete, (void* block), block)
FREES(11, operator delete, "_ZdlPvRKSt9nothrow_t", QuietDelete, (void* block, Quiet quiet), block, quiet)
FREES(12, operator delete[], "_ZdaPvRKSt9nothrow_t", QuietDelete, (void* block, Quiet quiet), block, quiet)
FREES(13, operator delete, "_ZdlPvm", SizedDelete, (void* block, Size size), block, size)
FREES(14, operator delete[], "_ZdaPvm", SizedDelete, (void* block, Size size), block, size)
FREES(15, operator delete, "_ZdlPvSt11align_val_t", AlignedDelete, (void* block, Align align), block, align)
FREES(16, operator delete[], "_ZdaPvSt11align_val_t", AlignedDelete, (void* block, Align align), block, align)
FREES(17, operator delete, "_ZdlPvmSt11align_val_t", SizedAlignedDelete, (void* block, Size size, Align align), block,
      size, align)
FREES(18, operator delete[], "_ZdaPvmSt11align_val_t", SizedAlignedDelete, (void* block, Size size, Align align), block,
      size, align)
FREES(19, operator delete, "_ZdlPvSt11align_val_tRKSt9nothrow_t", QuietAlignedDelete,
      (void* block, Align align, Quiet quiet), block, align, quiet)
FREES(20, operator delete[], "_ZdaPvSt11align_val_tRKSt9nothrow_t", QuietAlignedDelete,
      (void* block, Align align, Quiet quiet), block, align, quiet)
