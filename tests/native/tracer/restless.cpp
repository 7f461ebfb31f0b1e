// SPDX-License-Identifier: Apache-2.0
// Programs that are never still: they fork, exec and end, begin and end threads, allocate in all threads, take signals,
// or live under seccomp; and they check whatever they do.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <spawn.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstddef>
#include <string_view>
#include <thread>
#include <vector>

#include "beside.h"

extern char** environ;

namespace {

char* own_path;

void ended_with(pid_t child, int status) {
  int told;
  right(waitpid(child, &told, 0) == child, "waitpid");
  right(WIFEXITED(told) && WEXITSTATUS(told) == status, "a child's end", told);
}

// Children end at once, exec, or are spawned.
void forks() {
  begin();
  long answers = 0;
  char child_word[] = "exec-child";
  char* const words[] = {own_path, child_word, nullptr};
  for (; !asked_to_end(); ++answers) {
    pid_t child = fork();
    if (child == 0) std::_Exit(7);
    right(child > 0, "fork");
    ended_with(child, 7);
    child = fork();
    if (child == 0) {
      execv(own_path, words);
      std::_Exit(99);
    }
    ended_with(child, 8);
    right(posix_spawn(&child, own_path, nullptr, nullptr, words, environ) == 0, "posix_spawn");
    ended_with(child, 8);
  }
  end(answers);
}

// Four threads, of which none ever waits.
void fill_and_check(unsigned seed, std::atomic<bool>& over, std::atomic<long>& answers) {
  constexpr std::size_t kBlocks = 64;
  unsigned char* blocks[kBlocks] = {};
  std::size_t sizes[kBlocks] = {};
  while (!over) {
    seed = seed * 1664525 + 1013904223;
    const std::size_t at = seed >> 8 & (kBlocks - 1);
    const auto mark = static_cast<unsigned char>(at);
    for (std::size_t byte = 0; byte < sizes[at]; ++byte) right(blocks[at][byte] == mark, "content of a block");
    std::free(blocks[at]);
    sizes[at] = 1 + (seed >> 16) % 2000;
    blocks[at] = static_cast<unsigned char*>(std::malloc(sizes[at]));
    right(blocks[at] != nullptr, "malloc");
    std::memset(blocks[at], mark, sizes[at]);
    if (answers.fetch_add(1, std::memory_order_relaxed) % 1000 == 0 && asked_to_end()) over = true;
  }
  for (unsigned char* block : blocks) std::free(block);
}

void allocates() {
  std::atomic<bool> over{false};
  std::atomic<long> answers{0};
  std::vector<std::thread> others;
  for (unsigned i = 1; i < 4; ++i) others.emplace_back(fill_and_check, i, std::ref(over), std::ref(answers));
  begin();
  fill_and_check(9, over, answers);
  for (std::thread& each : others) each.join();
  end(answers);
}

// Becomes another program every few milliseconds, while its other threads do something.
void execs(long answers) {
  if (answers == 0) begin();
  std::atomic<bool> never{false};
  std::atomic<long> others_answers{0};
  for (unsigned i = 1; i < 3; ++i) std::thread(fill_and_check, i, std::ref(never), std::ref(others_answers)).detach();
  pause_for(1000 + answers * 7919 % 20'000);
  if (asked_to_end()) {
    end(answers);
    std::_Exit(0);
  }
  char way[] = "execs", number[24];
  std::snprintf(number, sizeof number, "%ld", answers + 1);
  char* const words[] = {own_path, way, number, nullptr};
  execv(own_path, words);
  wrong("exec");
}

// Ends by itself after so many microseconds.
void ends(long microseconds) {
  begin();
  std::atomic<bool> never{false};
  std::atomic<long> answers{0};
  for (unsigned i = 1; i < 3; ++i) std::thread(fill_and_check, i, std::ref(never), std::ref(answers)).detach();
  pause_for(microseconds);
  end(answers);
  std::_Exit(0);
}

void threads() {
  begin();
  long answers = 0;
  for (; !asked_to_end(); answers += 4) {
    std::atomic<long> sum{0};
    std::vector<std::thread> some;
    for (int i = 0; i < 4; ++i)
      some.emplace_back([&sum, i] {
        pause_for(200);
        void* block = std::malloc(100);
        sum += i;
        std::free(block);
      });
    for (std::thread& each : some) each.join();
    right(sum == 6, "what threads have done", sum);
  }
  end(answers);
}

volatile std::sig_atomic_t next_signal = 0, last_signal = 0;

// Computes while numbered signals arrive.
void signals() {
  struct sigaction action{};
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    if (info->si_value.sival_int == -1)
      last_signal = 1;
    else if (info->si_value.sival_int != next_signal)
      last_signal = 2;
    else
      next_signal = next_signal + 1;
  };
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGRTMIN, &action, nullptr);
  const pid_t child = child_that_signals();
  begin();
  std::uint64_t value = 1;
  while (last_signal == 0) {
    value = 1;
    for (int i = 0; i < 100'000; ++i) value = value * 6364136223846793005u + 1442695040888963407u;
    right(value == 7853315990982803361u, "a sum", static_cast<long>(value));
  }
  right(last_signal == 1, "order of signals");
  join_child(child);
  end(next_signal);
}

// A list of system calls that are allowed; any other one kills.
void filter(std::initializer_list<int> allowed) {
  std::vector<sock_filter> steps = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const int call : allowed) {
    steps.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    steps.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  steps.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  const sock_fprog program{static_cast<unsigned short>(steps.size()), steps.data()};
  right(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
        "seccomp");
}

void naps() {
  begin();
  long answers = 0;
  for (; !asked_to_end(); ++answers) {
    const timespec length{0, 1'000'000};
    right(nanosleep(&length, nullptr) == 0, "nanosleep");
    char* block = static_cast<char*>(std::malloc(100));
    std::memset(block, 1, 100);
    std::free(block);
  }
  end(answers);
}

// Enough for a small server, and for the tracer.
void seccomp_wide() {
  std::printf("%s", "");  // its buffer is allocated
  filter({SYS_read,
          SYS_write,
          SYS_close,
          SYS_poll,
          SYS_mmap,
          SYS_munmap,
          SYS_mprotect,
          SYS_brk,
          SYS_madvise,
          SYS_openat,
          SYS_pread64,
          SYS_newfstatat,
          SYS_fstat,
          SYS_rt_sigprocmask,
          SYS_rt_sigreturn,
          SYS_memfd_create,
          SYS_ftruncate,
          SYS_socket,
          SYS_connect,
          SYS_getsockopt,
          SYS_sendmsg,
          SYS_getpid,
          SYS_getppid,
          SYS_gettid,
          SYS_readlink,
          SYS_clock_gettime,
          SYS_prlimit64,
          SYS_sched_yield,
          SYS_kill,
          SYS_futex,
          SYS_restart_syscall,
          SYS_nanosleep,
          SYS_clock_nanosleep,
          SYS_exit_group});
  naps();
}

// Enough for itself only.
void seccomp_narrow() {
  std::printf("%s", "");
  filter({SYS_read, SYS_write, SYS_poll, SYS_brk, SYS_mmap, SYS_munmap, SYS_restart_syscall, SYS_nanosleep,
          SYS_clock_nanosleep, SYS_newfstatat, SYS_fstat, SYS_exit_group});
  naps();
}

constexpr struct {
  std::string_view name;
  void (*run)();
} kWays[] = {
    {"forks", forks},     {"allocates", allocates},       {"threads", threads},
    {"signals", signals}, {"seccomp-wide", seccomp_wide}, {"seccomp-narrow", seccomp_narrow},
};

}  // namespace

int main(int count, char** words) {
  own_path = words[0];
  if (count == 2 && std::string_view(words[1]) == "exec-child") return 8;
  if (count == 3 && std::string_view(words[1]) == "execs") return execs(std::atol(words[2])), 0;
  if (count == 3 && std::string_view(words[1]) == "ends") return ends(std::atol(words[2])), 0;
  for (const auto& way : kWays)
    if (count == 2 && way.name == words[1]) return way.run(), 0;
  for (const auto& way : kWays) std::printf("%s\n", way.name.data());
  return 2;
}
