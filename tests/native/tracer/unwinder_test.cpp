// SPDX-License-Identifier: Apache-2.0
// The unwinder gives what the C++ run-time library's gives, wherever a program may stand when it allocates.
#include "tracer/events/unwinder.hpp"

#include <gtest/gtest.h>
#include <link.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unwind.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "frame_pointer.h"

extern "C" const void* _Unwind_Find_FDE(void* pc, void* bases);  // of the C++ run-time library

namespace {

using heapyard::tracer::ChainEnd;
using heapyard::tracer::FrameRule;
using heapyard::tracer::Registers;
using heapyard::tracer::RuleCache;
using heapyard::tracer::UnwindTable;

RuleCache rules;

std::vector<std::uintptr_t> theirs() {
  std::vector<std::uintptr_t> found;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* into) {
        if (const auto pc = _Unwind_GetIP(context)) static_cast<std::vector<std::uintptr_t>*>(into)->push_back(pc);
        return _URC_NO_REASON;
      },
      &found);
  return found;
}

// The chain of callers of whoever calls this, by both. The first frames differ: theirs has its own functions in front.
[[gnu::noinline]] void both_agree() {
  const Registers caller = heapyard::tracer::caller_of(__builtin_frame_address(0));
  std::uintptr_t frames[256];
  unsigned count = 0;
  const ChainEnd end = heapyard::tracer::walk(rules, caller, 0, frames, 256, count, [](const dl_find_object&) {});
  const std::vector<std::uintptr_t> expected = theirs();
  const auto from = std::find(expected.begin(), expected.end(), frames[0]);
  ASSERT_NE(from, expected.end());
  EXPECT_EQ(std::vector<std::uintptr_t>(from, expected.end()), std::vector<std::uintptr_t>(frames, frames + count));
  EXPECT_EQ(end, ChainEnd::kWhole);
}

WITHOUT_FRAME_POINTER void without_frame_pointer(int depth) {
  char room[200];
  asm volatile("" : : "r"(room) : "memory");
  if (depth > 0)
    without_frame_pointer(depth - 1);
  else
    both_agree();
  asm volatile("" : : "r"(room) : "memory");
}

[[gnu::noinline]] void with_changing_frame(std::size_t size) {
  auto* room = static_cast<volatile char*>(__builtin_alloca(size));
  room[0] = 1;
  both_agree();
  room[0] = 2;
}

[[gnu::noinline]] void realigned(int depth) {
  alignas(128) char room[256];
  asm volatile("" : : "r"(room) : "memory");
  if (depth > 0)
    realigned(depth - 1);
  else
    without_frame_pointer(3);
  asm volatile("" : : "r"(room) : "memory");
}

TEST(Unwinder, PlainFrames) { both_agree(); }
TEST(Unwinder, WithoutFramePointers) { without_frame_pointer(40); }
TEST(Unwinder, FramesOfChangingSize) {
  for (std::size_t size = 16; size < 100'000; size *= 3) with_changing_frame(size);
}
TEST(Unwinder, FramesThatRealignTheStack) { realigned(5); }
TEST(Unwinder, InAThread) {
  std::thread([] { realigned(2); }).join();
}

TEST(Unwinder, ThroughTheCLibrary) {
  int numbers[4] = {3, 1, 2, 0};
  std::qsort(numbers, 4, sizeof *numbers, [](const void* a, const void* b) {
    without_frame_pointer(2);
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
}

TEST(Unwinder, InSignalHandlers) {
  struct sigaction action{};
  action.sa_handler = [](int) { both_agree(); };
  sigaction(SIGUSR1, &action, nullptr);
  raise(SIGUSR1);
  // On a stack of its own, in the middle of a computation.
  static char stack[1 << 16];
  const stack_t other{stack, 0, sizeof stack};
  sigaltstack(&other, nullptr);
  action.sa_flags = SA_ONSTACK;
  action.sa_handler = [](int) { without_frame_pointer(2); };
  sigaction(SIGUSR1, &action, nullptr);
  std::function<void(int)> deep = [&](int depth) { depth == 0 ? static_cast<void>(raise(SIGUSR1)) : deep(depth - 1); };
  deep(12);
}

TEST(Unwinder, WhileAnExceptionIsHandled) {
  try {
    throw 1;
  } catch (int) {
    without_frame_pointer(1);
  }
}

TEST(Unwinder, CutsWhereItIsTold) {
  const Registers caller = heapyard::tracer::caller_of(__builtin_frame_address(0));
  std::uintptr_t frames[3];
  unsigned count = 0;
  EXPECT_EQ(heapyard::tracer::walk(rules, caller, 0, frames, 3, count, [](const dl_find_object&) {}), ChainEnd::kCut);
  EXPECT_EQ(count, 3u);
}

// Code without tables: the walk ends, and touches nothing outside the stack it was given.
TEST(Unwinder, StopsInCodeWithoutTables) {
  std::uintptr_t frames[8];
  unsigned count = 0;
  std::uintptr_t stack[4] = {};
  const Registers nowhere{0x1000, reinterpret_cast<std::uintptr_t>(stack), 0xdeadbeef0};
  EXPECT_EQ(heapyard::tracer::walk(rules, nowhere, 0, frames, 8, count, [](const dl_find_object&) {}), ChainEnd::kTorn);
  EXPECT_EQ(count, 1u);
}

// What CPython makes of its trampoline, one for each function; and the other ways to end a frame right behind a call.
[[gnu::noinline]] void ends_whole(std::uintptr_t through) {
  const Registers caller = heapyard::tracer::caller_of(__builtin_frame_address(0));
  std::uintptr_t frames[256];
  unsigned count = 0;
  EXPECT_EQ(heapyard::tracer::walk(rules, caller, 0, frames, 256, count, [](const dl_find_object&) {}),
            ChainEnd::kWhole);
  ASSERT_GT(count, 3u);
  EXPECT_EQ(frames[0], through);
}
TEST(Unwinder, ThroughCodeOfNoFileThatEndsBehindItsCall) {
  const std::vector<std::vector<std::uint8_t>> codes = {
      {0x48, 0x83, 0xec, 0x08, 0xff, 0xd6, 0x48, 0x83, 0xc4, 0x08, 0xc3},  // sub $8, %rsp; call *%rsi; add; ret
      {0x48, 0x83, 0xec, 0x38, 0xff, 0xd6, 0x48, 0x83, 0xc4, 0x38, 0xc3},  // the same with $56
      {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3}};                   // push %rbp; mov; call *%rsi; pop %rbp; ret
  for (const auto& code : codes) {
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    std::copy(code.begin(), code.end(), static_cast<std::uint8_t*>(memory));
    const std::size_t behind = std::find(code.begin(), code.end(), 0xd6) - code.begin() + 1;
    using Function = void (*)(std::uintptr_t, void (*)(std::uintptr_t));
    reinterpret_cast<Function>(memory)(reinterpret_cast<std::uintptr_t>(memory) + behind, ends_whole);
    rules.forget();
    munmap(memory, 4096);
  }
}

// makecontext() lets a fiber's function return to the start of another that called nobody: there the chain ends.
ucontext_t outside, fiber;
TEST(Unwinder, InAFiber) {
  std::vector<char> stack(1 << 16);
  ASSERT_EQ(getcontext(&fiber), 0);
  fiber.uc_stack.ss_sp = stack.data();
  fiber.uc_stack.ss_size = stack.size();
  fiber.uc_link = &outside;
  makecontext(&fiber, [] { without_frame_pointer(10); }, 0);
  ASSERT_EQ(swapcontext(&outside, &fiber), 0);
}

// A function that says nothing of itself, as a compiler of another language may make it.
asm(".text\nwithout_tables: call abort\nnop\ncall abort\nnop\n");
extern "C" const char without_tables[];
TEST(UnwindTable, CodeOfNoFunctionIsNoEnd) {
  for (const std::ptrdiff_t at : {4, 10}) {  // within its two calls
    dl_find_object object;
    const auto pc = reinterpret_cast<std::uintptr_t>(without_tables + at);
    EXPECT_EQ(UnwindTable::find(pc, object).kind(), FrameRule::kTorn);
    EXPECT_NE(object.dlfo_link_map, nullptr);
  }
}

// Nobody called the loader's start; what else it has no usable row for was called, so that a chain through it is torn.
TEST(UnwindTable, TheLoadersStartIsAnEndAndNothingElseOfIt) {
  const std::uintptr_t base = getauxval(AT_BASE);
  ASSERT_NE(base, 0u);
  dl_find_object object;
  const std::uintptr_t start = base + reinterpret_cast<const ElfW(Ehdr)*>(base)->e_entry;
  EXPECT_EQ(UnwindTable::find(start, object).kind(), FrameRule::kEnd);
  const auto end = reinterpret_cast<std::uintptr_t>(object.dlfo_map_end);
  unsigned covered = 0, ends = 0, torn = 0;
  for (std::uintptr_t pc = base; pc < end; pc += 3) {
    void* bases[3];
    if (_Unwind_Find_FDE(reinterpret_cast<void*>(pc), bases) == nullptr) continue;
    const FrameRule::Kind kind = UnwindTable::find(pc, object).kind();
    ++covered;
    ends += kind == FrameRule::kEnd;
    torn += kind == FrameRule::kTorn;
  }
  EXPECT_GT(covered, 10'000u);
  EXPECT_EQ(ends, 0u);
  EXPECT_GT(torn, 0u);  // the resolver's rows, which count from another register
}

// More addresses than it keeps, near each other and far apart, in any order.
TEST(RuleCache, GivesTheTablesOwnRules) {
  const auto fresh = std::make_unique<RuleCache>();
  std::mt19937_64 random(3);
  dl_find_object object;
  const auto within = [&](const void* code) {
    EXPECT_EQ(_dl_find_object(const_cast<void*>(code), &object), 0);
    return std::pair{reinterpret_cast<std::uintptr_t>(object.dlfo_map_start),
                     reinterpret_cast<std::uintptr_t>(object.dlfo_map_end)};
  };
  const std::pair<std::uintptr_t, std::uintptr_t> objects[] = {within(reinterpret_cast<void*>(&std::qsort)),
                                                               within(reinterpret_cast<void*>(&theirs))};
  unsigned kinds = 0, learned = 0;
  for (int turn = 0; turn < 60'000; ++turn) {
    const auto [begin, end] = objects[random() % 2];
    const std::uintptr_t near = begin + 1 + random() % (end - begin - 1);
    for (std::uintptr_t pc = near; pc < std::min(near + random() % 40, end); pc += 1 + random() % 9) {
      const FrameRule expected = UnwindTable::find(pc - 1, object);
      const FrameRule found = fresh->rule(pc, [&](const dl_find_object&) { ++learned; });
      ASSERT_EQ(found.word, expected.word) << turn;
      kinds |= 1u << found.kind();
      ASSERT_EQ(fresh->rule(pc, [&](const dl_find_object&) { learned = 0; }).word, expected.word);
      ASSERT_NE(learned, 0u);  // the second time it was known
    }
  }
  EXPECT_GT(learned, 1u << 15);
  EXPECT_NE(kinds & 1u << FrameRule::kStack, 0u);
  EXPECT_NE(kinds & 1u << FrameRule::kTorn, 0u);
}

TEST(FrameRule, PacksAndUnpacks) {
  for (const std::int64_t offset : {-(1 << 20), -8, 0, 8, 16, 4096, (1 << 20)}) {
    for (const unsigned slot : {0u, 1u, 2u, 63u}) {
      ASSERT_TRUE(FrameRule::fits(FrameRule::kPointer, offset, slot));
      const FrameRule rule{FrameRule::kPointer, offset, slot};
      EXPECT_EQ(rule.kind(), FrameRule::kPointer);
      EXPECT_EQ(static_cast<std::int64_t>(rule.offset()), offset);
      EXPECT_EQ(rule.fp_below(), slot * 8);
      EXPECT_EQ(FrameRule(rule.word).offset(), rule.offset());
      EXPECT_LT(rule.word, 1u << FrameRule::kBits);
      if (offset <= 0) continue;
      EXPECT_EQ(FrameRule(FrameRule::kStack, offset, slot).size(), static_cast<std::uintptr_t>(offset));
    }
  }
  EXPECT_TRUE(FrameRule::fits(FrameRule::kStack, 8, 0));
  EXPECT_FALSE(FrameRule::fits(FrameRule::kStack, 0, 0));  // a walk would not get on
  EXPECT_FALSE(FrameRule::fits(FrameRule::kStack, -8, 0));
  EXPECT_FALSE(FrameRule::fits(FrameRule::kStack, 4, 0));
  EXPECT_FALSE(FrameRule::fits(FrameRule::kStack, 1 << 22, 0));
  EXPECT_FALSE(FrameRule::fits(FrameRule::kStack, 8, 64));
}

}  // namespace
