// SPDX-License-Identifier: Apache-2.0
// One traced process: reads its rings, accounts, and writes its trace.
//
// Order: records of all rings are taken by their stamps, up to the stamp at which the rings were looked at: so what led
// to an event comes before it. Where every event is recorded, a free says whose block it was. Else, a free whose
// allocation is still on its way in another ring waits for it; an allocation at an address that still lives waits for
// the free. What never comes is counted and forgotten after a while.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tracer/collector/accounts.hpp"
#include "tracer/collector/file_budget.hpp"
#include "tracer/collector/lossy_recorder.hpp"
#include "tracer/collector/modules.hpp"
#include "tracer/collector/pace.hpp"
#include "tracer/collector/tasks.hpp"
#include "tracer/collector/trace_file.hpp"
#include "tracer/session/layout.hpp"
#include "tracer/session/owner.hpp"
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
  Process(int memory, std::uint32_t peer, const std::string& folder, const Limits& limits);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  std::uint32_t pid() const { return tasks_.pid(); }
  int pid_file() const { return pid_file_; }
  bool exact() const;
  // Rings when one of its rings is half full, once it was expected to.
  Bell& bell() const { return session_.header().bell; }
  // Takes what the rings hold; true if there was something.
  bool drain() { return drain(stamp()); }
  // Looks at what changed and writes what is due; every 10 ms or so.
  void tick();
  // Whether the process still runs the program that sent the memory.
  bool runs();
  // The last of it. `how`: "ended", "executed another program", "tracing stopped".
  void finish(const char* how);

 private:
  struct Cursor {
    std::uint64_t at, head;
    std::uint32_t ring;
    const std::uint64_t* words;  // of the ring
    std::uint64_t mask;
    std::uint64_t count = 0;  // words of the record at hand, an event

    const std::uint64_t* record() const { return words + (at & mask); }
    // Words of the record at hand. 0: none, or no whole one, as where the program has written over the ring.
    std::uint64_t whole() const {
      const std::uint64_t count = at == head ? 0 : record_words(*record());
      return count <= head - at && (at & mask) + count <= mask + 1 ? count : 0;
    }
  };
  struct RingAccount {
    std::uint16_t thread = 0;
    std::uint64_t scanned = 0;          // words up to which modules are known
    std::uint64_t last_allocation = 0;  // address, if nothing came between
    Block moved;                        // by a realloc that may fail
    std::uint64_t moved_size = 0;
    std::uint64_t more = 0;            // upper bits of the next size
    std::uint64_t since = 0;           // stamp of the brief events, counted from the session's
    std::vector<std::uint32_t> nodes;  // of the chain told last, outermost first
  };
  struct Waiting {
    std::uint64_t since;  // microseconds
    Block block;          // an allocation; or of a free, its address and stamp
    std::uint64_t size;
  };

  std::uint64_t microseconds(std::uint64_t stamp) const;
  // Takes what has a stamp up to `limit`.
  bool drain(std::uint64_t limit);
  std::uint64_t next_stamp(Cursor& cursor);
  void take(Cursor& cursor);
  void chain(RingAccount& ring, const std::uint64_t* words);
  void module(const std::uint64_t* words);
  void look_for_modules();
  std::uint32_t rings_in_use();  // and makes room in rings_
  Cursor cursor_of(std::uint32_t index) const;
  // How a block came to be recorded: bytes it was counted with, and the interval; 0: every one is.
  struct Drawn {
    std::uint64_t bytes;
    unsigned log2_interval;
  };
  void allocation(std::uint32_t ring, std::uint64_t address, std::uint64_t stamp, std::uint64_t size,
                  const Drawn& drawn, std::uint64_t chain_number);
  void release(std::uint32_t ring, std::uint64_t address, std::uint64_t stamp, bool move);
  // An event of a block whose owner is known.
  bool owned(Kind kind, const Owned& owned, std::uint64_t stamp);
  void take_unnumbered();
  std::uint32_t chain_of(std::uint64_t number) const;  // or kNoChain
  void give_up_waiting(bool all);
  void mark(const std::uint64_t* words);
  void thin(unsigned log2);
  void keep_rate();
  void sample_every(std::uint32_t log2_interval);
  bool falls_behind();
  void thread(RingAccount& ring, std::uint64_t owner);
  void take_rings_of_the_dead();
  void calibrate();
  // False: the file has no room for it. `provided`: it has, for that was put aside.
  bool snapshot(const char* kind, const std::string& name, std::uint64_t at, bool peak, bool provided = false);
  void totals(bool force);
  void flush();
  std::uint64_t used() const;  // bytes of the file, with what has not been written yet as it is
  std::uint64_t aside() const;
  bool room(std::uint64_t bytes) const { return budget_.room(used(), aside(), bytes); }
  std::string meta() const;

  Session session_;
  // As the header said at first: the program may write over it.
  Tasks tasks_;
  std::uint64_t start_stamp_, start_nanoseconds_;
  Mode mode_;
  std::uint32_t log2_interval_;
  SampleSet set_;
  Limits limits_;
  FileBudget budget_;
  Pace pace_;
  int pid_file_ = -1;
  int statm_ = -1;
  std::uint64_t exe_ = 0;  // of /proc/pid/exe: device and inode mixed
  double nanoseconds_per_stamp_ = 0;
  std::uint64_t now_ = 0;
  std::uint64_t now_stamp_ = 0;
  Accounts accounts_;
  LiveBlocks live_;
  Modules modules_;
  LossyRecorder recorder_;
  static constexpr std::uint32_t kNoChain = ~std::uint32_t{0};
  std::vector<std::uint32_t> by_number_;                      // chain's number -> chain
  std::unordered_map<std::uint32_t, std::uint32_t> by_node_;  // node -> chain
  std::unordered_multimap<std::uint64_t, Waiting> late_allocations_, early_frees_;
  std::uint32_t most_rings_;
  std::vector<RingAccount> rings_;
  std::vector<std::uint16_t> thread_by_number_;
  struct Unnumbered {
    Kind kind;
    Owned owned;
    std::uint64_t stamp;
  };
  std::vector<Unnumbered> unnumbered_;  // events of chains that we have not been sent yet
  std::unordered_map<std::uint32_t, std::uint16_t> thread_by_id_;
  std::unique_ptr<TraceFile> file_;
  std::size_t modules_written_ = 1, nodes_written_ = 1;
  Bytes totals_;
  std::uint64_t totals_last_ = 0, totals_from_ = 0, totals_recorded_ = 0;
  std::int64_t totals_bytes_ = 0, rss_ = 0, rss_recorded_ = 0;
  std::uint64_t flushed_changes_ = 0;  // time of the last record in the file
  std::uint64_t flushed_ = 0, peak_written_ = 0, last_life_check_ = 0, last_ring_check_ = 0;
  std::int64_t peak_bytes_written_ = 0;
  std::uint64_t chains_cut_ = 0;  // longer than the limit
  std::uint64_t torn_rings_ = 0;  // how often the rest of a ring made no sense
  std::uint64_t unknown_frees_ = 0, lost_frees_ = 0, unknown_chains_ = 0, events_ = 0;
  std::uint64_t compositions_ = 0;                   // bytes of them in the file
  std::uint64_t lost_marks_ = 0, lost_modules_ = 0;  // the file had no room for
  bool thinned_ = false;
  bool stepped_ = false;  // from exact
  std::uint64_t naps_ = 0, naps_from_ = 0;
  std::uint64_t samples_ = 0, rate_samples_ = 0, rate_from_ = 0;
  std::uint32_t first_interval_ = 0, least_interval_ = 0, widest_interval_ = 0;
  std::uint32_t modules_seen_ = 0;
  std::vector<Cursor> cursors_;
};

}  // namespace heapyard::tracer
