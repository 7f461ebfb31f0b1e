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
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tracer/collector/arrivals.hpp"
#include "tracer/collector/collector.hpp"
#include "tracer/collector/file_budget.hpp"

using heapyard::tracer::Collector;
using heapyard::tracer::FileBudget;
using heapyard::tracer::Limits;
using heapyard::tracer::listen_at;

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
  const char* token = std::getenv(heapyard::shared::kTokenVariable);
  if (token == nullptr || socket_path.empty() || folder.empty() || limits.file_bytes < FileBudget::kSmallest) {
    std::fprintf(stderr,
                 "collector: needs HEAPYARD_TOKEN, --socket PATH and --folder FOLDER; --limit is at least %ju\n",
                 std::uintmax_t{FileBudget::kSmallest});
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
  Collector(listening, signals, token, folder, limits).run();
  return 0;
}
