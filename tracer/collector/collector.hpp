// SPDX-License-Identifier: Apache-2.0
// All traced processes: welcomes those that begin, has their rings read, and finishes those that end.
//
// Idea: one loop, which sleeps until a ring of some program is half full, somebody comes, or 10 ms are over. Of
// programs that begin or end a few are served at a time, as the others' rings fill up meanwhile. Cost: O(processes) a
// turn. Threads: one, and the disk's (disk.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tracer/collector/disk.hpp"
#include "tracer/collector/process.hpp"
#include "tracer/session/bell.hpp"

namespace heapyard::tracer {

class Collector {
 public:
  // `listening`: listen_at(); `signals`: a signalfd that ends this. What `limits` say is of each process.
  Collector(int listening, int signals, std::string token, std::string folder, const Limits& limits)
      : listening_(listening),
        signals_(signals),
        token_(std::move(token)),
        folder_(std::move(folder)),
        limits_(limits) {}

  // Until standard input has ended and nothing is traced any more, or a signal comes.
  void run();

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
  bool sleep_until(std::uint64_t until);
  // False: nobody waits.
  bool welcome();
  void trace(int memory, std::uint32_t peer);
  // True: there are more, for which it is to be called again soon.
  bool finish_ended(bool more_wait);

  int listening_, signals_;
  std::string token_, folder_;
  Limits limits_;
  Disk disk_;  // outlives what writes to it
  std::vector<Traced> processes_;
  std::uint64_t welcomed_ = 0;  // so far
  std::vector<Bell*> bells_;
};

}  // namespace heapyard::tracer
