// SPDX-License-Identifier: Apache-2.0
// trial: launches one program, waits for it in the kernel, looks at its memory from outside, and writes what it cost as
// JSON.
//
// Why not from Python: exec folds the high-water mark of the forked parent's memory into the program's peak RSS, so the
// parent must be tiny; and a wait that polls rounds short times up. This process is static, single-threaded and about
// one MiB. The tree below it is its own: it is the subreaper of every orphan, and nothing of the tree outlives it.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/clock.hpp"
#include "base/fatal.hpp"
#include "base/json.hpp"
#include "base/options.hpp"
#include "freezer.hpp"
#include "launch.hpp"
#include "process_tree.hpp"
#include "request.hpp"
#include "sampler.hpp"
#include "turns.hpp"

namespace heapyard::trial {
namespace {

constexpr std::uint64_t kInsist = 5'000'000'000;  // ns after SIGKILL: what still runs is stuck, or not ours to kill
constexpr std::uint64_t kAgain = 100'000'000;     // ns between two rounds of SIGKILL

double seconds_of(const char* text, const char* option) {
  double value = 0;
  const char* const end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end || !(value >= 0 && value < 1e9))
    fatal(kExitUsage, "option ", std::string_view(option), " must be seconds, not '", std::string_view(text), "'");
  return value;
}

template <class Number>
bool number_of(const char* text, Number& number) {
  const char* const end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, number);
  return parsed.ec == std::errc{} && parsed.ptr == end;
}

void cpus_of(std::string_view list, cpu_set_t& set) {
  CPU_ZERO(&set);
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view word = list.substr(0, comma);
    unsigned cpu = 0;
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), cpu);
    if (parsed.ec != std::errc{} || parsed.ptr != word.data() + word.size() || cpu >= CPU_SETSIZE)
      fatal(kExitUsage, "option --cpus must be a list such as 0,1");
    CPU_SET(cpu, &set);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
}

Request parse(int argc, char** argv) {
  Request r;
  const char *timeout = nullptr, *grace = nullptr, *interval = nullptr, *cpus = nullptr, *parent = nullptr,
             *turns = nullptr;
  bool no_sampling = false;
  const Option options[] = {
      {0, "argv0", "NAME", Word{&r.argv0}, "name the program is started under"},
      {0, "cwd", "DIR", Word{&r.cwd}, "its working directory"},
      {0, "stdin", "FILE", Word{&r.input}, "its standard input"},
      {0, "stdout", "FILE", Word{&r.output}, "its standard output"},
      {0, "stderr", "FILE", Word{&r.errors}, "its standard error"},
      {0, "json", "FILE", Word{&r.json}, "where the result goes ('-': standard output)"},
      {0, "library", "PATH", Word{&r.library}, "say of every process whether this file was seen mapped"},
      {0, "group", "FOLDER", Word{&r.group}, "the control group it runs in, as a folder of cgroup version 2"},
      {0, "timeout", "SECONDS", Word{&timeout}, "end the program after this time"},
      {0, "grace", "SECONDS", Word{&grace}, "time between SIGTERM and SIGKILL [default 2]"},
      {0, "interval", "SECONDS", Word{&interval},
       "time between memory samples, stretched to cost under 1 % [default 0.01]"},
      {0, "no-sampling", "", Flag{&no_sampling}, "do not look at memory at all"},
      {0, "cpus", "LIST", Word{&cpus}, "CPUs the program may use, such as 0,1; the launcher takes others if it can"},
      {0, "parent", "PID", Word{&parent}, "do nothing unless this process is still there, as our parent"},
      {0, "turns", "FD", Word{&turns}, "run in the slices that are given through this socket (slices)"},
      {0, "no-huge-pages", "", Flag{&r.no_huge_pages}, "switch transparent huge pages off for the program"},
  };
  const Usage usage{
      "trial", "Launches one program and measures it and everything it starts. Part of the lab; see docs/trial.md.",
      "  trial --json result.json --timeout 60 -- /usr/bin/gawk -f words.awk corpus.txt\n"};
  const int first = parse_options(argc, argv, options, usage);
  if (first >= argc) fatal(kExitUsage, "no command given; see --help");
  r.command = argv + first;
  if (timeout) r.timeout = seconds_of(timeout, "--timeout");
  if (grace) r.grace = seconds_of(grace, "--grace");
  if (interval) r.interval = seconds_of(interval, "--interval");
  if (parent && !(number_of(parent, r.parent) && r.parent > 0))
    fatal(kExitUsage, "option --parent must be a process id");
  if (turns && !(number_of(turns, r.turns) && r.turns > 2)) fatal(kExitUsage, "option --turns must be a descriptor");
  if (cpus) {
    r.has_cpus = true;
    cpus_of(cpus, r.cpus);
  }
  r.sample = !no_sampling;
  return r;
}

// Resources of the root and, added to it, of orphans that nobody else waited for.
struct Usage {
  double user = 0, system = 0;
  std::int64_t minor_faults = 0, major_faults = 0, voluntary = 0, involuntary = 0, peak_rss = 0;

  void add(const rusage& u) {
    user += static_cast<double>(u.ru_utime.tv_sec) + static_cast<double>(u.ru_utime.tv_usec) * 1e-6;
    system += static_cast<double>(u.ru_stime.tv_sec) + static_cast<double>(u.ru_stime.tv_usec) * 1e-6;
    minor_faults += u.ru_minflt;
    major_faults += u.ru_majflt;
    voluntary += u.ru_nvcsw;
    involuntary += u.ru_nivcsw;
    peak_rss = std::max<std::int64_t>(peak_rss, u.ru_maxrss * 1024);
  }
};

bool is_ignored(int signal) {
  struct sigaction now;
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

enum class Ending { kExited, kTimeout, kInterrupted };

class Trial {
 public:
  explicit Trial(const Request& request) : request_(request), turns_(request.turns), freezer_(request.group) {}

  void run() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGCHLD, SIGTERM}) sigaddset(&signals, signal);
    for (const int signal : {SIGINT, SIGHUP})  // under nohup, or in the background, they mean nothing
      if (!is_ignored(signal)) sigaddset(&signals, signal);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    struct sigaction children{};
    children.sa_flags = SA_NOCLDSTOP;  // those that we stop are no news
    sigaction(SIGCHLD, &children, nullptr);
    signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (request_.parent && getppid() != request_.parent) fatal(kExitMachine, "the process that called for it is gone");
    if (signals_ < 0) fatal(kExitMachine, "cannot watch for signals");

    launched_ = launch(request_);
    root_ = static_cast<int>(syscall(SYS_pidfd_open, launched_.pid, 0));
    if (root_ < 0) fatal(kExitMachine, "cannot watch the program: ", std::string_view(std::strerror(errno)));
    if (request_.has_cpus) make_room();
    Sampler sampler(request_);
    if (turns_.taken()) {
      if (turns_.tell_done())
        take_turn();
      else
        give_up(Ending::kInterrupted);
    } else {
      begin();
    }
    wait_for_root(sampler);
    end_stragglers();
    turns_.leave();
    sampler.finish(usage_.peak_rss);
    if (!report(sampler)) _exit(kExitMachine);
  }

 private:
  // To CPUs the program does not use, where there are any: our looks then take none of its time.
  void make_room() const {
    cpu_set_t ours;
    if (sched_getaffinity(0, sizeof ours, &ours) != 0) return;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &request_.cpus)) CPU_CLR(cpu, &ours);
    }
    if (CPU_COUNT(&ours) > 0) sched_setaffinity(0, sizeof ours, &ours);
  }

  // The program's time begins.
  void begin() {
    begun_ = true;
    if (request_.timeout > 0) act_at_ = clock_.now_ns() + static_cast<std::uint64_t>(request_.timeout * 1e9);
    release(launched_);
  }

  // Notes when exec was called, before the next pause changes what the program's clock makes of it.
  void note_start() {
    if (exec_ns_ == 0 && launched_.handover->exec_ns != 0) exec_ns_ = launched_.handover->exec_ns - clock_.paused_ns();
  }

  // Waits, the program standing still, for its next slice, and lets it go on. Whoever gives turns may be gone, or may
  // want the end: then the program is on its way to it when this returns.
  void take_turn() {
    while (turns_.taken()) {
      pollfd watched[] = {{turns_.socket(), POLLIN, 0}, {signals_, POLLIN, 0}};
      if (ppoll(watched, 2, nullptr, nullptr) <= 0) continue;
      if (watched[1].revents) heed_signals();
      if (!turns_.taken() || !watched[0].revents) continue;
      const std::uint64_t length = turns_.next();
      if (length == 0) return give_up(Ending::kInterrupted);
      clock_.go_on();
      freezer_.thaw();
      slice_end_ns_ = clock_.now_ns() + length;
      ++slices_;
      if (!begun_) begin();
      return;
    }
  }

  // The program stands still, and is looked at if it is time for that.
  void end_turn(Sampler& sampler) {
    const bool still = freezer_.freeze();
    note_start();
    clock_.pause();
    slice_end_ns_ = UINT64_MAX;
    if (!still) {
      unstoppable_ = true;
      return give_up(Ending::kInterrupted);
    }
    if (request_.sample && clock_.now_ns() >= sampler.next_ns()) sampler.look(clock_.now_ns());
    if (!turns_.tell_done()) return give_up(Ending::kInterrupted);
    take_turn();
  }

  void wait_for_root(Sampler& sampler) {
    while (end_ns_ == 0) {
      // Within slices it is looked at while it stands still.
      const bool sampling = request_.sample && ending_ == Ending::kExited && !turns_.taken();
      const std::uint64_t wake = std::min({act_at_, slice_end_ns_, sampling ? sampler.next_ns() : UINT64_MAX});
      const std::uint64_t now = clock_.now_ns();
      const std::uint64_t left = wake > now ? wake - now : 0;
      const timespec wait{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
      pollfd watched[] = {{root_, POLLIN, 0}, {signals_, POLLIN, 0}, {launched_.started, 0, 0}};
      const bool event = ppoll(watched, 3, wake == UINT64_MAX ? nullptr : &wait, nullptr) > 0;
      const std::uint64_t woke = clock_.now_ns();
      if (event && watched[0].revents) {
        end_ns_ = woke;
        note_start();
        reap_root();
        reap_orphans();
        return;
      }
      if (event && watched[2].revents) {
        close(launched_.started);
        launched_.started = -1;  // poll passes it over from now on
        note_start();
        sampler.begin(exec_ns_, woke);
      }
      if (event && watched[1].revents) heed_signals();
      if (woke >= act_at_)
        press(woke);
      else if (woke >= slice_end_ns_)
        end_turn(sampler);
      else if (sampling && woke >= sampler.next_ns())
        sampler.look(woke);
    }
  }

  void heed_signals() {
    signalfd_siginfo signal;
    while (read(signals_, &signal, sizeof signal) == sizeof signal) {
      if (signal.ssi_signo != SIGCHLD && ending_ == Ending::kExited) give_up(Ending::kInterrupted);
    }
    reap_orphans();
  }

  // Asks the whole tree to end, which takes no more turns.
  void give_up(Ending why) {
    ending_ = why;
    signal_descendants(SIGTERM);
    turns_.leave();
    slice_end_ns_ = UINT64_MAX;
    clock_.go_on();
    freezer_.thaw();
    act_at_ = clock_.now_ns() + static_cast<std::uint64_t>(request_.grace * 1e9);
  }

  // A limit has passed: first the program's, then that of the polite request, then that of our patience.
  void press(std::uint64_t now) {
    if (ending_ == Ending::kExited) return give_up(Ending::kTimeout);
    if (insist_until_ == 0) insist_until_ = now + kInsist;
    if (now >= insist_until_) end_ns_ = now;
    signal_descendants(SIGKILL);
    act_at_ = now + kAgain;
  }

  void reap_root() {
    rusage usage{};
    while (wait4(launched_.pid, &status_, 0, &usage) < 0 && errno == EINTR) {
    }
    usage_.add(usage);
  }

  // Orphans that came to us and have ended; the root is left for its own wait. Bound: processes that have ended.
  void reap_orphans() {
    for (;;) {
      siginfo_t ended{};
      if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0 ||
          ended.si_pid == launched_.pid)
        return;
      rusage usage{};
      if (wait4(ended.si_pid, nullptr, 0, &usage) == ended.si_pid) usage_.add(usage);
    }
  }

  // What still runs when the root has ended does not belong to the measurement: it is killed, and counted.
  void end_stragglers() {
    if (insist_until_ == 0) insist_until_ = monotonic_ns() + kInsist;
    for (;;) {
      signal_descendants(SIGKILL);
      rusage usage{};
      pid_t ended;
      while ((ended = wait4(-1, nullptr, WNOHANG, &usage)) > 0) {
        ++stragglers_;
        usage_.add(usage);
      }
      if (ended < 0 || monotonic_ns() >= insist_until_) return;
      pollfd watched{signals_, POLLIN, 0};
      poll(&watched, 1, kAgain / 1'000'000);
      signalfd_siginfo signal;
      while (read(signals_, &signal, sizeof signal) == sizeof signal) {
      }
    }
  }

  bool report(const Sampler& sampler) {
    Text text;
    Json json(text);
    const Launched::Handover& handover = *launched_.handover;
    json.open('{');
    if (handover.error) {
      json.field("status", "cannot start").field("error", handover.error).field("what", handover.what);
    } else {
      json.field("status", unstoppable_                      ? "unstoppable"
                           : ending_ == Ending::kTimeout     ? "timeout"
                           : ending_ == Ending::kInterrupted ? "interrupted"
                                                             : "exited");
    }
    if (WIFEXITED(status_)) json.field("exit_code", WEXITSTATUS(status_));
    if (WIFSIGNALED(status_)) json.field("signal", WTERMSIG(status_));
    json.field("pid", launched_.pid);
    json.field("wall", static_cast<double>(end_ns_ - exec_ns_) * 1e-9);
    if (slices_ != 0) json.field("slices", slices_);
    json.field("user", usage_.user).field("sys", usage_.system).field("peak_rss", usage_.peak_rss);
    const Charge& charge = sampler.charge();
    json.field("charged", charge.peak()).field("charged_error", charge.error());
    json.field("page_tables", charge.page_tables());
    if (const ControlGroup& group = sampler.group(); group.known()) {
      json.field("group_peak", group.peak()).field("group_charged", group.charged());
      json.field("group_error", group.error());
    }
    json.field("minor_faults", usage_.minor_faults).field("major_faults", usage_.major_faults);
    json.field("voluntary_switches", usage_.voluntary).field("involuntary_switches", usage_.involuntary);
    json.field("stragglers", stragglers_).field("sampling_cost", sampler.cost_seconds());
    if (const std::uint64_t instructions = instructions_of(launched_)) json.field("instructions", instructions);
    json.key("samples").open('[');
    for (const Sample& s : sampler.samples()) json.open('[').value(s.at).value(s.rss).value(s.pss).close(']');
    json.close(']').key("processes").open('[');
    for (const Process& p : sampler.processes()) {
      json.open('{')
          .field("pid", p.pid)
          .field("name", std::string_view(p.name))
          .field("executable", std::string_view(p.executable))
          .field("peak_rss", p.peak_rss)
          .field("looks", p.looks);
      json.field("maps", p.maps)
          .field("mapped", p.mapped)
          .field("has_libc", p.has_libc)
          .field("mappings_seen_at",
                 p.maps_seen_ns ? static_cast<double>(p.maps_seen_ns - p.first_seen_ns) * 1e-9 : 0.0)
          .close('}');
    }
    json.close(']').close('}');
    text << '\n';
    return write_file(request_.json, text);
  }

  const Request& request_;
  Launched launched_;
  int root_ = -1, signals_ = -1;
  int status_ = -1;  // of no process, until the root is reaped
  Ending ending_ = Ending::kExited;
  Turns turns_;
  Freezer freezer_;
  ProgramClock clock_;  // what the times below are of
  bool begun_ = false, unstoppable_ = false;
  std::int64_t slices_ = 0;
  std::uint64_t exec_ns_ = 0, end_ns_ = 0, slice_end_ns_ = UINT64_MAX;
  std::uint64_t act_at_ = UINT64_MAX;  // when patience ends next
  std::uint64_t insist_until_ = 0;
  std::int64_t stragglers_ = 0;
  Usage usage_;
};

}  // namespace
}  // namespace heapyard::trial

int main(int argc, char** argv) {
  const heapyard::trial::Request request = heapyard::trial::parse(argc, argv);
  heapyard::trial::Trial(request).run();
  return 0;
}
