// SPDX-License-Identifier: Apache-2.0
// The memory of another process, read and written. Every function says whether all bytes were done.
//
// Through /proc/PID/mem, which stays with the memory that the process had when it was opened: once the process runs
// another program, everything fails, and nothing of the new program can be hit.
#pragma once

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

namespace heapyard::injector {

class ProcessMemory {
 public:
  explicit ProcessMemory(pid_t pid)
      : file_(open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDWR | O_CLOEXEC)),
        error_(file_ < 0 ? errno : 0) {}
  ~ProcessMemory() {
    if (file_ >= 0) close(file_);
  }
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;

  int error() const { return error_; }  // why it cannot be opened, or 0

  bool read(std::uint64_t address, void* to, std::size_t bytes) const {
    return pread(file_, to, bytes, static_cast<off_t>(address)) == static_cast<ssize_t>(bytes);
  }
  template <class Value>
  bool read(std::uint64_t address, Value& to) const {
    static_assert(std::is_trivially_copyable_v<Value>);
    return read(address, &to, sizeof to);
  }

  // Of what the process may write itself.
  bool write(std::uint64_t address, const void* from, std::size_t bytes) const {
    return pwrite(file_, from, bytes, static_cast<off_t>(address)) == static_cast<ssize_t>(bytes);
  }

  // Of what it may not: text, which it gets a page of its own for. `thread` is stopped; bytes: a multiple of 8.
  static bool write_text(pid_t thread, std::uint64_t address, std::span<const unsigned char> bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(long)) {
      long word;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      if (ptrace(PTRACE_POKEDATA, thread, address + at, word) != 0) return false;
    }
    return true;
  }

 private:
  const int file_, error_;
};

}  // namespace heapyard::injector
