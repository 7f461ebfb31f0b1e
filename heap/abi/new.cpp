// SPDX-License-Identifier: Apache-2.0
// The C++ interface: every replaceable form of operator new and delete. When memory is out, new_handler.hpp says what
// follows.
#include <cstddef>
#include <new>

#include "composition.hpp"
#include "heap/abi/new_handler.hpp"

namespace {

using heapyard::abi::Heap;

void* allocate_for_new(std::size_t bytes, std::size_t alignment) {
  return alignment == 0 ? Heap::allocate(bytes) : Heap::allocate_aligned(bytes, alignment);
}

inline void* or_ask(void* block, std::size_t bytes, std::size_t alignment) {
  return block != nullptr ? block : heapyard::abi::ask_handler(allocate_for_new, bytes, alignment);
}
inline void* or_ask_nothrow(void* block, std::size_t bytes, std::size_t alignment) noexcept {
  return block != nullptr ? block : heapyard::abi::ask_handler_nothrow(allocate_for_new, bytes, alignment);
}
constexpr std::size_t number(std::align_val_t alignment) { return static_cast<std::size_t>(alignment); }

}  // namespace

#pragma GCC visibility push(default)

void* operator new(std::size_t n) { return or_ask(Heap::allocate(n), n, 0); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return or_ask_nothrow(Heap::allocate(n), n, 0); }
void* operator new(std::size_t n, std::align_val_t a) { return or_ask(allocate_for_new(n, number(a)), n, number(a)); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return or_ask_nothrow(allocate_for_new(n, number(a)), n, number(a));
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
