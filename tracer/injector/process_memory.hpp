// The memory of another process, read and written. Every function says whether all bytes were done.
#pragma once

#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace heapyard::injector {

class ProcessMemory {
 public:
  explicit ProcessMemory(pid_t pid) : pid_(pid) {}

  bool read(std::uint64_t address, void* to, std::size_t bytes) const {
    const iovec here{to, bytes}, there{reinterpret_cast<void*>(address), bytes};
    return process_vm_readv(pid_, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
  }
  template <class Value>
  bool read(std::uint64_t address, Value& to) const {
    static_assert(std::is_trivially_copyable_v<Value>);
    return read(address, &to, sizeof to);
  }

  // Of what the process may write itself.
  bool write(std::uint64_t address, const void* from, std::size_t bytes) const {
    const iovec here{const_cast<void*>(from), bytes}, there{reinterpret_cast<void*>(address), bytes};
    return process_vm_writev(pid_, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
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
  pid_t pid_;
};

}  // namespace heapyard::injector
