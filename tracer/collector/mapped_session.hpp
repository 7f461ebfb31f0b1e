// SPDX-License-Identifier: Apache-2.0
// The shared memory that a program has sent, mapped here for as long as this lives.
#pragma once

#include "tracer/session/layout.hpp"

namespace heapyard::tracer {

class MappedSession {
 public:
  // `memory`: a file, which is closed. Throws std::system_error if it is no session of this version.
  explicit MappedSession(int memory);
  ~MappedSession();
  MappedSession(const MappedSession&) = delete;
  MappedSession& operator=(const MappedSession&) = delete;

  const Session& session() const { return session_; }

 private:
  Session session_;
};

}  // namespace heapyard::tracer
