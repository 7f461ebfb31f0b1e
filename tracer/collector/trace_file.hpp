// SPDX-License-Identifier: Apache-2.0
// The trace file: a line of magic, then chunks, each whole by itself; at the end an index. docs/trace-format.md.
//
// A file cut off anywhere opens up to its last whole chunk. Cost: O(bytes) per chunk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/shared.hpp"
#include "tracer/collector/disk.hpp"

namespace heapyard::tracer {

using Chunk = shared::ChunkKind;

class TraceFile {
 public:
  TraceFile(Disk& disk, const std::string& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // `from`, `to`: microseconds since the start that the chunk is about. False once the disk refused.
  bool write(Chunk kind, std::string_view bytes, std::uint64_t from, std::uint64_t to);
  // `to_disk`: it is to outlive the machine's sudden end.
  void finish(bool to_disk);
  std::uint64_t bytes() const { return bytes_; }
  std::size_t chunks() const { return index_.size(); }

 private:
  struct Entry {
    Chunk kind;
    std::uint64_t offset, from, to;
  };
  void put(std::string_view bytes);

  Disk& disk_;
  Disk::Handle file_;
  std::uint64_t bytes_ = 0;
  std::vector<Entry> index_;
  std::string compressed_;
};

}  // namespace heapyard::tracer
