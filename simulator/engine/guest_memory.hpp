// SPDX-License-Identifier: Apache-2.0
// The program's memory as the engine sees it: the same address space, moved by guest_base. A look at an address that is
// not mapped fails instead of ending the process. One system call each.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>

#include "qemu_plugin.hpp"

namespace heapyard::simulator {

inline std::uint64_t host_address(std::uint64_t guest) { return guest + (&guest_base ? guest_base : 0); }

inline bool read_guest(std::uint64_t address, void* to, std::size_t bytes) {
  const iovec own{to, bytes}, other{reinterpret_cast<void*>(host_address(address)), bytes};
  return process_vm_readv(getpid(), &own, 1, &other, 1, 0) == static_cast<ssize_t>(bytes);
}
inline bool write_guest(std::uint64_t address, const void* from, std::size_t bytes) {
  const iovec own{const_cast<void*>(from), bytes}, other{reinterpret_cast<void*>(host_address(address)), bytes};
  return process_vm_writev(getpid(), &own, 1, &other, 1, 0) == static_cast<ssize_t>(bytes);
}

template <class T>
bool read_guest(std::uint64_t address, T& to) {
  return read_guest(address, &to, sizeof to);
}
template <class T>
bool write_guest(std::uint64_t address, const T& from) {
  return write_guest(address, &from, sizeof from);
}

}  // namespace heapyard::simulator
