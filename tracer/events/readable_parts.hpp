// SPDX-License-Identifier: Apache-2.0
// Which memory of a loaded object may be read: that of its segments, as its program headers tell.
//
// Idea: tables of an object point at each other, and a damaged file's may point anywhere. What the dynamic loader
// mapped by the program headers is there, whatever else is damaged. Where they do not lie at the object's beginning (a
// tool has moved them), its whole range counts. Cost: O(headers) per question. Threads: any; no lock, no allocation, no
// call.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace heapyard::tracer {

class ReadableParts {
 public:
  // The object's addresses, and what is added to those of its file.
  ReadableParts(std::uintptr_t begin, std::uintptr_t end, std::uintptr_t bias) : begin_(begin), end_(end), bias_(bias) {
    ElfW(Ehdr) header;
    if (end - begin < kFirstPage) return;  // more than a page is mapped of every object
    std::memcpy(&header, reinterpret_cast<const void*>(begin), sizeof header);
    const std::uint64_t bytes = std::uint64_t{header.e_phnum} * sizeof(ElfW(Phdr));
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr)) ||
        header.e_phoff > kFirstPage || bytes > kFirstPage - header.e_phoff)
      return;
    headers_ = begin + header.e_phoff;
    count_ = header.e_phnum;
  }
  explicit ReadableParts(const dl_find_object& object)
      : ReadableParts(reinterpret_cast<std::uintptr_t>(object.dlfo_map_start),
                      reinterpret_cast<std::uintptr_t>(object.dlfo_map_end),
                      object.dlfo_link_map == nullptr ? 0 : object.dlfo_link_map->l_addr) {}

  // How far may be read from `at` on; `at` itself if it may not.
  std::uintptr_t end_from(std::uintptr_t at) const {
    if (at < begin_ || at >= end_) return at;
    if (count_ == 0) return end_;
    for (unsigned index = 0; index < count_; ++index) {
      const ElfW(Phdr) part = header(index);
      const std::uintptr_t first = bias_ + part.p_vaddr;
      if (part.p_type == PT_LOAD && (part.p_flags & PF_R) != 0 && at - first < part.p_memsz)
        return at + std::min<std::uintptr_t>(part.p_memsz - (at - first), end_ - at);
    }
    return at;
  }
  // Whether so many bytes may be read.
  bool holds(std::uintptr_t at, std::uint64_t bytes) const { return end_from(at) - at >= bytes; }

  // The program headers, as far as they are known.
  unsigned headers() const { return count_; }
  ElfW(Phdr) header(unsigned index) const {
    ElfW(Phdr) part;
    std::memcpy(&part, reinterpret_cast<const void*>(headers_ + index * sizeof part), sizeof part);
    return part;
  }

 private:
  static constexpr std::uint64_t kFirstPage = 4096;
  std::uintptr_t begin_, end_, bias_, headers_ = 0;
  unsigned count_ = 0;
};

}  // namespace heapyard::tracer
