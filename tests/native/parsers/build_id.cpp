// SPDX-License-Identifier: Apache-2.0
// The tracer's search for a build-id, among notes that say anything, and by program headers that do.
#include <cstdlib>
#include <memory>

#include "tracer/events/build_id.hpp"
#include "tracer/events/readable_parts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heapyard::tracer;
  const auto notes = std::make_unique<std::uint8_t[]>(size + 1);
  std::memcpy(notes.get(), data, size);
  const auto begin = reinterpret_cast<std::uintptr_t>(notes.get());
  BuildId id;
  const bool found = find_build_id(begin, size, id);
  if (found != (id.bytes[BuildId::kMost] != 0) || id.bytes[BuildId::kMost] > BuildId::kMost) std::abort();

  const ReadableParts parts(begin, begin + size, begin);
  for (unsigned index = 0; index < parts.headers(); ++index) {
    const ElfW(Phdr) part = parts.header(index);
    if (parts.holds(begin + part.p_vaddr, part.p_memsz)) find_build_id(begin + part.p_vaddr, part.p_memsz, id);
  }
  return 0;
}
