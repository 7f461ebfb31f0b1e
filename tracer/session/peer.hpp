// SPDX-License-Identifier: Apache-2.0
// Who is at the other end of a socket: the program and its collector each ask it of the other.
#pragma once

#include <sys/socket.h>

#include <cstdint>

namespace heapyard::tracer {

// The process at the other end of a connection, by its number here; of a listener, whoever listens. 0 if there is none,
// or it cannot be told.
inline std::uint32_t peer_of(int connection) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  const bool told = getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid > 0;
  return told ? static_cast<std::uint32_t>(peer.pid) : 0;
}

}  // namespace heapyard::tracer
