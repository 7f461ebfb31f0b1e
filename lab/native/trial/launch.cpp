// SPDX-License-Identifier: Apache-2.0
#include "launch.hpp"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/clock.hpp"
#include "base/fatal.hpp"
#include "base/mapping.hpp"

namespace heapyard::trial {
namespace {

int open_instruction_counter(pid_t pid) {
  perf_event_attr attributes{};
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.size = sizeof attributes;
  attributes.config = PERF_COUNT_HW_INSTRUCTIONS;
  attributes.disabled = 1;
  attributes.enable_on_exec = 1;
  attributes.inherit = 1;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, pid, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

// Puts `path` in the place of `descriptor`.
bool redirect(const char* path, int flags, int descriptor) {
  const int file = open(path, flags, 0644);
  if (file < 0 || dup2(file, descriptor) < 0) return false;
  if (file != descriptor) close(file);
  return true;
}

// Moves this process, and with it all that it will start, into the control group at `folder`.
bool join(const char* folder) {
  const int place = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int file = place < 0 ? -1 : openat(place, "cgroup.procs", O_WRONLY | O_CLOEXEC);
  if (place >= 0) close(place);
  if (file < 0) return false;
  const bool joined = write(file, "0", 1) == 1;
  const int error = errno;
  close(file);
  errno = error;
  return joined;
}

[[noreturn]] void become(const Request& request, const int (&ready)[2], Launched::Handover& handover) {
  const auto fail = [&](const char* what) __attribute__((noreturn)) {
    handover.error = errno;
    handover.what = what;
    _exit(127);
  };
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setsid();
  if (request.has_cpus && sched_setaffinity(0, sizeof request.cpus, &request.cpus) != 0) fail("set the CPUs");
  if (request.group && !join(request.group)) fail("join the control group for");
  if (request.no_huge_pages && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) fail("switch huge pages off");
  if (!redirect(request.input, O_RDONLY, STDIN_FILENO)) fail("open standard input");
  if (!redirect(request.output, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO)) fail("open standard output");
  if (!redirect(request.errors, O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO)) fail("open standard error");
  if (request.cwd && chdir(request.cwd) != 0) fail("enter the working directory");
  close(ready[1]);  // ours must not keep the pipe open
  char byte;
  ssize_t got;
  while ((got = read(ready[0], &byte, 1)) < 0 && errno == EINTR) {
  }
  if (got != 1) _exit(127);  // the launcher died before it could watch us
  const char* const path = request.command[0];
  if (request.argv0) request.command[0] = const_cast<char*>(request.argv0);
  handover.exec_ns = monotonic_ns();
  execv(path, request.command);
  fail("start");
}

}  // namespace

std::uint64_t instructions_of(const Launched& launched) {
  struct {
    std::uint64_t count, enabled, running;
  } found{};
  if (launched.counter < 0 || read(launched.counter, &found, sizeof found) != sizeof found) return 0;
  return found.enabled == found.running ? found.count : 0;  // shared with others, it would have to be guessed
}

Launched launch(const Request& request) {
  Launched launched;
  void* const shared = map_shared(sizeof(Launched::Handover));
  int ready[2], started[2];
  if (shared == nullptr || pipe2(ready, O_CLOEXEC) != 0 || pipe2(started, O_CLOEXEC) != 0)
    fatal(kExitMachine, "cannot prepare to fork: ", std::string_view(std::strerror(errno)));
  launched.handover = static_cast<Launched::Handover*>(shared);
  launched.pid = fork();
  if (launched.pid < 0) fatal(kExitMachine, "cannot fork: ", std::string_view(std::strerror(errno)));
  if (launched.pid == 0) become(request, ready, *launched.handover);
  launched.counter = open_instruction_counter(launched.pid);
  close(started[1]);  // the child's own is closed by exec
  launched.started = started[0];
  launched.ready = ready[1];
  launched.waiting = ready[0];
  return launched;
}

void release(Launched& launched) {
  if (write(launched.ready, "", 1) != 1) fatal(kExitMachine, "cannot start the program");
  close(launched.ready);
  close(launched.waiting);
  launched.ready = launched.waiting = -1;
}

}  // namespace heapyard::trial
