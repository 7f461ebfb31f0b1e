// SPDX-License-Identifier: Apache-2.0
// The memory account of the control group (version 2) that the program's tree runs in.
#pragma once

#include <cstdint>

namespace heapyard::trial {

// The kernel keeps the group's exact peak, page cache included. What belongs to files and is given back on demand (page
// cache but for shared memory, and the caches of inodes) is taken out as of the look that first saw the peak.
class ControlGroup {
 public:
  // `folder`: the group's, in cgroupfs; null: there is none, and nothing is read.
  explicit ControlGroup(const char* folder) : folder_(folder) {}

  // Three small reads.
  void look();
  // All processes have ended.
  void finish();

  bool known() const { return peak_ > 0; }
  std::int64_t peak() const { return peak_; }        // bytes; memory.peak
  std::int64_t charged() const { return charged_; }  // bytes, without what belongs to files, with swap
  std::int64_t error() const { return error_; }      // bytes by which files' memory changed around the look of the peak

 private:
  std::int64_t number(const char* name) const;
  std::int64_t of_files() const;

  const char* folder_;
  std::int64_t peak_ = 0, charged_ = 0, error_ = 0;
  std::int64_t files_ = 0;  // at the last look
};

}  // namespace heapyard::trial
