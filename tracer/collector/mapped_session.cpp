// SPDX-License-Identifier: Apache-2.0
#include "tracer/collector/mapped_session.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/mapping.hpp"

namespace heapyard::tracer {
namespace {

Session map(int memory) {
  struct stat facts{};
  if (fstat(memory, &facts) != 0 || static_cast<std::size_t>(facts.st_size) < sizeof(Header)) {
    close(memory);
    throw std::system_error(EINVAL, std::generic_category(), "shared memory of a traced program");
  }
  void* base = map_file(memory, static_cast<std::size_t>(facts.st_size));
  close(memory);
  if (base == nullptr) throw std::system_error(errno, std::generic_category(), "shared memory of a traced program");
  const Header& header = *static_cast<const Header*>(base);
  const bool known = header.magic == kMagic && header.version == kVersion &&
                     Layout(header).end <= static_cast<std::size_t>(facts.st_size);
  if (!known) {
    munmap(base, static_cast<std::size_t>(facts.st_size));
    throw std::system_error(EPROTO, std::generic_category(), "the traced program's library is of another version");
  }
  return {base, Layout(header)};
}

}  // namespace

MappedSession::MappedSession(int memory) : session_(map(memory)) {}

MappedSession::~MappedSession() { munmap(session_.base(), session_.bytes()); }

}  // namespace heapyard::tracer
