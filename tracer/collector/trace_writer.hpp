// SPDX-License-Identifier: Apache-2.0
// Writes one process's trace: what of the accounts, when, and whether the file has room for it.
//
// Idea: what changes is looked at every 10 ms, collected, and written in chunks of some size; modules and nodes come
// before whatever names them. What the end takes is put aside (file_budget.hpp), and the rest is used up the slower the
// fuller the file is (pace.hpp). Cost: O(changed nodes) a look, O(chains) a snapshot. Errors: a disk that refuses ends
// the file where it is; what has no room is refused, and the caller counts it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tracer/collector/accounts.hpp"
#include "tracer/collector/file_budget.hpp"
#include "tracer/collector/lossy_recorder.hpp"
#include "tracer/collector/modules.hpp"
#include "tracer/collector/pace.hpp"
#include "tracer/collector/resident_account.hpp"
#include "tracer/collector/totals.hpp"
#include "tracer/collector/trace_file.hpp"

namespace heapyard::tracer {

class TraceWriter {
 public:
  // `accounts` and `modules` outlive this. Throws std::system_error if there can be no such file.
  TraceWriter(Disk& disk, const std::string& path, std::uint64_t limit, Accounts& accounts, const Modules& modules)
      : limit_(limit), budget_(limit), accounts_(accounts), modules_(modules), file_(disk, path) {}

  // JSON that says what is traced: the first chunk.
  void begin(std::string_view meta) { file_.write(Chunk::kMeta, meta, 0, 0); }

  // Records what has changed, and writes what is due. `now`: microseconds; `interval`: mean bytes between two samples,
  // 0 if every event is recorded; `peak_at`: when the heap was at its peak.
  void look(std::uint64_t now, std::uint64_t interval, std::uint64_t peak_at);
  void note_resident(std::int64_t bytes) { totals_.note_resident(bytes); }

  // The exact composition now. False: the file has no room for it.
  bool snapshot(const char* kind, const std::string& name, std::uint64_t at, std::uint64_t now);
  // What the resident memory is now. Left out where the file has no room for it.
  void account(const ResidentAccount& account, std::uint64_t now);
  // What a place of a script is. Left out where the file has no room for it.
  void script(std::uint64_t place, std::uint64_t line, std::string_view function, std::string_view file);
  // Whether there is room for so many bytes more.
  bool room(std::uint64_t bytes) const { return budget_.room(used(), aside(), bytes); }

  // The last changes, two compositions, and the tables of the whole run.
  void write_end(std::uint64_t now, std::uint64_t interval, std::uint64_t peak_at);
  // JSON that says how it ended: the last chunk. `to_disk`: waits until it is there.
  void finish(std::string_view summary, std::uint64_t now, bool to_disk);

  std::uint64_t records() const { return recorder_.records(); }
  double coarsest_rate() const { return pace_.coarsest_rate(); }

 private:
  enum class Composition { kNow, kPeak };
  // `provided`: there is room, for that was put aside.
  bool snapshot(const char* kind, const std::string& name, std::uint64_t at, std::uint64_t now, Composition which,
                bool provided);
  void note_totals(std::uint64_t now);
  void flush(std::uint64_t now);
  void write_chains(std::uint64_t now);
  void write_threads(std::uint64_t now);
  void write_sizes(std::uint64_t now);
  std::uint64_t used() const;  // bytes of the file, with what has not been written yet as it is
  std::uint64_t aside() const;

  const std::uint64_t limit_;
  FileBudget budget_;
  Pace pace_;
  Accounts& accounts_;
  const Modules& modules_;
  LossyRecorder recorder_;
  Totals totals_;
  Bytes scripts_;  // not written yet
  TraceFile file_;
  std::size_t modules_written_ = 1, nodes_written_ = 1;
  std::uint64_t flushed_changes_ = 0;  // time of the last record in the file
  std::uint64_t flushed_ = 0, peak_written_ = 0;
  std::int64_t peak_bytes_written_ = 0;
  std::uint64_t compositions_ = 0;  // bytes of them in the file, and of the residents' accounts
};

}  // namespace heapyard::tracer
