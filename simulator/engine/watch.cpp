// SPDX-License-Identifier: Apache-2.0
// A thread that has the turn may be held where the engine does not see it: in the kernel, or by QEMU, which for some
// steps (fork, a translation thrown away, an atomic that crosses words) waits until every other thread has left
// translated code. A watcher looks once a millisecond. It passes the turn on in the first case. In the second it lets
// the waiting threads run to the end of their blocks, one by one in the order of their turns, until QEMU goes on.
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>

#include "engine.hpp"

namespace heapyard::simulator {
namespace {

// Looks in a row after which a thread that sleeps in the kernel loses its turn: at once in a call that waits for others
// by its nature; in any other only when that is beyond doubt, for on a loaded machine all calls take their time.
int patience(std::int64_t call) {
  switch (call) {
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_pause:
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
    case SYS_flock:
    case SYS_fcntl:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_msgrcv:
    case SYS_msgsnd:
      return 2;
    default:
      return 500;
  }
}

constexpr timespec kLook{0, 1'000'000}, kCloseLook{0, 50'000};

bool is_asleep(pid_t thread) {
  char path[64], text[256];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return false;
  text[length] = 0;
  const char* const after_name = std::strrchr(text, ')');
  return after_name && after_name[1] == ' ' && after_name[2] == 'S';
}

}  // namespace

void Engine::watch() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's signals are its threads' alone
  std::thread([this] {
    const GuestThread* last = nullptr;
    std::uint64_t last_switches = 0;
    Ticks last_time = 0;
    const GuestThread* passing = nullptr;  // the last one that was let go
    int asleep = 0;
    while (true) {
      nanosleep(passing ? &kCloseLook : &kLook, nullptr);
      // Without the mutex, for which a thread might sleep: a second look decides.
      GuestThread* const holder = current_;
      const std::uint64_t switches = switches_;
      const Ticks time = holder ? *static_cast<volatile const Ticks*>(&holder->time) : 0;
      const bool moved = holder != last || switches != last_switches || time != last_time;
      last = holder, last_switches = switches, last_time = time;
      asleep = !moved && holder && holder->tid != 0 && holder->word != GuestThread::kGo && is_asleep(holder->tid)
                   ? asleep + 1
                   : 0;
      if (asleep == 0) passing = nullptr;
      if (asleep < 2 || (passing && (passing->word != GuestThread::kWait || !is_asleep(passing->tid)))) continue;

      const std::lock_guard lock(mutex_);
      if (current_ != holder || switches_ != switches) continue;
      if (!holder->in_kernel || holder->empties_code) {
        passing = let_one_go();
      } else if (asleep >= patience(holder->call.number)) {
        ++outside_;
        turns_.stop(holder->number, holder->time, Turns::State::kOutside);
        holder->horizon = 0;
        rouse(hand_over());
      }
    }
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

const GuestThread* Engine::let_one_go() {
  GuestThread* first = nullptr;
  for (const auto& thread : threads_)
    if (thread->waits_in_code && thread->word == GuestThread::kWait && (!first || thread->time < first->time))
      first = thread.get();
  if (!first) return nullptr;
  ++let_go_;
  first->waits_in_code = false;
  first->word = GuestThread::kPass;
  rouse(first);
  return first;
}

}  // namespace heapyard::simulator
