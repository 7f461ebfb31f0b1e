// SPDX-License-Identifier: Apache-2.0
// How programs reach the collector: the socket that it listens at, and what they send through it.
#pragma once

#include <optional>
#include <string>

#include "tracer/session/untraced.hpp"

namespace heapyard::tracer {

// Programs that wait at most.
inline constexpr int kQueue = 512;

// A socket that does not block, or -1 and errno. Root's is open to all users.
int listen_at(const std::string& path);

// What a program sends through a new connection: its memory, or why there is none. Neither: something else came.
struct Sent {
  int memory = -1;
  std::optional<Untraced> untraced;
  std::string program;  // of an untraced one, without its folder
};

// What has come through `connection`, of whoever knows the token. Waits a second at most.
Sent receive(int connection, const std::string& token);

}  // namespace heapyard::tracer
