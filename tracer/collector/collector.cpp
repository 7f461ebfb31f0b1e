// SPDX-License-Identifier: Apache-2.0
#include "tracer/collector/collector.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <system_error>

#include "base/clock.hpp"
#include "tracer/collector/arrivals.hpp"
#include "tracer/collector/wait.hpp"
#include "tracer/session/peer.hpp"

namespace heapyard::tracer {
namespace {

constexpr std::uint64_t kTick = 10'000'000;  // nanoseconds
constexpr int kAtOnce = 8;                   // programs that come, or go, between two looks at all of them

}  // namespace

void Collector::run() {
  std::uint64_t next_tick = monotonic_ns() + kTick;
  bool parent = true, stopped = false, more = false, more_ended = false;
  while (!stopped && (parent || more || !processes_.empty())) {
    const bool slept = !more && !more_ended && !processes_.empty() && sleep_until(next_tick);
    std::vector<pollfd> files{{listening_, POLLIN, 0}, {signals_, POLLIN, 0}, {parent ? 0 : -1, POLLIN, 0}};
    for (const Traced& traced : processes_) files.push_back({traced.process->pid_file(), POLLIN, 0});
    const bool at_once = more || more_ended || slept || (processes_.empty() && !parent);
    poll(files.data(), files.size(), at_once ? 0 : processes_.empty() ? -1 : 1);
    for (std::size_t index = 3; index < files.size(); ++index) {
      if (files[index].revents != 0) processes_[index - 3].seen_dead(welcomed_);
    }
    // A few at a time: the others' rings fill up meanwhile.
    more = true;
    for (int turn = 0; more && turn < kAtOnce; ++turn) more = welcome();
    stopped = (files[1].revents & POLLIN) != 0;
    if (files[2].revents != 0) {
      char ignored[256];
      parent = read(0, ignored, sizeof ignored) > 0;
      stopped |= !parent && limits_.attached;
    }
    for (const Traced& traced : processes_) traced.process->drain();
    if (monotonic_ns() >= next_tick) {
      for (const Traced& traced : processes_) traced.process->tick();
      next_tick = monotonic_ns() + kTick;
    }
    more_ended = finish_ended(more);
  }
  while (welcome()) {
  }
  for (const Traced& traced : processes_) traced.process->finish(stopped ? "tracing stopped" : "ended");
}

bool Collector::finish_ended(bool more_wait) {
  int finished = 0;
  std::erase_if(processes_, [&](Traced& traced) {
    if (finished == kAtOnce) return false;
    if (traced.process->pid_file() < 0) traced.seen_dead(welcomed_);
    const bool gone = traced.dead && (!more_wait || welcomed_ > traced.welcomed + kQueue);
    if (!gone && (traced.dead || traced.process->runs())) return false;
    traced.process->finish(gone ? "ended" : "executed another program");
    ++finished;
    return true;
  });
  return finished == kAtOnce;
}

bool Collector::sleep_until(std::uint64_t until) {
  bells_.clear();
  for (const Traced& traced : processes_) bells_.push_back(&traced.process->bell());
  return wait_for(bells_, until);
}

bool Collector::welcome() {
  const int connection = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection < 0) return false;
  ++welcomed_;
  const std::uint32_t peer = peer_of(connection);
  const Sent sent = receive(connection, token_);
  close(connection);
  if (sent.untraced == Untraced::kNoMemory) {
    std::fprintf(stderr, "heapyard: %s (process %u) is not traced: it may not have the memory that takes (ulimit -v)\n",
                 sent.program.c_str(), peer);
  }
  if (sent.memory >= 0) trace(sent.memory, peer);
  return true;
}

void Collector::trace(int memory, std::uint32_t peer) {
  try {
    auto process = std::make_unique<Process>(memory, peer, disk_, folder_, limits_);
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
}

}  // namespace heapyard::tracer
