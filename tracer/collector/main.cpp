// SPDX-License-Identifier: Apache-2.0
// The collector: accounts for the memory of every program that hands it its shared memory, and writes a trace of each.
//
//   HEAPYARD_TOKEN=... collector --socket PATH --folder FOLDER [--limit BYTES] [--never-step] [--attached]
//
// Whoever knows the token may hand memory over: root's collector listens to all users, for a daemon's children give up
// its rights, often before they allocate.
//
// It ends when its standard input has ended and no traced program is left (--attached: even if one is), or by SIGTERM;
// SIGINT is its parent's matter. It prints "ready" once it listens. A program that dies, by whatever signal, leaves its
// shared memory, which is read to its end.
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tracer/collector/monotonic.hpp"
#include "tracer/collector/process.hpp"
#include "tracer/collector/tasks.hpp"
#include "tracer/collector/wait.hpp"
#include "tracer/session/peer.hpp"
#include "tracer/session/untraced.hpp"

namespace {

using heapyard::tracer::FileBudget;
using heapyard::tracer::kProgramPath;
using heapyard::tracer::Limits;
using heapyard::tracer::monotonic;
using heapyard::tracer::Process;
using heapyard::tracer::Untraced;

constexpr std::uint64_t kTick = 10'000'000;  // nanoseconds
constexpr std::size_t kRemembered = 10'000;  // processes that are not traced
constexpr int kWelcomes = 8, kQueue = 512;   // programs between two looks at all of them; that wait at most

int listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return -1;
  std::strcpy(address.sun_path, path.c_str());
  const int listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listening < 0 || bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      (geteuid() == 0 && chmod(path.c_str(), 0666) != 0) || listen(listening, kQueue) != 0)
    return -1;
  return listening;
}

// What a program sends through a new connection: its memory, or why there is none. Neither: something else came.
struct Sent {
  int memory = -1;
  std::optional<Untraced> untraced;
  std::string program;  // of an untraced one, without its folder
};

Sent receive(int connection, const std::string& token) {
  const timeval patience{1, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char said[64 + kProgramPath];
  iovec data{said, sizeof said};
  Sent sent;
  int& memory = sent.memory;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof memory)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof memory);  // room for one file, where there might be two
  const ssize_t bytes = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  if (bytes <= 0) return {};
  const cmsghdr* rights = CMSG_FIRSTHDR(&message);
  if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS) std::memcpy(&memory, CMSG_DATA(rights), sizeof memory);
  std::string_view text(said, static_cast<std::size_t>(bytes));
  if (!text.starts_with(token)) {
    if (memory >= 0) close(memory);
    return {};
  }
  text.remove_prefix(token.size());
  if (memory < 0 && !text.empty()) {
    sent.untraced = static_cast<Untraced>(text.front());
    sent.program = text.size() > 1 ? text.substr(text.rfind('/') + 1) : "a program";
  }
  return sent;
}

class Collector {
 public:
  Collector(int listening, int signals, std::string token, std::string folder, const Limits& limits)
      : listening_(listening),
        signals_(signals),
        token_(std::move(token)),
        folder_(std::move(folder)),
        limits_(limits) {}

  int run() {
    std::uint64_t next_tick = monotonic() + kTick;
    bool parent = true, stopped = false, more = false;
    while (!stopped && (parent || more || !processes_.empty())) {
      const bool slept = !more && !processes_.empty() && sleep_until(next_tick);
      std::vector<pollfd> files{{listening_, POLLIN, 0}, {signals_, POLLIN, 0}, {parent ? 0 : -1, POLLIN, 0}};
      for (const Traced& traced : processes_) files.push_back({traced.process->pid_file(), POLLIN, 0});
      const bool at_once = more || slept || (processes_.empty() && !parent);
      poll(files.data(), files.size(), at_once ? 0 : processes_.empty() ? -1 : 1);
      for (std::size_t index = 3; index < files.size(); ++index) {
        if (files[index].revents != 0) processes_[index - 3].seen_dead(welcomed_);
      }
      // A few at a time: the others' rings fill up meanwhile.
      more = true;
      for (int turn = 0; more && turn < kWelcomes; ++turn) more = welcome();
      stopped = (files[1].revents & POLLIN) != 0;
      if (files[2].revents != 0) {
        char ignored[256];
        parent = read(0, ignored, sizeof ignored) > 0;
        stopped |= !parent && limits_.attached;
      }
      for (const Traced& traced : processes_) traced.process->drain();
      if (monotonic() >= next_tick) {
        for (const Traced& traced : processes_) traced.process->tick();
        next_tick = monotonic() + kTick;
      }
      std::erase_if(processes_, [&](Traced& traced) {
        if (traced.process->pid_file() < 0) traced.seen_dead(welcomed_);
        const bool gone = traced.dead && (!more || welcomed_ > traced.welcomed + kQueue);
        if (!gone && (traced.dead || traced.process->runs())) return false;
        traced.process->finish(gone ? "ended" : "executed another program");
        return true;
      });
    }
    while (welcome()) {
    }
    for (const Traced& traced : processes_) traced.process->finish(stopped ? "tracing stopped" : "ended");
    tell_of_own_mallocs();
    return 0;
  }

 private:
  // One that has died may have executed another program before, which waits in the queue still.
  struct Traced {
    std::unique_ptr<Process> process;
    bool dead = false;
    std::uint64_t welcomed = 0;  // when it was seen first

    void seen_dead(std::uint64_t so_far) {
      if (!std::exchange(dead, true)) welcomed = so_far;
    }
  };

  // Or until a ring of some program is half full. False: at once, since this kernel cannot.
  bool sleep_until(std::uint64_t until) {
    bells_.clear();
    for (const Traced& traced : processes_) bells_.push_back(&traced.process->bell());
    return wait_for(bells_, until);
  }
  // False: nobody waits.
  bool welcome() {
    const int connection = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return false;
    ++welcomed_;
    const std::uint32_t peer = heapyard::tracer::peer_of(connection);
    const Sent sent = receive(connection, token_);
    close(connection);
    if (sent.untraced) told_of_untraced(peer, sent);
    if (sent.memory < 0) return true;
    try {
      auto process = std::make_unique<Process>(sent.memory, peer, folder_, limits_);
      own_malloc_.erase(peer);
      traced_any_ = true;
      // The same process with another program in it: what it was before has ended.
      std::erase_if(processes_, [&](const Traced& other) {
        if (other.process->pid() != process->pid()) return false;
        other.process->finish("executed another program");
        return true;
      });
      processes_.push_back({std::move(process)});
    } catch (const std::system_error& error) {
      std::fprintf(stderr, "collector: %s\n", error.what());
    }
    return true;
  }

  void told_of_untraced(std::uint32_t peer, const Sent& sent) {
    if (sent.untraced == Untraced::kOwnMalloc) {
      if (own_malloc_.size() < kRemembered) own_malloc_[peer] = sent.program;
    } else {
      std::fprintf(stderr,
                   "heapyard: %s (process %u) is not traced: it may not have the memory that takes (ulimit -v)\n",
                   sent.program.c_str(), peer);
    }
  }
  // Where nothing is traced at all, whoever started this says why.
  void tell_of_own_mallocs() const {
    if (!traced_any_) return;
    std::map<std::string, int> processes;
    for (const auto& [pid, program] : own_malloc_) ++processes[program];
    for (const auto& [program, count] : processes)
      std::fprintf(stderr, "heapyard: %s brings its own malloc and is not traced (%d process%s)\n", program.c_str(),
                   count, count == 1 ? "" : "es");
  }

  int listening_, signals_;
  std::string token_, folder_;
  Limits limits_;
  std::vector<Traced> processes_;
  std::uint64_t welcomed_ = 0;  // so far
  // Programs by process, unless what their malloc passes on is traced.
  std::unordered_map<std::uint32_t, std::string> own_malloc_;
  bool traced_any_ = false;
  std::vector<heapyard::tracer::Bell*> bells_;
};

}  // namespace

int main(int count, char** arguments) {
  std::string socket_path, folder;
  Limits limits;
  constexpr option kOptions[] = {
      {"socket", required_argument, nullptr, 's'}, {"folder", required_argument, nullptr, 'f'},
      {"limit", required_argument, nullptr, 'l'},  {"never-step", no_argument, nullptr, 'n'},
      {"attached", no_argument, nullptr, 'a'},     {}};
  for (int given; (given = getopt_long(count, arguments, "", kOptions, nullptr)) != -1;) {
    switch (given) {
      case 's':
        socket_path = optarg;
        break;
      case 'f':
        folder = optarg;
        break;
      case 'l':
        limits.file_bytes = std::strtoull(optarg, nullptr, 10);
        break;
      case 'n':
        limits.may_step = false;
        break;
      case 'a':
        limits.attached = true;
        break;
      default:
        return 2;
    }
  }
  const char* token = std::getenv("HEAPYARD_TOKEN");
  if (token == nullptr || socket_path.empty() || folder.empty() || limits.file_bytes < FileBudget::kSmallest) {
    std::fprintf(stderr,
                 "collector: needs HEAPYARD_TOKEN, --socket PATH and --folder FOLDER; --limit is at least 65536\n");
    return 2;
  }
  prctl(PR_SET_NAME, "heapyard-collec");
  signal(SIGPIPE, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  if (rlimit files; getrlimit(RLIMIT_NOFILE, &files) == 0) {  // a traced process takes three
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  sigset_t termination;
  sigemptyset(&termination);
  sigaddset(&termination, SIGTERM);
  sigprocmask(SIG_BLOCK, &termination, nullptr);
  const int signals = signalfd(-1, &termination, SFD_CLOEXEC);
  const int listening = listen_at(socket_path);
  if (listening < 0) {
    std::fprintf(stderr, "collector: %s: %s\n", socket_path.c_str(), std::strerror(errno));
    return 1;
  }
  std::printf("ready\n");
  std::fflush(stdout);
  return Collector(listening, signals, token, folder, limits).run();
}
