// SPDX-License-Identifier: Apache-2.0
// Looks at the memory of a tree of processes from outside, at a cost below one percent of the time.
//
// RSS, page tables and swap come from stat and status, which are cheap. PSS and the number of mappings come from
// smaps_rollup and maps, at a rate of their own, because there the kernel walks page tables. After a look, each kind
// waits long enough to stay within its share of the time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "charge.hpp"
#include "control_group.hpp"
#include "request.hpp"

namespace heapyard::trial {

struct Sample {
  double at;         // seconds since exec
  std::int64_t rss;  // bytes, sum over all processes
  std::int64_t pss;  // bytes, or -1 where this look took RSS only
};

// One program in one process: exec begins another, which may have been given another environment.
struct Process {
  pid_t pid = 0;
  std::uint64_t stack = 0;  // tells it from others in the same process
  std::string name;         // comm at the last look
  std::string executable;   // empty where we may not look
  std::int64_t peak_rss = 0;
  Holding holding;  // at the last look
  std::uint32_t looks = 0;
  std::uint32_t maps = 0;  // most mappings seen
  bool mapped = false;     // the library was mapped at a look at the mappings
  bool has_libc = false;   // a C library was: before that the loader is not done, however long a busy machine takes
  std::uint64_t first_seen_ns = 0;
  std::uint64_t maps_seen_ns = 0;  // the last look at the mappings
  bool alive = true;
};

inline constexpr std::uint64_t kFirstLook = 1'000'000;  // ns after exec: the loader comes first

class Sampler {
 public:
  explicit Sampler(const Request& request) : request_(request), group_(request.group) {}

  // The program is there (times of its own clock, turns.hpp); before that there is nothing to look at but the
  // launcher's own copy.
  void begin(std::uint64_t exec_ns, std::uint64_t now_ns) {
    exec_ns_ = exec_ns;
    next_ns_ = now_ns + kFirstLook;
  }

  // Nanoseconds (program's clock) of the next look; the first ones come quickly, so that short programs are seen at
  // all.
  std::uint64_t next_ns() const { return next_ns_; }

  // Looks at all processes below this one, at `now_ns` of the program's clock. O(processes + threads), and O(resident
  // pages) for a PSS look.
  void look(std::uint64_t now_ns);

  // All have ended; the wait status says how much any one of them had resident at most.
  void finish(std::int64_t peak_rss) {
    charge_.finish(peak_rss);
    group_.finish();
  }

  const Charge& charge() const { return charge_; }
  const ControlGroup& group() const { return group_; }
  const std::vector<Sample>& samples() const { return samples_; }
  const std::vector<Process>& processes() const { return processes_; }
  double cost_seconds() const { return static_cast<double>(cost_ns_) * 1e-9; }

 private:
  Process& process(pid_t pid, std::uint64_t stack);
  void look_at_maps(Process& process);

  const Request& request_;
  Charge charge_;
  ControlGroup group_;
  std::uint64_t exec_ns_ = 0;
  std::uint64_t next_ns_ = UINT64_MAX;
  std::uint64_t next_dear_ns_ = 0;
  std::uint64_t cost_ns_ = 0;
  double ramp_ = 0.0005;      // seconds to the next look, doubled up to the interval
  double dear_ramp_ = 0.004;  // the same for PSS and mappings
  std::vector<pid_t> pids_;
  std::vector<Sample> samples_;
  std::vector<Process> processes_;
};

}  // namespace heapyard::trial
