// SPDX-License-Identifier: Apache-2.0
// What a machine or a container is charged for because a tree of processes runs, added up from looks at each of them:
// resident memory, page tables, swap, huge pages of the pool, and kernel stacks.
//
// Between two looks only resident memory is known, since the kernel keeps its high-water mark (VmHWM, and the wait
// status at the end). So a peak of resident memory is never missed, however short. Page tables and the rest have no
// such mark: `error` says by how much they grew at most from one look to the next.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace heapyard::trial {

// One process at one look, in bytes; from /proc/<pid>/status.
struct Holding {
  std::int64_t rss = 0;
  std::int64_t highest_rss = 0;  // since its exec
  std::int64_t page_tables = 0;
  std::int64_t beside = 0;  // swap, huge pages of the pool, kernel stacks

  std::int64_t unmarked() const { return page_tables + beside; }  // what has no high-water mark
};

// False when the process is gone, or is a zombie. One small read.
bool holding_of(pid_t pid, Holding& found);

class Charge {
 public:
  // A look begins; then every process of the tree is added; then the look ends. `before` is what the same program in
  // the same process held at the look before, nothing if it is new.
  void begin_look() { now_ = {}; }
  void add(const Holding& one, const Holding& before);
  void end_look();

  // All have ended, and none had more than `peak_rss` bytes resident: the exact figure of the wait status.
  void finish(std::int64_t peak_rss);

  std::int64_t peak() const { return peak_; }                // bytes
  std::int64_t page_tables() const { return page_tables_; }  // bytes; most at one look
  std::int64_t error() const { return error_; }              // bytes; -1: nobody looked in time

 private:
  struct Look {
    std::int64_t total = 0;  // with each process at its most since the last look
    std::int64_t page_tables = 0;
    std::int64_t unmarked = 0;
    std::int64_t highest_rss = 0;  // of the largest process
    std::int64_t largest = 0;      // what that one has in `total` as resident
  };

  Look now_;
  std::int64_t peak_ = 0, page_tables_ = 0, error_ = -1;
  std::int64_t unmarked_ = 0;     // at the last look
  std::int64_t highest_rss_ = 0;  // of any one process so far
  std::int64_t around_ = 0;       // what the tree had beside that process when it was last seen
};

}  // namespace heapyard::trial
