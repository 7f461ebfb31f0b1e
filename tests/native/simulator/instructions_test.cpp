// SPDX-License-Identifier: Apache-2.0
#include "simulator/engine/instructions.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

using heapyard::simulator::is_atomic;
using Code = std::vector<std::uint8_t>;

TEST(Instructions, LockedOnesAndExchangesWithMemoryAreAtomic) {
  EXPECT_TRUE(is_atomic(Code{0xf0, 0x0f, 0xb1, 0x0f})) << "lock cmpxchg %ecx,(%rdi)";
  EXPECT_TRUE(is_atomic(Code{0xf0, 0x48, 0x0f, 0xc7, 0x0f})) << "lock cmpxchg16b (%rdi)";
  EXPECT_TRUE(is_atomic(Code{0x64, 0xf0, 0xff, 0x00})) << "lock incl %fs:(%rax)";
  EXPECT_TRUE(is_atomic(Code{0x87, 0x07})) << "xchg %eax,(%rdi)";
  EXPECT_TRUE(is_atomic(Code{0x48, 0x87, 0x45, 0xf8})) << "xchg %rax,-8(%rbp)";
  EXPECT_TRUE(is_atomic(Code{0x41, 0x86, 0x06})) << "xchg %al,(%r14)";
}

TEST(Instructions, OthersAreNot) {
  EXPECT_FALSE(is_atomic(Code{0x87, 0xd8})) << "xchg %ebx,%eax";
  EXPECT_FALSE(is_atomic(Code{0x48, 0x89, 0x07})) << "mov %rax,(%rdi)";
  EXPECT_FALSE(is_atomic(Code{0x0f, 0xb1, 0x0f})) << "cmpxchg without lock";
  EXPECT_FALSE(is_atomic(Code{0xf3, 0xa4})) << "rep movsb";
  EXPECT_FALSE(is_atomic(Code{0x83, 0x07, 0xf0})) << "an operand of f0 is no prefix";
}

}  // namespace
