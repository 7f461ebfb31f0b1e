// SPDX-License-Identifier: Apache-2.0
#include "tracer/injector/seccomp_filter.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

#include "tracer/injector/status_field.hpp"

namespace heapyard::injector {
namespace {

constexpr std::uint64_t kSomewhere = 0x7f0000000000, kHere = static_cast<std::uint64_t>(AT_FDCWD);
constexpr auto kGetFilter = static_cast<__ptrace_request>(0x420c);  // PTRACE_SECCOMP_GET_FILTER
constexpr std::size_t kMostInstructions = 4096;                     // BPF_MAXINSNS

constexpr SystemCall kCalls[] = {
    {SYS_mmap, {0, 1 << 19, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ~0ull, 0}, "mmap"},
    {SYS_mmap, {0, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_DENYWRITE, 3, 0}, "mmap"},
    {SYS_mmap, {kSomewhere, 1 << 16, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE, 3, 0}, "mmap"},
    {SYS_mmap, {0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, 3, 0}, "mmap"},
    {SYS_munmap, {kSomewhere, 1 << 19}, "munmap"},
    {SYS_mprotect, {kSomewhere, 1 << 12, PROT_READ}, "mprotect"},
    {SYS_mprotect, {kSomewhere, 1 << 12, PROT_READ | PROT_WRITE}, "mprotect"},
    {SYS_brk, {0}, "brk"},
    {SYS_madvise, {kSomewhere, 1 << 12, MADV_DONTNEED}, "madvise"},
    {SYS_openat, {kHere, kSomewhere, O_RDONLY | O_CLOEXEC, 0}, "openat"},
    {SYS_read, {3, kSomewhere, 832}, "read"},
    {SYS_pread64, {3, kSomewhere, 784, 64}, "pread64"},
    {SYS_newfstatat, {3, kSomewhere, kSomewhere, AT_EMPTY_PATH}, "newfstatat"},
    {SYS_fstat, {3, kSomewhere}, "fstat"},
    {SYS_close, {3}, "close"},
    {SYS_rt_sigprocmask, {SIG_SETMASK, kSomewhere, 0, 8}, "rt_sigprocmask"},
    {SYS_memfd_create, {kSomewhere, 1}, "memfd_create"},
    {SYS_ftruncate, {3, 1 << 20}, "ftruncate"},
    {SYS_socket, {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0}, "socket"},
    {SYS_connect, {3, kSomewhere, sizeof(sockaddr) + 94}, "connect"},
    {SYS_getsockopt, {3, SOL_SOCKET, SO_PEERCRED, kSomewhere, kSomewhere}, "getsockopt"},
    {SYS_sendmsg, {3, kSomewhere, MSG_NOSIGNAL}, "sendmsg"},
    {SYS_getpid, {}, "getpid"},
    {SYS_getppid, {}, "getppid"},
    {SYS_gettid, {}, "gettid"},
    {SYS_readlink, {kSomewhere, kSomewhere, 4096}, "readlink"},
    {SYS_clock_gettime, {CLOCK_MONOTONIC, kSomewhere}, "clock_gettime"},
    {SYS_prlimit64, {0, RLIMIT_AS, 0, kSomewhere}, "prlimit64"},
    {SYS_sched_yield, {}, "sched_yield"},
    {SYS_kill, {1, 0}, "kill"},
    {SYS_futex, {kSomewhere, 1, 1}, "futex"},
    {SYS_restart_syscall, {}, "restart_syscall"},
};

std::optional<std::uint32_t> word_at(const seccomp_data& data, std::uint32_t offset) {
  if (offset % 4 != 0 || offset > sizeof data - 4) return {};
  std::uint32_t word;
  std::memcpy(&word, reinterpret_cast<const char*>(&data) + offset, sizeof word);
  return word;
}

bool jumps(std::uint16_t operation, std::uint32_t a, std::uint32_t value) {
  switch (operation) {
    case BPF_JEQ:
      return a == value;
    case BPF_JGT:
      return a > value;
    case BPF_JGE:
      return a >= value;
    default:
      return (a & value) != 0;  // BPF_JSET
  }
}

std::optional<std::uint32_t> computed(std::uint16_t operation, std::uint32_t a, std::uint32_t value) {
  switch (operation) {
    case BPF_ADD:
      return a + value;
    case BPF_SUB:
      return a - value;
    case BPF_MUL:
      return a * value;
    case BPF_DIV:
      return value == 0 ? std::optional<std::uint32_t>{} : a / value;
    case BPF_OR:
      return a | value;
    case BPF_AND:
      return a & value;
    case BPF_XOR:
      return a ^ value;
    case BPF_LSH:
      return value > 31 ? 0 : a << value;
    case BPF_RSH:
      return value > 31 ? 0 : a >> value;
    case BPF_NEG:
      return 0 - a;
    default:
      return {};
  }
}

}  // namespace

std::uint32_t verdict_of(std::span<const sock_filter> filter, const SystemCall& call) {
  seccomp_data data{};
  data.nr = call.number;
  data.arch = AUDIT_ARCH_X86_64;
  data.instruction_pointer = kSomewhere;
  for (std::size_t i = 0; i < call.args.size(); ++i) data.args[i] = call.args[i];
  std::uint32_t a = 0, x = 0, cells[BPF_MEMWORDS] = {};
  for (std::size_t at = 0; at < filter.size(); ++at) {
    const sock_filter& step = filter[at];
    const std::uint32_t value = BPF_SRC(step.code) == BPF_X ? x : step.k;
    const bool is_cell = step.k < BPF_MEMWORDS;
    switch (BPF_CLASS(step.code)) {
      case BPF_LD:
      case BPF_LDX: {
        std::uint32_t& to = BPF_CLASS(step.code) == BPF_LD ? a : x;
        if (BPF_MODE(step.code) == BPF_IMM)
          to = step.k;
        else if (BPF_MODE(step.code) == BPF_LEN)
          to = sizeof data;
        else if (BPF_MODE(step.code) == BPF_MEM && is_cell)
          to = cells[step.k];
        else if (const auto word = word_at(data, step.k); BPF_MODE(step.code) == BPF_ABS && word)
          to = *word;
        else
          return SECCOMP_RET_KILL_PROCESS;
        break;
      }
      case BPF_ST:
      case BPF_STX:
        if (!is_cell) return SECCOMP_RET_KILL_PROCESS;
        cells[step.k] = BPF_CLASS(step.code) == BPF_ST ? a : x;
        break;
      case BPF_ALU: {
        const auto result = computed(BPF_OP(step.code), a, value);
        if (!result) return SECCOMP_RET_KILL_PROCESS;
        a = *result;
        break;
      }
      case BPF_JMP:
        if (BPF_OP(step.code) == BPF_JA)
          at += step.k;
        else
          at += jumps(BPF_OP(step.code), a, value) ? step.jt : step.jf;
        break;
      case BPF_RET:
        return BPF_RVAL(step.code) == BPF_A ? a : step.k;
      case BPF_MISC:
        if (BPF_MISCOP(step.code) == BPF_TAX)
          x = a;
        else
          a = x;
        break;
    }
  }
  return SECCOMP_RET_KILL_PROCESS;
}

std::span<const SystemCall> calls_of_attaching() { return kCalls; }

std::string why_seccomp_forbids(pid_t process, pid_t thread) {
  const auto mode = status_field(process, thread, "Seccomp:");
  if (mode == 0u) return {};
  if (mode != 2u) return "its seccomp allows only read, write and exit";
  for (unsigned index = 0; index < 1024; ++index) {
    std::vector<sock_filter> filter(kMostInstructions);
    const long length = ptrace(kGetFilter, thread, index, filter.data());
    if (length < 0 && errno == ENOENT && index > 0) return {};
    if (length <= 0) {
      // Who lives under as many filters itself, a container's for example, lives under the same.
      if (status_field(process, thread, "Seccomp_filters:") == status_field(0, 0, "Seccomp_filters:")) return {};
      return "it runs under seccomp, and only root may see what its filter allows";
    }
    filter.resize(static_cast<std::size_t>(length));
    for (const SystemCall& call : kCalls) {
      const std::uint32_t verdict = verdict_of(filter, call) & SECCOMP_RET_ACTION_FULL;
      if (verdict != SECCOMP_RET_ALLOW && verdict != SECCOMP_RET_LOG)
        return std::string("its seccomp filter does not allow ") + call.name + ", which the tracer needs";
    }
  }
  return "it has more seccomp filters than can be looked at";
}

}  // namespace heapyard::injector
