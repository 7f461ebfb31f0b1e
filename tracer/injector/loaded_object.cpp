// SPDX-License-Identifier: Apache-2.0
#include "tracer/injector/loaded_object.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace heapyard::injector {
namespace {

constexpr std::uint64_t kPage = 4096, kMostSymbols = 1 << 20, kMostBytes = 64 << 20;

struct Dynamic {
  std::uint64_t symbols = 0, names = 0, names_bytes = 0, gnu_hash = 0, hash = 0;
};

// The dynamic linker has added the base to most of these already.
std::optional<Dynamic> dynamic_of(const ProcessMemory& memory, std::uint64_t address, std::uint64_t bytes,
                                  std::uint64_t base) {
  if (bytes > (1 << 16)) return {};
  std::vector<Elf64_Dyn> entries(bytes / sizeof(Elf64_Dyn));
  if (!memory.read(address, entries.data(), entries.size() * sizeof(Elf64_Dyn))) return {};
  Dynamic found;
  const auto moved = [base](std::uint64_t value) { return value < base ? value + base : value; };
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_SYMTAB) found.symbols = moved(entry.d_un.d_ptr);
    if (entry.d_tag == DT_STRTAB) found.names = moved(entry.d_un.d_ptr);
    if (entry.d_tag == DT_STRSZ) found.names_bytes = entry.d_un.d_val;
    if (entry.d_tag == DT_GNU_HASH) found.gnu_hash = moved(entry.d_un.d_ptr);
    if (entry.d_tag == DT_HASH) found.hash = moved(entry.d_un.d_ptr);
  }
  return found;
}

// How many symbols there are is said nowhere but in the hash tables. (System V gABI; GNU: buckets, then chains whose
// last entry is odd.)
std::uint64_t symbols_in(const ProcessMemory& memory, const Dynamic& dynamic) {
  if (std::uint32_t words[2]; dynamic.hash != 0 && memory.read(dynamic.hash, words)) return words[1];
  std::uint32_t head[4];  // buckets, first symbol, words of the filter, shift
  if (dynamic.gnu_hash == 0 || !memory.read(dynamic.gnu_hash, head) || head[0] > kMostSymbols) return 0;
  std::vector<std::uint32_t> buckets(head[0]);
  const std::uint64_t at = dynamic.gnu_hash + sizeof head + std::uint64_t{head[2]} * 8;
  if (!memory.read(at, buckets.data(), buckets.size() * 4)) return 0;
  std::uint64_t last = buckets.empty() ? 0 : *std::max_element(buckets.begin(), buckets.end());
  if (last < head[1]) return head[1];
  for (std::uint32_t entry = 0; last < kMostSymbols; ++last) {
    if (!memory.read(at + buckets.size() * 4 + (last - head[1]) * 4, entry)) return 0;
    if ((entry & 1) != 0) return last + 1;
  }
  return 0;
}

void read_symbols(const ProcessMemory& memory, const Dynamic& dynamic, std::uint64_t base, LoadedObject& object) {
  const std::uint64_t count = symbols_in(memory, dynamic);
  if (count == 0 || count > kMostSymbols || dynamic.names_bytes == 0 || dynamic.names_bytes > kMostBytes) return;
  std::vector<Elf64_Sym> symbols(count);
  std::string names(dynamic.names_bytes, '\0');
  if (!memory.read(dynamic.symbols, symbols.data(), count * sizeof(Elf64_Sym)) ||
      !memory.read(dynamic.names, names.data(), names.size()))
    return;
  for (const Elf64_Sym& symbol : symbols) {
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names.size())
      continue;
    const std::uint64_t begin = base + symbol.st_value;
    object.symbols.emplace(names.c_str() + symbol.st_name,
                           Range{begin, begin + std::max<std::uint64_t>(symbol.st_size, 1)});
  }
}

std::optional<LoadedObject> object_at(const ProcessMemory& memory, const Mapping& first) {
  Elf64_Ehdr header;
  if (!memory.read(first.begin, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
      header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > 100 ||
      (header.e_type != ET_DYN && header.e_type != ET_EXEC))
    return {};
  std::vector<Elf64_Phdr> parts(header.e_phnum);
  if (!memory.read(first.begin + header.e_phoff, parts.data(), parts.size() * sizeof(Elf64_Phdr))) return {};
  std::uint64_t lowest = ~std::uint64_t{0};
  for (const Elf64_Phdr& part : parts)
    if (part.p_type == PT_LOAD) lowest = std::min(lowest, part.p_vaddr & ~(kPage - 1));
  if (lowest == ~std::uint64_t{0}) return {};
  const std::uint64_t base = first.begin - lowest;
  LoadedObject object;
  object.path = first.path;
  for (const Elf64_Phdr& part : parts) {
    const std::uint64_t begin = base + part.p_vaddr, end = begin + part.p_memsz;
    if (part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0) {
      object.text.push_back({begin, end});
      if ((part.p_flags & PF_W) == 0 && part.p_filesz == part.p_memsz)
        object.slack.push_back({(end + 15) & ~std::uint64_t{15}, (end + kPage - 1) & ~(kPage - 1)});
    }
    if (part.p_type == PT_DYNAMIC)
      if (const auto dynamic = dynamic_of(memory, begin, part.p_memsz, base))
        read_symbols(memory, *dynamic, base, object);
  }
  return object;
}

}  // namespace

std::vector<LoadedObject> loaded_objects(const ProcessMemory& memory, const std::vector<Mapping>& mappings) {
  std::vector<LoadedObject> found;
  for (const Mapping& mapping : mappings) {
    if (mapping.path.empty() || mapping.path[0] != '/' || mapping.offset != 0 || !mapping.readable || mapping.shared)
      continue;
    if (auto object = object_at(memory, mapping)) found.push_back(std::move(*object));
  }
  return found;
}

}  // namespace heapyard::injector
