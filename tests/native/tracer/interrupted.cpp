// SPDX-License-Identifier: Apache-2.0
// Waits in one kind of system call, over and over, in its only thread; a child process ends each wait. No answer may
// differ from what it would be alone: no EINTR, nothing early, nothing lost.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <atomic>
#include <string_view>

#include "beside.h"

namespace {

int from_child, to_parent;  // a pipe; numbers come through it

long open_pipe() {
  int ends[2];
  right(pipe(ends) == 0, "pipe");
  from_child = ends[0], to_parent = ends[1];
  return 0;
}

pid_t child_that_writes() {
  const pid_t child =
      in_child([](std::uint64_t turn) { right(write(to_parent, &turn, sizeof turn) == 8, "child's write"); }, [] {});
  close(to_parent);
  return child;
}

// Reads the number `expected`; false at the end.
bool take(std::uint64_t expected) {
  std::uint64_t got;
  const ssize_t bytes = read(from_child, &got, sizeof got);
  if (bytes == 0) return false;
  right(bytes == sizeof got, "read", bytes);
  right(got == expected, "order of what was read", static_cast<long>(got));
  return true;
}

// `wait` returns when there is something to be read.
template <class Wait>
void numbers_after(Wait wait) {
  open_pipe();
  const pid_t child = child_that_writes();
  begin();
  std::uint64_t next = 0;
  do wait();
  while (take(next) && ++next);
  join_child(child);
  end(static_cast<long>(next));
}

void in_read() {
  numbers_after([] {});
}

void in_poll() {
  numbers_after([] {
    pollfd input{from_child, POLLIN, 0};
    const int found = poll(&input, 1, -1);
    right(found == 1, "poll", found);
  });
}

void in_poll_limited() {
  numbers_after([] {
    pollfd input{from_child, POLLIN, 0};
    for (int found = 0; found == 0;) {
      const std::int64_t began = nanoseconds();
      found = poll(&input, 1, 2);
      right(found >= 0, "poll", found);
      right(found == 1 || nanoseconds() - began >= 2'000'000, "poll's time", nanoseconds() - began);
    }
  });
}

void in_select() {
  numbers_after([] {
    fd_set inputs;
    FD_ZERO(&inputs);
    FD_SET(from_child, &inputs);
    const int found = select(from_child + 1, &inputs, nullptr, nullptr, nullptr);
    right(found == 1, "select", found);
  });
}

int watching() {
  static const int epoll = [] {
    const int made = epoll_create1(0);
    epoll_event event{EPOLLIN, {}};
    right(epoll_ctl(made, EPOLL_CTL_ADD, from_child, &event) == 0, "epoll_ctl");
    return made;
  }();
  return epoll;
}

void in_epoll() {
  numbers_after([] {
    epoll_event event;
    const int found = epoll_wait(watching(), &event, 1, -1);
    right(found == 1, "epoll_wait", found);
  });
}

void in_epoll_limited() {
  numbers_after([] {
    epoll_event event;
    for (int found = 0; found == 0;) {
      const std::int64_t began = nanoseconds();
      found = epoll_wait(watching(), &event, 1, 2);
      right(found >= 0, "epoll_wait", found);
      right(found == 1 || nanoseconds() - began >= 1'900'000, "epoll_wait's time", nanoseconds() - began);
    }
  });
}

void in_nanosleep() {
  begin();
  long answers = 0;
  for (; !asked_to_end(); ++answers) {
    const timespec length{0, 2'000'000};
    const std::int64_t began = nanoseconds();
    const int got = nanosleep(&length, nullptr);
    right(got == 0, "nanosleep", got);
    right(nanoseconds() - began >= length.tv_nsec, "nanosleep's time", nanoseconds() - began);
  }
  end(answers);
}

void in_clock_nanosleep() {
  begin();
  long answers = 0;
  for (; !asked_to_end(); ++answers) {
    const std::int64_t until = nanoseconds() + 2'000'000;
    const timespec at{until / 1'000'000'000, until % 1'000'000'000};
    const int got = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
    right(got == 0, "clock_nanosleep", got);
    right(nanoseconds() >= until, "clock_nanosleep's time", nanoseconds() - until);
  }
  end(answers);
}

struct Shared {
  std::atomic<std::uint32_t> turn{0}, over{0};
};

Shared* shared() {
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  right(memory != MAP_FAILED, "mmap");
  return new (memory) Shared;
}

void in_futex(bool limited) {
  Shared* both = shared();
  const auto wake = [both] { syscall(SYS_futex, &both->turn, FUTEX_WAKE, 1, nullptr, nullptr, 0); };
  const pid_t child =
      in_child([=](std::uint64_t) { ++both->turn, wake(); }, [=] { both->over = 1, ++both->turn, wake(); });
  begin();
  long answers = 0;
  for (std::uint32_t seen = 0; both->over == 0; seen = both->turn, ++answers) {
    const timespec length{0, 700'000};
    const std::int64_t began = nanoseconds();
    const long got = syscall(SYS_futex, &both->turn, FUTEX_WAIT, seen, limited ? &length : nullptr, nullptr, 0);
    right(got == 0 || errno == EAGAIN || (limited && errno == ETIMEDOUT), "futex", got);
    right(got == 0 || errno != ETIMEDOUT || nanoseconds() - began >= length.tv_nsec, "futex's time");
  }
  join_child(child);
  end(answers);
}

void in_wait() {
  begin();
  long answers = 0;
  for (; !asked_to_end(); ++answers) {
    const int status = static_cast<int>(answers % 200);
    const pid_t child = fork();
    if (child == 0) {
      pause_for(2000);
      std::_Exit(status);
    }
    int told;
    const pid_t got = waitpid(child, &told, 0);
    right(got == child && WIFEXITED(told) && WEXITSTATUS(told) == status, "waitpid", got);
  }
  end(answers);
}

void in_semop() {
  const int semaphore = semget(IPC_PRIVATE, 1, 0600);
  if (semaphore < 0) lacking("System V semaphores");
  const auto change = [=](short by) {
    sembuf change{0, by, 0};
    return semop(semaphore, &change, 1);
  };
  Shared* both = shared();
  const pid_t child = in_child([=](std::uint64_t) { ++both->turn, change(1); }, [=] { both->over = 1, change(1); });
  begin();
  long answers = 0;
  for (; both->over == 0; ++answers) {
    const int got = change(-1);
    right(got == 0, "semop", got);
  }
  join_child(child);
  semctl(semaphore, 0, IPC_RMID);
  end(answers);
}

// A signal per turn, queued with its number: none may be lost, none taken twice.
void in_sigwaitinfo() {
  sigset_t some;
  sigemptyset(&some);
  sigaddset(&some, SIGRTMIN);
  sigprocmask(SIG_BLOCK, &some, nullptr);
  const pid_t child = child_that_signals();
  begin();
  int next = 0;
  for (;; ++next) {
    siginfo_t info;
    const int got = sigwaitinfo(&some, &info);
    right(got == SIGRTMIN, "sigwaitinfo", got);
    if (info.si_value.sival_int == -1) break;
    right(info.si_value.sival_int == next, "order of signals", info.si_value.sival_int);
  }
  join_child(child);
  end(next);
}

volatile std::sig_atomic_t handled = 0, handled_last = 0;

void in_sigsuspend() {
  struct sigaction action{};
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    if (info->si_value.sival_int == -1)
      handled_last = 1;
    else if (info->si_value.sival_int != handled)
      handled_last = 2;
    else
      handled = handled + 1;
  };
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGRTMIN, &action, nullptr);
  sigset_t some, before;
  sigemptyset(&some);
  sigaddset(&some, SIGRTMIN);
  sigprocmask(SIG_BLOCK, &some, &before);
  const pid_t child = child_that_signals();
  begin();
  for (int expected = 0; handled_last == 0;) {
    const int got = sigsuspend(&before);
    right(got == -1 && errno == EINTR, "sigsuspend", got);
    right(handled > expected || handled_last != 0, "sigsuspend returned without a signal");
    expected = handled;
  }
  right(handled_last == 1, "order of signals");
  join_child(child);
  end(handled);
}

void in_recv_limited() {
  int ends[2];
  right(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  from_child = ends[0], to_parent = ends[1];
  const timeval length{0, 2000};
  setsockopt(from_child, SOL_SOCKET, SO_RCVTIMEO, &length, sizeof length);
  const pid_t child = child_that_writes();
  begin();
  std::uint64_t next = 0;
  for (;;) {
    std::uint64_t got;
    const ssize_t bytes = recv(from_child, &got, sizeof got, 0);
    if (bytes == 0) break;
    if (bytes < 0 && errno == EAGAIN) continue;
    right(bytes == sizeof got, "recv", bytes);
    right(got == next++, "order of what was received", static_cast<long>(got));
  }
  join_child(child);
  end(static_cast<long>(next));
}

void in_io_getevents() {
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, 8, &context) != 0) lacking("asynchronous input and output");
  open_pipe();
  const pid_t child = child_that_writes();
  begin();
  std::uint64_t next = 0;
  for (bool over = false; !over;) {
    iocb wanted{};
    wanted.aio_lio_opcode = IOCB_CMD_POLL;
    wanted.aio_fildes = static_cast<std::uint32_t>(from_child);
    wanted.aio_buf = POLLIN;
    iocb* all[] = {&wanted};
    right(syscall(SYS_io_submit, context, 1, all) == 1, "io_submit");
    io_event event;
    const long got = syscall(SYS_io_getevents, context, 1, 1, &event, nullptr);
    right(got == 1, "io_getevents", got);
    over = !take(next);
    ++next;
  }
  join_child(child);
  end(static_cast<long>(next) - 1);
}

// One entry at a time, by the bare system calls: submitted by one call, waited for by another.
struct Ring {
  int file;
  io_uring_params known{};
  char *submission, *completion;
  io_uring_sqe* entries;

  Ring() {
    file = static_cast<int>(syscall(SYS_io_uring_setup, 4, &known));
    if (file < 0) lacking("io_uring");
    const auto map = [&](std::size_t bytes, std::uint64_t what) {
      void* memory =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, static_cast<off_t>(what));
      right(memory != MAP_FAILED, "mmap of io_uring");
      return static_cast<char*>(memory);
    };
    submission = map(known.sq_off.array + known.sq_entries * 4, IORING_OFF_SQ_RING);
    completion = map(known.cq_off.cqes + known.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
    entries = reinterpret_cast<io_uring_sqe*>(map(known.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
  }
  std::uint32_t& at(char* ring, std::uint32_t offset) { return *reinterpret_cast<std::uint32_t*>(ring + offset); }

  void submit_read(int from, void* to, unsigned bytes) {
    const std::uint32_t tail = at(submission, known.sq_off.tail), index = tail & at(submission, known.sq_off.ring_mask);
    io_uring_sqe& entry = entries[index];
    std::memset(&entry, 0, sizeof entry);
    entry.opcode = IORING_OP_READ;
    entry.fd = from;
    entry.addr = reinterpret_cast<std::uint64_t>(to);
    entry.len = bytes;
    at(submission, known.sq_off.array + index * 4) = index;
    std::atomic_ref(at(submission, known.sq_off.tail)).store(tail + 1, std::memory_order_release);
    const long got = syscall(SYS_io_uring_enter, file, 1, 0, 0, nullptr, 0);
    right(got == 1, "io_uring_enter to submit", got);
  }
  int wait() {
    const long got = syscall(SYS_io_uring_enter, file, 0, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
    right(got == 0, "io_uring_enter to wait", got);
    const std::uint32_t head = at(completion, known.cq_off.head);
    right(std::atomic_ref(at(completion, known.cq_off.tail)).load(std::memory_order_acquire) != head,
          "io_uring_enter returned with nothing");
    auto* done = reinterpret_cast<io_uring_cqe*>(completion + known.cq_off.cqes);
    const int result = done[head & at(completion, known.cq_off.ring_mask)].res;
    std::atomic_ref(at(completion, known.cq_off.head)).store(head + 1, std::memory_order_release);
    return result;
  }
};

void in_io_uring() {
  Ring ring;
  open_pipe();
  const pid_t child = child_that_writes();
  begin();
  std::uint64_t next = 0, got;
  for (;; ++next) {
    ring.submit_read(from_child, &got, sizeof got);
    const int bytes = ring.wait();
    if (bytes == 0) break;
    right(bytes == sizeof got, "what io_uring read", bytes);
    right(got == next, "order of what io_uring read", static_cast<long>(got));
  }
  join_child(child);
  end(static_cast<long>(next));
}

constexpr struct {
  std::string_view name;
  void (*run)();
} kWays[] = {
    {"read", in_read},
    {"poll", in_poll},
    {"poll-limited", in_poll_limited},
    {"select", in_select},
    {"epoll", in_epoll},
    {"epoll-limited", in_epoll_limited},
    {"nanosleep", in_nanosleep},
    {"clock-nanosleep", in_clock_nanosleep},
    {"futex", [] { in_futex(false); }},
    {"futex-limited", [] { in_futex(true); }},
    {"wait", in_wait},
    {"semop", in_semop},
    {"sigwaitinfo", in_sigwaitinfo},
    {"sigsuspend", in_sigsuspend},
    {"recv-limited", in_recv_limited},
    {"io_getevents", in_io_getevents},
    {"io_uring", in_io_uring},
};

}  // namespace

int main(int count, char** words) {
  for (const auto& way : kWays)
    if (count == 2 && way.name == words[1]) return way.run(), 0;
  for (const auto& way : kWays) std::printf("%s\n", way.name.data());
  return 2;
}
