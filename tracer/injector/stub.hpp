// SPDX-License-Identifier: Apache-2.0
// The code that a thread of another process runs to call a function there, and the words that it and the injector
// share.
//
// Idea: the thread does everything itself: it makes a mapping for a stack, saves the extended state of the processor
// with XSAVE, calls, restores, gives the mapping back and jumps to where it was. So the injector never writes extended
// state whose size only the processor knows, and if it dies, at any instant, the thread finds its way back without it.
// The code lies where the text of a loaded object ends within its last page: bytes that nobody runs or reads. Only
// `ready`, written last, makes the thread call anything.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <span>

extern "C" const unsigned char heapyard_stub[], heapyard_stub_enter[], heapyard_stub_mapped[], heapyard_stub_returned[],
    heapyard_stub_unmapped[], heapyard_stub_end[];

namespace heapyard::injector {

// The first words of the stub; the thread only reads them.
struct StubWords {
  std::uint64_t magic, owner;  // owner: the thread that is, or was, within
  std::uint64_t r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, ip, flags, sp;
  std::uint64_t signal_mask, mapped_bytes;
};
static_assert(sizeof(StubWords) == 22 * 8);
constexpr std::uint64_t kStubMagic = 0x314a4e4944525948;

enum Outcome : std::uint64_t { kPending, kCalled, kNotLoaded, kNoEntry };

// The beginning of the mapping. Offsets stand in stub.S.
struct CallBlock {
  std::uint64_t ready, stack_top, state_area, state_mask;
  std::uint64_t errno_location, dlopen, dlsym, dlerror;
  std::uint64_t library, entry_name, argument;  // addresses of strings
  std::uint64_t saved_errno, outcome;
  std::int64_t result;
  std::uint64_t mxcsr;
  char text[512];  // what dlerror said
  char strings[2048];
};
static_assert(offsetof(CallBlock, dlopen) == 40 && offsetof(CallBlock, argument) == 80 &&
              offsetof(CallBlock, mxcsr) == 112 && offsetof(CallBlock, text) == 120);

constexpr std::uint64_t kStackBytes = 512 << 10;  // only what is touched becomes memory
constexpr std::uint64_t kPage = 4096;

inline std::span<const unsigned char> stub_bytes() { return {heapyard_stub, heapyard_stub_end}; }
inline std::uint64_t offset_of(const unsigned char* label) { return static_cast<std::uint64_t>(label - heapyard_stub); }

inline void set_registers(StubWords& words, const user_regs_struct& from) {
  words.r15 = from.r15, words.r14 = from.r14, words.r13 = from.r13, words.r12 = from.r12;
  words.bp = from.rbp, words.bx = from.rbx, words.r11 = from.r11, words.r10 = from.r10;
  words.r9 = from.r9, words.r8 = from.r8, words.ax = from.rax, words.cx = from.rcx;
  words.dx = from.rdx, words.si = from.rsi, words.di = from.rdi;
  words.ip = from.rip, words.flags = from.eflags, words.sp = from.rsp;
}

}  // namespace heapyard::injector
