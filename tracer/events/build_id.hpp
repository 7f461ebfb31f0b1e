// SPDX-License-Identifier: Apache-2.0
// The build-id among the notes of an ELF object (System V gABI, chapter 5: notes; GNU's type 3).
//
// Cost: O(notes). Threads: any; no lock, no allocation. Errors: a note that reaches beyond the end ends the search.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstdint>

#include "tracer/events/table_reader.hpp"

namespace heapyard::tracer {

struct BuildId {
  static constexpr unsigned kMost = 20;
  std::uint8_t bytes[kMost + 4] = {};  // its length follows the longest one there is
};

// True: it was among the notes that lie from `notes` on.
inline bool find_build_id(std::uintptr_t notes, std::uint64_t bytes, BuildId& id) {
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(notes);
  const auto padded = [](std::uint32_t size) { return (std::uint64_t{size} + 3) & ~std::uint64_t{3}; };
  for (TableReader in(begin, begin + bytes); in.more();) {
    const auto fields = in.take<ElfW(Nhdr)>();
    const std::uint8_t* const name = in.at();
    in.skip(padded(fields.n_namesz));
    const std::uint8_t* const description = in.at();
    in.skip(fields.n_descsz);
    const bool whole = static_cast<std::uint64_t>(description - name) == padded(fields.n_namesz) &&
                       static_cast<std::uint64_t>(in.at() - description) == fields.n_descsz;
    if (whole && fields.n_type == NT_GNU_BUILD_ID && fields.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0 &&
        fields.n_descsz <= BuildId::kMost) {
      std::memcpy(id.bytes, description, fields.n_descsz);
      id.bytes[BuildId::kMost] = static_cast<std::uint8_t>(fields.n_descsz);
      return fields.n_descsz != 0;
    }
    in.skip(padded(fields.n_descsz) - fields.n_descsz);
  }
  return false;
}

}  // namespace heapyard::tracer
