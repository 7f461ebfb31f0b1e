// SPDX-License-Identifier: Apache-2.0
// The interpreter of seccomp filters, beside the kernel's own.
#include "tracer/injector/seccomp_filter.hpp"

#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <random>

namespace heapyard::injector {
namespace {

constexpr int kNoSuchCall = 3000;
constexpr std::uint32_t number_at = offsetof(seccomp_data, nr);

sock_filter step(unsigned code, std::uint32_t k, unsigned jt = 0, unsigned jf = 0) {
  return {static_cast<std::uint16_t>(code), static_cast<std::uint8_t>(jt), static_cast<std::uint8_t>(jf), k};
}

std::uint32_t argument_at(unsigned index, bool high) {
  return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8 * index + (high ? 4 : 0));
}

// Any calculation over the words of the call, and of its result the lowest 10 bits as an error number.
std::vector<sock_filter> random_filter(std::mt19937& draw) {
  const auto below = [&](unsigned bound) { return static_cast<unsigned>(draw() % bound); };
  std::vector<sock_filter> steps = {step(BPF_LD | BPF_W | BPF_ABS, number_at),
                                    step(BPF_JMP | BPF_JEQ | BPF_K, kNoSuchCall, 1, 0),
                                    step(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  for (unsigned cell = 0; cell < BPF_MEMWORDS; ++cell) {  // the kernel takes none that is read before it is written
    steps.push_back(step(BPF_LD | BPF_W | BPF_ABS, argument_at(below(6), below(2))));
    steps.push_back(step(BPF_ST, cell));
  }
  constexpr unsigned kSums[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_OR, BPF_AND, BPF_XOR, BPF_LSH, BPF_RSH, BPF_NEG};
  constexpr unsigned kTests[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
  const unsigned length = 5 + below(40);
  for (unsigned at = 0; at < length; ++at) {
    const unsigned source = below(2) ? BPF_X : BPF_K, ahead = length - at - 1;
    switch (below(9)) {
      case 0:
        steps.push_back(step(BPF_LD | BPF_W | BPF_ABS, argument_at(below(6), below(2))));
        break;
      case 1:
        steps.push_back(step(BPF_LD | BPF_MEM, below(BPF_MEMWORDS)));
        break;
      case 2:
        steps.push_back(step(BPF_LDX | BPF_MEM, below(BPF_MEMWORDS)));
        break;
      case 3:
        steps.push_back(step(below(2) ? BPF_ST : BPF_STX, below(BPF_MEMWORDS)));
        break;
      case 4:
        steps.push_back(step(BPF_MISC | (below(2) ? BPF_TAX : BPF_TXA), 0));
        break;
      case 5:
        steps.push_back(step(BPF_JMP | kTests[below(4)] | source, static_cast<std::uint32_t>(draw() & 0xff),
                             below(ahead + 1), below(ahead + 1)));
        break;
      case 6:
        steps.push_back(step(BPF_ALU | BPF_DIV | BPF_K, 1 + below(1000)));
        break;
      default: {
        const unsigned sum = kSums[below(9)];
        const bool shifts = sum == BPF_LSH || sum == BPF_RSH;
        steps.push_back(
            step(BPF_ALU | sum | (shifts || sum == BPF_NEG ? BPF_K : source), shifts ? below(32) : below(1 << 20)));
      }
    }
  }
  steps.push_back(step(BPF_ALU | BPF_AND | BPF_K, 0x3ff));
  steps.push_back(step(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO));
  steps.push_back(step(BPF_RET | BPF_A, 0));
  return steps;
}

// The error numbers by which the kernel answers the calls under the filter; nothing where it may not be set up.
std::vector<int> asked_of_kernel(const std::vector<sock_filter>& filter, const std::vector<SystemCall>& calls) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    std::vector<int> answers(calls.size());
    const sock_fprog program{static_cast<unsigned short>(filter.size()), const_cast<sock_filter*>(filter.data())};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      _exit(1);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const auto& a = calls[i].args;
      answers[i] = syscall(calls[i].number, a[0], a[1], a[2], a[3], a[4], a[5]) == 0 ? 0 : errno;
    }
    _exit(write(ends[1], answers.data(), answers.size() * sizeof(int)) > 0 ? 0 : 1);
  }
  std::vector<int> answers(calls.size());
  close(ends[1]);
  const ssize_t bytes = read(ends[0], answers.data(), answers.size() * sizeof(int));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return bytes == static_cast<ssize_t>(answers.size() * sizeof(int)) ? answers : std::vector<int>{};
}

TEST(SeccompFilter, AnswersAsTheKernelDoes) {
  const std::vector<sock_filter> allowing = {step(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  if (asked_of_kernel(allowing, {{SYS_getpid, {}, "getpid"}}).empty()) GTEST_SKIP() << "no seccomp filters here";
  std::mt19937 draw(20261124);
  for (int turn = 0; turn < 150; ++turn) {
    const auto filter = random_filter(draw);
    std::vector<SystemCall> calls;
    for (int i = 0; i < 40; ++i) {
      SystemCall call{kNoSuchCall, {}, "none"};
      for (auto& argument : call.args) argument = draw() % 4 == 0 ? draw() : draw() % 512;
      calls.push_back(call);
    }
    const auto answers = asked_of_kernel(filter, calls);
    ASSERT_FALSE(answers.empty());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const std::uint32_t verdict = verdict_of(filter, calls[i]);
      ASSERT_EQ(verdict & SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ERRNO);
      ASSERT_EQ(static_cast<int>(verdict & SECCOMP_RET_DATA), answers[i]) << "turn " << turn << ", call " << i;
    }
  }
}

TEST(SeccompFilter, WhatIsNotWellFormedKills) {
  const SystemCall call{SYS_mmap, {}, "mmap"};
  EXPECT_EQ(verdict_of({}, call), SECCOMP_RET_KILL_PROCESS);
  const std::vector<sock_filter> beyond = {step(BPF_LD | BPF_W | BPF_ABS, sizeof(seccomp_data)),
                                           step(BPF_RET | BPF_A, 0)};
  EXPECT_EQ(verdict_of(beyond, call), SECCOMP_RET_KILL_PROCESS);
  const std::vector<sock_filter> outside = {step(BPF_LD | BPF_MEM, BPF_MEMWORDS), step(BPF_RET | BPF_A, 0)};
  EXPECT_EQ(verdict_of(outside, call), SECCOMP_RET_KILL_PROCESS);
  const std::vector<sock_filter> by_nothing = {step(BPF_ALU | BPF_DIV | BPF_X, 0), step(BPF_RET | BPF_A, 0)};
  EXPECT_EQ(verdict_of(by_nothing, call), SECCOMP_RET_KILL_PROCESS);
}

TEST(SeccompFilter, ArgumentsCount) {
  // Memory may be mapped, but not to be executed.
  const std::vector<sock_filter> filter = {step(BPF_LD | BPF_W | BPF_ABS, number_at),
                                           step(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
                                           step(BPF_LD | BPF_W | BPF_ABS, argument_at(2, false)),
                                           step(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 1),
                                           step(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                           step(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  int killed = 0;
  for (const SystemCall& call : calls_of_attaching()) killed += verdict_of(filter, call) == SECCOMP_RET_KILL_PROCESS;
  EXPECT_EQ(killed, 1);
}

}  // namespace
}  // namespace heapyard::injector
