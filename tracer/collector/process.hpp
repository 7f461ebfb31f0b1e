// SPDX-License-Identifier: Apache-2.0
// One traced process: leads what its rings hold to the parts that account for it, and has its trace written.
//
// The rings are one stream (ring_merger.hpp). Its chains, threads and modules go into tables; events of blocks go into
// the accounts, by their owner (exact_events.hpp) or by their address (sampled_events.hpp). How much is recorded is
// decided by sample_control.hpp, what of it is written by trace_writer.hpp. Threads: the collector's only.
#pragma once

#include <cstdint>
#include <string>

#include "base/text.hpp"
#include "tracer/collector/account_pace.hpp"
#include "tracer/collector/accounts.hpp"
#include "tracer/collector/chain_table.hpp"
#include "tracer/collector/disk.hpp"
#include "tracer/collector/exact_events.hpp"
#include "tracer/collector/mapped_session.hpp"
#include "tracer/collector/modules.hpp"
#include "tracer/collector/program_clock.hpp"
#include "tracer/collector/program_mappings.hpp"
#include "tracer/collector/resident_account.hpp"
#include "tracer/collector/resident_memory.hpp"
#include "tracer/collector/ring_merger.hpp"
#include "tracer/collector/sample_control.hpp"
#include "tracer/collector/sampled_events.hpp"
#include "tracer/collector/tasks.hpp"
#include "tracer/collector/thread_table.hpp"
#include "tracer/collector/trace_writer.hpp"
#include "tracer/session/layout.hpp"
#include "tracer/session/sample_set.hpp"

namespace heapyard::tracer {

struct Limits {
  std::uint64_t file_bytes = 256u << 20;  // at least FileBudget::kSmallest
  std::size_t nodes = 2'000'000;          // 72 bytes each, and 8 in the hash; fewer where the file is to be small
  std::size_t live_samples = 1u << 17;    // beyond it the interval doubles
  bool may_step = true;                   // from exact to sampled, when the collector cannot keep up
  bool attached = false;                  // programs are traced for as long as someone looks, not to their ends
};

class Process {
 public:
  // `memory`: what the program sent; mapped here, and closed. `peer`: who sent it, 0: what the memory says. Throws
  // std::system_error.
  Process(int memory, std::uint32_t peer, Disk& disk, const std::string& folder, const Limits& limits);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  std::uint32_t pid() const { return tasks_.pid(); }
  int pid_file() const { return pid_file_; }
  // Rings when one of its rings is half full, once it was expected to.
  Bell& bell() const { return header().bell; }
  // Takes what the rings hold; true if there was something.
  bool drain() { return drain(stamp()); }
  // Looks at what changed and writes what is due; every 10 ms or so.
  void tick();
  // Whether the process still runs the program that sent the memory.
  bool runs();
  // The last of it. `how`: "ended", "executed another program", "tracing stopped".
  void finish(const char* how);

 private:
  // What the merger tells, record by record.
  friend class RingMerger;
  void use_rings(std::uint32_t count);
  bool knows_a_thread() const { return !accounts_.threads.empty(); }
  void thread(std::uint32_t ring, std::uint64_t owner);
  void chain(std::uint32_t ring, const std::uint64_t* words) { chains_.add(ring, words, modules_, accounts_); }
  void module(const std::uint64_t* words);
  void mark(const std::uint64_t* words);
  void owned(Kind kind, const Owned& owned, std::uint64_t stamp);
  void allocation(std::uint32_t ring, std::uint64_t address, std::uint64_t stamp, std::uint64_t size,
                  const Drawn& drawn, std::uint64_t chain_number);
  void release(std::uint32_t ring, std::uint64_t address, std::uint64_t stamp, bool move);
  void stay(std::uint32_t ring, std::uint64_t address) { sampled_.stay(ring, address, accounts_); }
  void script(const std::uint64_t* words);
  void mapping(std::uint64_t address, std::uint64_t bytes, std::uint64_t chain_number);
  void unmapping(std::uint64_t address, std::uint64_t bytes) { mappings_.remove(address, bytes); }

  Header& header() const { return memory_.session().header(); }
  bool drain(std::uint64_t limit);
  void take_rings_of_the_dead();
  ProgramMappings tracers() const;
  void note_resident(bool last);
  void look_closely(std::int64_t resident);
  std::uint64_t peak_at() const { return clock_.microseconds(accounts_.peak_stamp); }
  void write_meta(Text& text) const;
  void write_summary(Text& text, const char* how) const;

  MappedSession memory_;
  Limits limits_;
  Tasks tasks_;
  ProgramClock clock_;
  SampleControl control_;
  SampleSet set_;
  Accounts accounts_;
  Modules modules_;
  ChainTable chains_;
  ThreadTable threads_;
  ExactEvents exact_;
  SampledEvents sampled_;
  RingMerger merger_;
  ResidentMemory resident_;
  ProgramMappings mappings_;
  AccountPace account_pace_;
  TraceWriter writer_;
  int pid_file_ = -1;
  std::uint64_t exe_ = 0;  // of /proc/pid/exe: device and inode mixed
  std::uint64_t last_life_check_ = 0, last_ring_check_ = 0;
  std::uint64_t lost_marks_ = 0, lost_modules_ = 0;  // the file had no room for
};

}  // namespace heapyard::tracer
