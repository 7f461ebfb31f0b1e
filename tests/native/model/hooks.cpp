// SPDX-License-Identifier: Apache-2.0
// What GCC and Clang call in code compiled with -fsanitize=thread, and the system calls that threads wait with.
#include "hooks.hpp"

#include "checker.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <link.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

using heapyard::model::Kind;
using heapyard::model::Operation;

namespace {

std::memory_order order_of(int order) { return static_cast<std::memory_order>(order & 0xff); }

template <class T>
std::uint64_t bits(T value) {
  std::uint64_t all = 0;
  std::memcpy(&all, &value, sizeof value);
  return all;
}

template <class T>
T changed(T* at, T operand, std::uint64_t (*change)(std::uint64_t, std::uint64_t), int order, void* site) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  if (!heapyard::model::sees() || heapyard::model::is_own(address)) {
    const T old = *at;
    *at = static_cast<T>(change(bits(old), bits(operand)));
    return old;
  }
  return static_cast<T>(heapyard::model::step({.kind = Kind::change,
                                               .bytes = sizeof(T),
                                               .address = address,
                                               .order = order_of(order),
                                               .operand = bits(operand),
                                               .change = change,
                                               .site = reinterpret_cast<std::uintptr_t>(site)})
                            .value);
}

template <class T>
bool swapped(T* at, T* expected, T value, int order, int failure, void* site) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  if (!heapyard::model::sees() || heapyard::model::is_own(address)) {
    const T old = *at;
    if (old == *expected) {
      *at = value;
      return true;
    }
    *expected = old;
    return false;
  }
  const auto result = heapyard::model::step({.kind = Kind::compare,
                                             .bytes = sizeof(T),
                                             .address = address,
                                             .order = order_of(order),
                                             .failure = order_of(failure),
                                             .operand = bits(value),
                                             .expected = bits(*expected),
                                             .site = reinterpret_cast<std::uintptr_t>(site)});
  if (!result.done) *expected = static_cast<T>(result.value);
  return result.done;
}

// Fibers share the program's thread-local variables; what lies there tells nothing.
bool is_thread_local(std::uintptr_t address) {
  struct Block {
    std::uintptr_t start = 0;
    std::size_t bytes = 0;
  };
  static const Block block = [] {
    Block found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* out) {
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
            *static_cast<Block*>(out) = {reinterpret_cast<std::uintptr_t>(info->dlpi_tls_data),
                                         info->dlpi_phdr[i].p_memsz};
          }
          return 1;  // the first is the program
        },
        &found);
    return found;
  }();
  return address - block.start < block.bytes || address == reinterpret_cast<std::uintptr_t>(&errno);
}

void touched(const void* at, std::size_t bytes, bool writes, void* site) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  if (bytes == 0 || !heapyard::model::sees() || heapyard::model::is_own(address) || is_thread_local(address)) return;
  heapyard::model::plain(address, bytes, writes, reinterpret_cast<std::uintptr_t>(site));
}

bool has_membarrier = true;

}  // namespace

void heapyard::model::kernel_has_membarrier(bool has) { has_membarrier = has; }

#define SITE __builtin_return_address(0)
#define CHANGE(name, bits_, type, expression)                                        \
  extern "C" type __tsan_atomic##bits_##_##name(type* at, type operand, int order) { \
    return changed<type>(                                                            \
        at, operand,                                                                 \
        [](std::uint64_t old, std::uint64_t more) -> std::uint64_t {                 \
          (void)old;                                                                 \
          return expression;                                                         \
        },                                                                           \
        order, SITE);                                                                \
  }
#define ATOMIC(bits_, type)                                                                                      \
  extern "C" type __tsan_atomic##bits_##_load(const type* at, int order) {                                       \
    const auto address = reinterpret_cast<std::uintptr_t>(at);                                                   \
    if (!heapyard::model::sees() || heapyard::model::is_own(address)) return *at;                                \
    return static_cast<type>(heapyard::model::step({.kind = Kind::load,                                          \
                                                    .bytes = sizeof(type),                                       \
                                                    .address = address,                                          \
                                                    .order = order_of(order),                                    \
                                                    .site = reinterpret_cast<std::uintptr_t>(SITE)})             \
                                 .value);                                                                        \
  }                                                                                                              \
  extern "C" void __tsan_atomic##bits_##_store(type* at, type value, int order) {                                \
    const auto address = reinterpret_cast<std::uintptr_t>(at);                                                   \
    if (!heapyard::model::sees() || heapyard::model::is_own(address)) {                                          \
      *at = value;                                                                                               \
      return;                                                                                                    \
    }                                                                                                            \
    heapyard::model::step({.kind = Kind::store,                                                                  \
                           .bytes = sizeof(type),                                                                \
                           .address = address,                                                                   \
                           .order = order_of(order),                                                             \
                           .operand = bits(value),                                                               \
                           .site = reinterpret_cast<std::uintptr_t>(SITE)});                                     \
  }                                                                                                              \
  CHANGE(exchange, bits_, type, more)                                                                            \
  CHANGE(fetch_add, bits_, type, old + more)                                                                     \
  CHANGE(fetch_sub, bits_, type, old - more)                                                                     \
  CHANGE(fetch_or, bits_, type, old | more)                                                                      \
  CHANGE(fetch_and, bits_, type, old& more)                                                                      \
  CHANGE(fetch_xor, bits_, type, old ^ more)                                                                     \
  extern "C" int __tsan_atomic##bits_##_compare_exchange_strong(type* at, type* expected, type value, int order, \
                                                                int failure) {                                   \
    return swapped(at, expected, value, order, failure, SITE);                                                   \
  }                                                                                                              \
  extern "C" int __tsan_atomic##bits_##_compare_exchange_weak(type* at, type* expected, type value, int order,   \
                                                              int failure) {                                     \
    return swapped(at, expected, value, order, failure, SITE);                                                   \
  }
ATOMIC(8, std::uint8_t)
ATOMIC(16, std::uint16_t)
ATOMIC(32, std::uint32_t)
ATOMIC(64, std::uint64_t)

#define PLAIN(bytes)                                                                          \
  extern "C" void __tsan_read##bytes(void* at) { touched(at, bytes, false, SITE); }           \
  extern "C" void __tsan_write##bytes(void* at) { touched(at, bytes, true, SITE); }           \
  extern "C" void __tsan_unaligned_read##bytes(void* at) { touched(at, bytes, false, SITE); } \
  extern "C" void __tsan_unaligned_write##bytes(void* at) { touched(at, bytes, true, SITE); } \
  extern "C" void __tsan_volatile_read##bytes(void* at) { touched(at, bytes, false, SITE); }  \
  extern "C" void __tsan_volatile_write##bytes(void* at) { touched(at, bytes, true, SITE); }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* at, std::size_t bytes) { touched(at, bytes, false, SITE); }
void __tsan_write_range(void* at, std::size_t bytes) { touched(at, bytes, true, SITE); }
void __tsan_atomic_signal_fence(int) {}
void __tsan_atomic_thread_fence(int order) {
  if (!heapyard::model::sees()) return;
  heapyard::model::step(
      {.kind = Kind::fence, .order = order_of(order), .site = reinterpret_cast<std::uintptr_t>(SITE)});
}

// The linker sends the program's own calls here (--wrap).
void* __real_memcpy(void*, const void*, std::size_t);
void* __real_memmove(void*, const void*, std::size_t);
void* __real_memset(void*, int, std::size_t);
// Clang's names for them.
void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) {
  touched(from, bytes, false, SITE);
  touched(to, bytes, true, SITE);
  return __real_memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, std::size_t bytes) {
  touched(from, bytes, false, SITE);
  touched(to, bytes, true, SITE);
  return __real_memmove(to, from, bytes);
}
void* __tsan_memset(void* at, int byte, std::size_t bytes) {
  touched(at, bytes, true, SITE);
  return __real_memset(at, byte, bytes);
}
void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  touched(from, bytes, false, SITE);
  touched(to, bytes, true, SITE);
  return __real_memcpy(to, from, bytes);
}
void* __wrap_memmove(void* to, const void* from, std::size_t bytes) {
  touched(from, bytes, false, SITE);
  touched(to, bytes, true, SITE);
  return __real_memmove(to, from, bytes);
}
void* __wrap_memset(void* at, int byte, std::size_t bytes) {
  touched(at, bytes, true, SITE);
  return __real_memset(at, byte, bytes);
}

long __real_syscall(long, ...);
// futex(2) orders like a fence on either side, and looks at the word under its own lock; with a timeout it may return
// at once. membarrier(2) is a fence on the processor of each other thread, one after the other.
long __wrap_syscall(long number, ...) {
  std::va_list words;
  va_start(words, number);
  long word[6];
  for (long& one : word) one = va_arg(words, long);
  va_end(words);
  const auto site = reinterpret_cast<std::uintptr_t>(SITE);
  if (number == SYS_membarrier && !has_membarrier) return -1;
  if (number == SYS_membarrier && word[0] == MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) return 0;
  if (number == SYS_membarrier && !heapyard::model::sees()) return 0;
  if (!heapyard::model::sees()) return __real_syscall(number, word[0], word[1], word[2], word[3], word[4], word[5]);
  const auto at = static_cast<std::uintptr_t>(word[0]);
  switch (number) {
    case SYS_futex:
      if ((word[1] & FUTEX_CMD_MASK) == FUTEX_WAKE) {
        heapyard::model::step({.kind = Kind::wake, .address = at});
      } else if (word[3] == 0) {
        heapyard::model::step(
            {.kind = Kind::wait, .bytes = 4, .address = at, .expected = static_cast<std::uint32_t>(word[2])});
      }
      return 0;
    case SYS_membarrier:
      for (unsigned t = 0; t < heapyard::model::threads(); ++t) {
        if (t != heapyard::model::running())
          heapyard::model::step(
              {.kind = Kind::remote_fence, .order = std::memory_order_seq_cst, .target = t, .site = site});
      }
      return 0;
    default:
      return 0;
  }
}

int __wrap_sched_yield() {
  if (heapyard::model::sees()) heapyard::model::step({.kind = Kind::yield});
  return 0;
}

}  // extern "C"
