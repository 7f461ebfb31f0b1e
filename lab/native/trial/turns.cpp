// SPDX-License-Identifier: Apache-2.0
#include "turns.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace heapyard::trial {

bool Turns::tell_done() const { return send(socket_, "", 1, MSG_NOSIGNAL) == 1; }

std::uint64_t Turns::next() const {
  std::uint64_t length = 0;
  ssize_t got;
  while ((got = recv(socket_, &length, sizeof length, 0)) < 0 && errno == EINTR) {
  }
  return got == sizeof length ? length : 0;
}

void Turns::leave() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

}  // namespace heapyard::trial
