// SPDX-License-Identifier: Apache-2.0
#include "freezer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/clock.hpp"
#include "proc_file.hpp"
#include "process_tree.hpp"

namespace heapyard::trial {
namespace {

constexpr std::uint64_t kPatience = 100'000'000;  // ns; who has not stopped by then waits in the kernel
constexpr timespec kNap{0, 20'000};

// The state letter of proc(5); 0 where there is no such process.
char state_of(pid_t pid) {
  char text[512];
  if (!read_proc(pid, "stat", text, sizeof text)) return 0;
  const char* end = std::strrchr(text, ')');
  return end && end[1] == ' ' ? end[2] : 0;
}

bool is_gone(char state) { return state == 0 || state == 'Z' || state == 'X'; }
bool is_stopped(char state) { return state == 'T' || state == 't'; }

}  // namespace

Freezer::Freezer(const char* group) {
  if (group == nullptr) return;
  const std::string folder = group;
  control_ = open((folder + "/cgroup.freeze").c_str(), O_WRONLY | O_CLOEXEC);
  events_ = open((folder + "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC);
  if (control_ >= 0 && events_ < 0) {
    close(control_);
    control_ = -1;
  }
}

bool Freezer::freeze() {
  if (frozen_) return true;
  frozen_ = control_ >= 0 ? freeze_group() : freeze_by_signals();
  return frozen_;
}

void Freezer::thaw() {
  if (!frozen_) return;
  frozen_ = false;
  if (control_ >= 0) {
    if (write(control_, "0", 1) == 1) return;
  }
  for (const pid_t pid : stopped_) kill(pid, SIGCONT);
  stopped_.clear();
}

bool Freezer::freeze_group() {
  if (write(control_, "1", 1) != 1) return freeze_by_signals();
  const std::uint64_t until = monotonic_ns() + kPatience;
  do {
    char text[256];
    const ssize_t length = pread(events_, text, sizeof text - 1, 0);
    if (length <= 0) break;
    text[length] = '\0';
    if (std::strstr(text, "frozen 1")) break;
    pollfd changed{events_, POLLPRI, 0};
    poll(&changed, 1, 1);
  } while (monotonic_ns() < until);
  return true;
}

// Bound: patience; each further look is for processes that were forked since the last one, or have not stopped yet.
bool Freezer::freeze_by_signals() {
  stopped_.clear();
  const std::uint64_t until = monotonic_ns() + kPatience;
  for (;;) {
    pids_.clear();
    descendants(getpid(), pids_);
    bool still = true;
    for (const pid_t pid : pids_) {
      const char state = state_of(pid);
      if (is_gone(state)) continue;
      if (std::find(stopped_.begin(), stopped_.end(), pid) != stopped_.end()) {
        // D: a read, or a vfork whose child stands still; it stops before it runs again.
        still = still && (is_stopped(state) || state == 'D');
      } else if (!is_stopped(state)) {  // else by itself
        if (kill(pid, SIGSTOP) != 0 && errno == EPERM) {
          for (const pid_t mine : stopped_) kill(mine, SIGCONT);
          stopped_.clear();
          return false;
        }
        stopped_.push_back(pid);
        still = false;
      }
    }
    if (still || monotonic_ns() >= until) return true;
    nanosleep(&kNap, nullptr);
  }
}

}  // namespace heapyard::trial
