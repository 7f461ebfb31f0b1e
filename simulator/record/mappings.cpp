// SPDX-License-Identifier: Apache-2.0
#include "mappings.hpp"

#include <elf.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>

namespace heapyard::simulator {
namespace {

std::uint64_t hexadecimal(std::string_view& text, char after) {
  std::uint64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value, 16).ptr;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.empty() && text.front() == after) text.remove_prefix(1);
  return value;
}

// Bytes of memory that the file's segments span; 0: not an ELF file of 64 bits.
std::uint64_t span_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header;
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
    return 0;
  std::uint64_t low = UINT64_MAX, high = 0;
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) return 0;
    if (segment.p_type != PT_LOAD) continue;
    low = std::min<std::uint64_t>(low, segment.p_vaddr & ~std::uint64_t{4095});
    high = std::max<std::uint64_t>(high, segment.p_vaddr + segment.p_memsz);
  }
  return high > low ? high - low : 0;
}

}  // namespace

Mappings::Mappings(std::uint64_t base) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::string_view rest(line);
    const std::uint64_t low = hexadecimal(rest, '-'), high = hexadecimal(rest, ' ');
    rest.remove_prefix(std::min<std::size_t>(5, rest.size()));  // rights
    const std::uint64_t offset = hexadecimal(rest, ' ');
    const std::size_t path = rest.find_first_of("/[");
    if (low < base) continue;
    mappings_.push_back({low - base, high - base, path == rest.npos ? "" : std::string(rest.substr(path))});
    const Mapping& made = mappings_.back();
    if (offset != 0 || made.path.empty() || made.path[0] != '/') continue;
    if (const std::uint64_t span = span_of(made.path)) modules_.push_back({made.path, made.low, made.low + span});
  }
}

const Mappings::Module* Mappings::module_of(std::uint64_t address) const {
  const Module* found = nullptr;  // a file may be mapped twice: the mapping that begins last below the address counts
  for (const Module& module : modules_)
    if (address >= module.low && address < module.high) found = &module;
  return found;
}

const Mappings::Mapping* Mappings::mapping_of(std::uint64_t address) const {
  for (const Mapping& mapping : mappings_)
    if (address >= mapping.low && address < mapping.high) return &mapping;
  return nullptr;
}

}  // namespace heapyard::simulator
