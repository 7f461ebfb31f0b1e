// SPDX-License-Identifier: Apache-2.0
// A workload in processes in which the kernel refuses one system call, as a sandbox or a limit does: blocks stay what
// they are, what cannot be had is refused with ENOMEM, free keeps errno, and memory is served again.
//
//   LD_PRELOAD=libmine.so refused_calls
//
// One child for each call (seccomp), from its first allocation on or after it has blocks. Exit code 0: all was right;
// else the children that went wrong are told. Allocates nothing before the children are forked.
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace {

// A call, or one of its kinds: whose argument `index` has these bits.
struct Refused {
  const char* name;
  int call, error;
  bool memory;  // no new memory can be had then
  int index = -1;
  std::uint32_t bits = 0;
};

constexpr Refused kRefused[] = {
    {"mmap", SYS_mmap, ENOMEM, true},
    {"mmap of a place", SYS_mmap, ENOMEM, false, 3, MAP_FIXED_NOREPLACE},
    {"mmap over a mapping", SYS_mmap, ENOMEM, false, 3, MAP_FIXED},
    {"munmap", SYS_munmap, ENOMEM, false},
    {"mremap", SYS_mremap, ENOMEM, false},
    {"mremap that may not be", SYS_mremap, EFAULT, false},
    {"mremap elsewhere", SYS_mremap, ENOMEM, false, 3, MREMAP_MAYMOVE},
    {"mremap to a place", SYS_mremap, EINVAL, false, 3, MREMAP_FIXED},
    {"madvise", SYS_madvise, EINVAL, false},
    {"mprotect", SYS_mprotect, ENOMEM, false},
    {"mincore", SYS_mincore, ENOSYS, false},
    {"membarrier", SYS_membarrier, EPERM, false},
    {"sched_getaffinity", SYS_sched_getaffinity, EPERM, false},
    {"openat", SYS_openat, EACCES, false},
    {"sysinfo", SYS_sysinfo, EPERM, false},
    {"getrandom", SYS_getrandom, ENOSYS, false},
    {"prlimit64", SYS_prlimit64, EPERM, false},
};

// Of this thread and all that it starts; whether the kernel has filters.
bool refuse(const Refused& what) {
  constexpr auto kWord = [](unsigned index) {  // the low half, on processors that put it first
    return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + index * sizeof(std::uint64_t));
  };
  const bool all = what.index < 0;
  sock_filter lines[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 4, static_cast<std::uint32_t>(what.call)},
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, kWord(all ? 0 : static_cast<unsigned>(what.index))},
      {BPF_ALU | BPF_AND | BPF_K, 0, 0, all ? 0 : what.bits},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, all ? 0 : what.bits},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(what.error)},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog program{std::size(lines), lines};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

[[noreturn]] void wrong(const char* what, std::size_t size) {
  char line[160];
  const int length = std::snprintf(line, sizeof line, "  %s, %zu bytes, errno %d\n", what, size, errno);
  syscall(SYS_write, STDERR_FILENO, line, length);
  syscall(SYS_exit_group, 1);
  __builtin_unreachable();
}

constexpr std::size_t kSizes[] = {16, 1'000, 9'000, 200'000, 2'500'000};
constexpr unsigned kOfEach = 4;

struct Slot {
  unsigned char* at;
  std::size_t size;
};
Slot slots[std::size(kSizes) * kOfEach];

bool short_of_memory = false;

void write_edges(const Slot& slot) {
  slot.at[0] = slot.at[slot.size / 2] = slot.at[slot.size - 1] = static_cast<unsigned char>(slot.size);
}
void look(const Slot& slot, const char* when) {
  const auto expected = static_cast<unsigned char>(slot.size);
  if (slot.at != nullptr &&
      (slot.at[0] != expected || slot.at[slot.size / 2] != expected || slot.at[slot.size - 1] != expected))
    wrong(when, slot.size);
}

void take(Slot& slot, std::size_t size, bool zeroed) {
  errno = 0;
  auto* const at = static_cast<unsigned char*>(zeroed ? calloc(1, size) : malloc(size));
  if (at == nullptr) {
    if (errno != ENOMEM || !short_of_memory) wrong("was refused", size);
    return;
  }
  if (zeroed && (at[0] | at[size / 2] | at[size - 1]) != 0) wrong("is not zero", size);
  slot = {at, size};
  write_edges(slot);
}

void resize(Slot& slot, std::size_t size) {
  errno = 0;
  auto* const at = static_cast<unsigned char*>(realloc(slot.at, size));
  if (at == nullptr) {
    if (errno != ENOMEM || !short_of_memory) wrong("was not resized", size);
    return look(slot, "changed when it was not resized");
  }
  const auto expected = static_cast<unsigned char>(slot.size);
  if (at[0] != expected || (size > slot.size && at[slot.size - 1] != expected))
    wrong("changed when it was resized", size);
  slot = {at, size};
  write_edges(slot);
}

void give_back(Slot& slot) {
  look(slot, "changed");
  errno = 4711;
  free(slot.at);
  if (errno != 4711) wrong("free changed errno", slot.size);
  slot.at = nullptr;
}

void* work(void*) {
  for (unsigned round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < std::size(slots); ++i) {
      if (slots[i].at == nullptr) take(slots[i], kSizes[i / kOfEach] + i, (i + round) % 3 == 0);
    }
    for (std::size_t i = 0; i < std::size(slots); i += 3) {
      if (slots[i].at != nullptr) resize(slots[i], slots[i].size * (i % 2 == 0 ? 3 : 2));
      if (slots[i].at != nullptr) resize(slots[i], slots[i].size / 4 + 1);
    }
    for (std::size_t i = round % 2; i < std::size(slots); i += 2) {
      if (slots[i].at != nullptr) give_back(slots[i]);
    }
    malloc_trim(0);
    mallinfo2();
  }
  return nullptr;
}

void free_all() {
  for (Slot& slot : slots) {
    if (slot.at != nullptr) give_back(slot);
  }
}

void live_with(const Refused& what, bool at_once) {
  alarm(60);
  if (!at_once) work(nullptr);
  if (!refuse(what)) syscall(SYS_exit_group, 77);
  short_of_memory = what.memory;
  work(nullptr);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, work, nullptr) == 0) pthread_join(thread, nullptr);
  if (const pid_t child = fork(); child == 0) {
    work(nullptr);
    syscall(SYS_exit_group, 0);
  } else if (int status = 0; child > 0 && (waitpid(child, &status, 0) != child || status != 0)) {
    wrong("a forked child went wrong", 0);
  }
  free_all();
  syscall(SYS_exit_group, 0);
}

}  // namespace

int main() {
  int failed = 0;
  for (const Refused& what : kRefused) {
    for (const bool at_once : {true, false}) {
      const pid_t child = fork();
      if (child == 0) live_with(what, at_once);
      int status = -1;
      waitpid(child, &status, 0);
      if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        std::puts("this kernel filters no system calls");
        return 77;
      }
      if (status == 0) continue;
      std::fprintf(stderr, "%s refused %s: status %#x\n", what.name, at_once ? "at once" : "later",
                   static_cast<unsigned>(status));
      failed = 1;
    }
  }
  return failed;
}
