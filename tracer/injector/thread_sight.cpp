// SPDX-License-Identifier: Apache-2.0
#include "tracer/injector/thread_sight.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "tracer/injector/interrupted_call.hpp"
#include "tracer/injector/status_field.hpp"

namespace heapyard::injector {
namespace {

constexpr std::uint64_t kWithTimeLimit = 8;  // IORING_ENTER_EXT_ARG

// Calls that return early, with what they have done so far, when the thread is stopped: a program may take a short
// write for an error.
constexpr long kCutShort[] = {SYS_write,    SYS_writev,  SYS_pwrite64, SYS_pwritev,         SYS_pwritev2,
                              SYS_sendto,   SYS_sendmsg, SYS_sendmmsg, SYS_sendfile,        SYS_splice,
                              SYS_vmsplice, SYS_tee,     SYS_recvmmsg, SYS_copy_file_range, SYS_getrandom};

bool cut_short(const ThreadSight& sight) {
  if (std::find(std::begin(kCutShort), std::end(kCutShort), sight.call) != std::end(kCutShort)) return true;
  if (sight.call == SYS_recvfrom) return (sight.args[3] & MSG_WAITALL) != 0;
  if (sight.call == SYS_recvmsg) return (sight.args[2] & MSG_WAITALL) != 0;
  return sight.call == SYS_io_uring_enter && sight.args[1] != 0;  // it submits, too
}

bool has_time_limit(const ThreadSight& sight) {
  switch (sight.call) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return static_cast<int>(sight.args[3]) >= 0;
    case SYS_epoll_pwait2:
    case SYS_semtimedop:
      return sight.args[3] != 0;
    case SYS_rt_sigtimedwait:
      return sight.args[2] != 0;
    case SYS_io_getevents:
      return sight.args[4] != 0;
    case SYS_io_uring_enter:
      return (sight.args[3] & kWithTimeLimit) != 0;
    default:
      return false;
  }
}

// These restart by themselves unless a socket has a time limit, which is rare.
bool restarts(long call) {
  constexpr long kUsually[] = {SYS_read, SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_accept, SYS_accept4, SYS_connect};
  return !returns_eintr(call) || std::find(std::begin(kUsually), std::end(kUsually), call) != std::end(kUsually);
}

}  // namespace

Suited ThreadSight::suited() const {
  if (state == 'R' || (state == 'S' && call < 0)) return Suited::kRuns;
  if (state != 'S' || cut_short(*this)) return Suited::kNot;
  if (restarts(call)) return Suited::kRestarts;
  return has_time_limit(*this) ? Suited::kWaitsLimited : Suited::kWaits;
}

ThreadSight sight_of(pid_t process, pid_t thread) {
  ThreadSight sight;
  sight.thread = thread;
  const std::string folder = "/proc/" + std::to_string(process) + "/task/" + std::to_string(thread);
  std::string line;
  if (std::ifstream file(folder + "/stat"); std::getline(file, line))
    if (const std::size_t at = line.rfind(") "); at != std::string::npos && at + 2 < line.size())
      sight.state = line[at + 2];
  if (std::ifstream file(folder + "/syscall"); std::getline(file, line) && line.rfind("running", 0) != 0) {
    char* at = line.data();
    sight.call = std::strtol(at, &at, 10);
    for (std::uint64_t& word : sight.args) word = std::strtoull(at, &at, 16);
  }
  sight.switches = status_field(process, thread, "voluntary_ctxt_switches:").value_or(0);
  return sight;
}

std::vector<pid_t> threads_of(pid_t process) {
  std::vector<pid_t> threads;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", error))
    threads.push_back(static_cast<pid_t>(std::atoi(entry.path().filename().c_str())));
  return threads;
}

std::vector<ThreadSight> suited_threads(pid_t process) {
  std::vector<ThreadSight> threads;
  for (const pid_t thread : threads_of(process))
    if (const ThreadSight sight = sight_of(process, thread); sight.suited() != Suited::kNot) threads.push_back(sight);
  // Of equals the one with the lower number: the choice does not hang on the order of a folder.
  std::sort(threads.begin(), threads.end(), [](const ThreadSight& one, const ThreadSight& other) {
    return std::pair(one.suited(), one.thread) < std::pair(other.suited(), other.thread);
  });
  return threads;
}

}  // namespace heapyard::injector
