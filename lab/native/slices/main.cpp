// SPDX-License-Identifier: Apache-2.0
// slices: lets the trials of a block run in turns, exactly one at a time, in slices of a few milliseconds.
//
// Why: the speed of a machine that others share changes from second to second. What changes more slowly than a round of
// slices affects all trials alike. Rounds come in pairs: one in an order of its own, then one in the opposite order. So
// a speed that changes steadily over a pair affects all alike, too. The trials' launchers stop the programs
// (lab/native/trial/turns.hpp has the protocol). This process ends when the last launcher has ended.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "base/fatal.hpp"
#include "base/options.hpp"

namespace {

using namespace heapyard;

template <class Number>
bool take(std::string_view& text, Number& number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  return true;
}

// Waits until the trial has stopped; false when it has ended.
bool has_stopped(int trial) {
  char byte;
  ssize_t got;
  while ((got = recv(trial, &byte, 1, 0)) < 0 && errno == EINTR) {
  }
  return got == 1;
}

}  // namespace

int main(int argc, char** argv) {
  const char *turns = nullptr, *slice = nullptr, *seed_text = nullptr, *parent = nullptr;
  const Option options[] = {
      {0, "turns", "LIST", Word{&turns}, "sockets of the trials, such as 5,6,7"},
      {0, "slice", "NANOSECONDS", Word{&slice}, "length of a slice"},
      {0, "seed", "N", Word{&seed_text}, "of the orders"},
      {0, "parent", "PID", Word{&parent}, "do nothing unless this process is still there, as our parent"},
  };
  parse_options(argc, argv, options, {"slices", "Lets trials run by turns. Part of the lab; see docs/trial.md.", ""});
  std::uint64_t length = 0, seed = 0;
  std::string_view text = slice ? slice : "";
  if (!take(text, length) || !text.empty() || length == 0) fatal(kExitUsage, "option --slice must be nanoseconds");
  text = seed_text ? seed_text : "0";
  if (!take(text, seed) || !text.empty()) fatal(kExitUsage, "option --seed must be a number");
  std::vector<int> trials;
  for (text = turns ? turns : ""; !text.empty(); text.remove_prefix(text.starts_with(','))) {
    int socket = -1;
    if (!take(text, socket) || (!text.empty() && text[0] != ',') || socket < 3)
      fatal(kExitUsage, "option --turns must be a list of descriptors such as 5,6,7");
    trials.push_back(socket);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pid_t expected = 0;
  text = parent ? parent : "";
  if (!text.empty() && (!take(text, expected) || getppid() != expected))
    fatal(kExitMachine, "the process that called for it is gone");

  // Nobody begins before all stand ready.
  std::erase_if(trials, [](int trial) { return !has_stopped(trial); });
  std::mt19937_64 draw(seed);
  for (bool back = false; !trials.empty(); back = !back) {
    if (back)
      std::reverse(trials.begin(), trials.end());
    else
      std::shuffle(trials.begin(), trials.end(), draw);
    std::erase_if(trials, [&](int trial) {
      const bool goes_on = send(trial, &length, sizeof length, MSG_NOSIGNAL) == sizeof length && has_stopped(trial);
      if (!goes_on) close(trial);
      return !goes_on;
    });
  }
  return 0;
}
