// SPDX-License-Identifier: Apache-2.0
// Compiled once for all heaps, and alone with exceptions.
#include "heap/abi/new_handler.hpp"

#include <cstdlib>
#include <new>

extern "C" {
[[noreturn, gnu::weak]] void heapyard_throw_bad_alloc() __asm__("_ZSt17__throw_bad_allocv");
[[gnu::weak]] std::new_handler heapyard_get_new_handler() noexcept __asm__("_ZSt15get_new_handlerv");
}
// Those that a catch clause refers to.
__asm__(".weak __gxx_personality_v0\n.weak __cxa_begin_catch\n.weak __cxa_end_catch\n.weak _ZSt9terminatev");

namespace heapyard::abi {

void* ask_handler(Allocate allocate, std::size_t bytes, std::size_t alignment) {
  for (;;) {  // bound: the handler's own
    const std::new_handler handler = heapyard_get_new_handler != nullptr ? heapyard_get_new_handler() : nullptr;
    if (handler == nullptr) {
      if (heapyard_throw_bad_alloc != nullptr) heapyard_throw_bad_alloc();
      std::abort();
    }
    handler();
    if (void* block = allocate(bytes, alignment)) return block;
  }
}

void* ask_handler_nothrow(Allocate allocate, std::size_t bytes, std::size_t alignment) noexcept {
  if (heapyard_get_new_handler == nullptr || heapyard_get_new_handler() == nullptr) return nullptr;
  try {
    return ask_handler(allocate, bytes, alignment);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace heapyard::abi
