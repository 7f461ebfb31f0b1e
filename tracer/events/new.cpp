// operator new and delete of allocators that bring their own and do not go through malloc (jemalloc, tcmalloc,
// mimalloc).
//
// Where the next operator new is the C++ library's, it calls malloc, which is recorded there, and these only pass on.
#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <new>

#include "tracer/events/recording.hpp"

#define EXPORTED __attribute__((visibility("default")))
#define FRAME __builtin_frame_address(0)

namespace {

using heapyard::tracer::allocated;
using heapyard::tracer::FreeKind;
using heapyard::tracer::record_free;
using heapyard::tracer::watched;

// Whether `function` lies in the library whose malloc serves.
bool of_the_allocator(void* function) {
  Dl_info here, there;
  void* malloc_of_next = dlsym(RTLD_NEXT, "malloc");
  return malloc_of_next != nullptr && dladdr(function, &here) != 0 && dladdr(malloc_of_next, &there) != 0 &&
         here.dli_fbase == there.dli_fbase;
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
    void* function = dlsym(RTLD_NEXT, name_);
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

#define ALLOCATES(signature, name, type, size, ...)                         \
  EXPORTED void* signature {                                                \
    static constinit Next next(name);                                       \
    const std::uintptr_t word = next.get();                                 \
    void* block = Next::function<type>(word)(__VA_ARGS__);                  \
    if (Next::own(word) && block != nullptr) allocated(block, size, FRAME); \
    return block;                                                           \
  }
#define FREES(signature, name, type, ...)                                                           \
  EXPORTED void signature noexcept {                                                                \
    static constinit Next next(name);                                                               \
    const std::uintptr_t word = next.get();                                                         \
    if (Next::own(word) && block != nullptr && watched(block)) record_free(block, FreeKind::kFree); \
    Next::function<type>(word)(__VA_ARGS__);                                                        \
  }

using Size = std::size_t;
using Align = std::align_val_t;
using Quiet = const std::nothrow_t&;

ALLOCATES(operator new(Size size), "_Znwm", void* (*)(Size), size, size)
ALLOCATES(operator new[](Size size), "_Znam", void* (*)(Size), size, size)
ALLOCATES(operator new(Size size, Quiet quiet) noexcept, "_ZnwmRKSt9nothrow_t", void* (*)(Size, Quiet), size, size,
          quiet)
ALLOCATES(operator new[](Size size, Quiet quiet) noexcept, "_ZnamRKSt9nothrow_t", void* (*)(Size, Quiet), size, size,
          quiet)
ALLOCATES(operator new(Size size, Align align), "_ZnwmSt11align_val_t", void* (*)(Size, Align), size, size, align)
ALLOCATES(operator new[](Size size, Align align), "_ZnamSt11align_val_t", void* (*)(Size, Align), size, size, align)
ALLOCATES(operator new(Size size, Align align, Quiet quiet) noexcept, "_ZnwmSt11align_val_tRKSt9nothrow_t",
          void* (*)(Size, Align, Quiet), size, size, align, quiet)
ALLOCATES(operator new[](Size size, Align align, Quiet quiet) noexcept, "_ZnamSt11align_val_tRKSt9nothrow_t",
          void* (*)(Size, Align, Quiet), size, size, align, quiet)
FREES(operator delete(void* block), "_ZdlPv", void (*)(void*), block)
FREES(operator delete[](void* block), "_ZdaPv", void (*)(void*), block)
FREES(operator delete(void* block, Quiet quiet), "_ZdlPvRKSt9nothrow_t", void (*)(void*, Quiet), block, quiet)
FREES(operator delete[](void* block, Quiet quiet), "_ZdaPvRKSt9nothrow_t", void (*)(void*, Quiet), block, quiet)
FREES(operator delete(void* block, Size size), "_ZdlPvm", void (*)(void*, Size), block, size)
FREES(operator delete[](void* block, Size size), "_ZdaPvm", void (*)(void*, Size), block, size)
FREES(operator delete(void* block, Align align), "_ZdlPvSt11align_val_t", void (*)(void*, Align), block, align)
FREES(operator delete[](void* block, Align align), "_ZdaPvSt11align_val_t", void (*)(void*, Align), block, align)
FREES(operator delete(void* block, Size size, Align align), "_ZdlPvmSt11align_val_t", void (*)(void*, Size, Align),
      block, size, align)
FREES(operator delete[](void* block, Size size, Align align), "_ZdaPvmSt11align_val_t", void (*)(void*, Size, Align),
      block, size, align)
FREES(operator delete(void* block, Align align, Quiet quiet), "_ZdlPvSt11align_val_tRKSt9nothrow_t",
      void (*)(void*, Align, Quiet), block, align, quiet)
FREES(operator delete[](void* block, Align align, Quiet quiet), "_ZdaPvSt11align_val_tRKSt9nothrow_t",
      void (*)(void*, Align, Quiet), block, align, quiet)
