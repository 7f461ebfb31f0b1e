// SPDX-License-Identifier: Apache-2.0
// The C++ interface: every replaceable form of operator new and delete.
//
// When memory is out the program's new_handler is called until it gives up, then std::bad_alloc is thrown. The C++
// run-time library is the program's own, if it has one: what we need of it are weak symbols, and a C program needs
// none.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "composition.hpp"

using heapyard::abi::Heap;

extern "C" {
[[noreturn, gnu::weak]] void heapyard_throw_bad_alloc() __asm__("_ZSt17__throw_bad_allocv");
[[gnu::weak]] std::new_handler heapyard_get_new_handler() noexcept __asm__("_ZSt15get_new_handlerv");
}
// Those that a catch clause refers to.
__asm__(".weak __gxx_personality_v0\n.weak __cxa_begin_catch\n.weak __cxa_end_catch\n.weak _ZSt9terminatev");

namespace {

void* allocate(std::size_t bytes, std::size_t alignment) {
  return alignment == 0 ? Heap::allocate(bytes) : Heap::allocate_aligned(bytes, alignment);
}

// `alignment`: 0 for the usual one.
[[gnu::cold, gnu::noinline]] void* ask_handler(std::size_t bytes, std::size_t alignment) {
  for (;;) {
    const std::new_handler handler = heapyard_get_new_handler != nullptr ? heapyard_get_new_handler() : nullptr;
    if (handler == nullptr) {
      if (heapyard_throw_bad_alloc != nullptr) heapyard_throw_bad_alloc();
      std::abort();
    }
    handler();
    if (void* block = allocate(bytes, alignment)) return block;
  }
}

[[gnu::cold, gnu::noinline]] void* ask_handler_nothrow(std::size_t bytes, std::size_t alignment) noexcept {
  if (heapyard_get_new_handler == nullptr || heapyard_get_new_handler() == nullptr) return nullptr;
  try {
    return ask_handler(bytes, alignment);
  } catch (...) {
    return nullptr;
  }
}

inline void* or_ask(void* block, std::size_t bytes, std::size_t alignment) {
  return block != nullptr ? block : ask_handler(bytes, alignment);
}
inline void* or_ask_nothrow(void* block, std::size_t bytes, std::size_t alignment) noexcept {
  return block != nullptr ? block : ask_handler_nothrow(bytes, alignment);
}
constexpr std::size_t number(std::align_val_t alignment) { return static_cast<std::size_t>(alignment); }

}  // namespace

#pragma GCC visibility push(default)

void* operator new(std::size_t n) { return or_ask(Heap::allocate(n), n, 0); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return or_ask_nothrow(Heap::allocate(n), n, 0); }
void* operator new(std::size_t n, std::align_val_t a) { return or_ask(allocate(n, number(a)), n, number(a)); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return or_ask_nothrow(allocate(n, number(a)), n, number(a));
}
void operator delete(void* block) noexcept { Heap::free(block); }

// The others are these under further names: arrays are blocks, and free() needs neither size nor alignment.
#if !defined(__clang__)  // which has no such warnings
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wattribute-alias"
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#endif
[[gnu::alias("_Znwm")]] void* operator new[](std::size_t);
[[gnu::alias("_ZnwmRKSt9nothrow_t")]] void* operator new[](std::size_t, const std::nothrow_t&) noexcept;
[[gnu::alias("_ZnwmSt11align_val_t")]] void* operator new[](std::size_t, std::align_val_t);
[[gnu::alias("_ZnwmSt11align_val_tRKSt9nothrow_t")]]
void* operator new[](std::size_t, std::align_val_t, const std::nothrow_t&) noexcept;

[[gnu::alias("_ZdlPv")]] void operator delete[](void*) noexcept;
[[gnu::alias("_ZdlPv")]] void operator delete(void*, std::size_t) noexcept;
[[gnu::alias("_ZdlPv")]] void operator delete[](void*, std::size_t) noexcept;
[[gnu::alias("_ZdlPv")]] void operator delete(void*, const std::nothrow_t&) noexcept;
[[gnu::alias("_ZdlPv")]] void operator delete[](void*, const std::nothrow_t&) noexcept;
[[gnu::alias("_ZdlPv")]] void operator delete(void*, std::align_val_t) noexcept;
[[gnu::alias("_ZdlPv")]] void operator delete[](void*, std::align_val_t) noexcept;
[[gnu::alias("_ZdlPv")]] void operator delete(void*, std::size_t, std::align_val_t) noexcept;
[[gnu::alias("_ZdlPv")]] void operator delete[](void*, std::size_t, std::align_val_t) noexcept;
[[gnu::alias("_ZdlPv")]] void operator delete(void*, std::align_val_t, const std::nothrow_t&) noexcept;
[[gnu::alias("_ZdlPv")]] void operator delete[](void*, std::align_val_t, const std::nothrow_t&) noexcept;
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#pragma GCC visibility pop
