// SPDX-License-Identifier: Apache-2.0
#include "tracer/collector/resident_account.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

#include "tracer/session/layout.hpp"

namespace heapyard::tracer {
namespace {

using shared::Resident;

// An area as smaps tells of it. Bytes.
struct Area {
  std::uint64_t begin = 0, end = 0;
  Residency there;
  std::uint64_t anonymous = 0, lazy = 0;
  bool readable = false, executable = false;
  std::string path;
  bool is_file() const { return !path.empty() && path[0] == '/'; }
};

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::uint64_t hexadecimal(std::string_view text, std::size_t& length) {
  std::uint64_t value = 0;
  length =
      static_cast<std::size_t>(std::from_chars(text.data(), text.data() + text.size(), value, 16).ptr - text.data());
  return value;
}

// "55d0-55e0 r-xp 00000000 08:01 1234   /usr/bin/true". False: the line is no head of an area.
bool parse_head(std::string_view line, Area& area) {
  std::size_t length = 0, more = 0;
  area.begin = hexadecimal(line, length);
  if (length == 0 || length >= line.size() || line[length] != '-') return false;
  area.end = hexadecimal(line.substr(length + 1), more);
  std::size_t at = length + 1 + more;
  if (more == 0 || at + 5 >= line.size() || line[at] != ' ') return false;
  area.readable = line[at + 1] == 'r';
  area.executable = line[at + 3] == 'x';
  for (int field = 0; field < 4 && at != line.npos; ++field) at = line.find(' ', at + 1);
  if (at != line.npos) at = line.find_first_not_of(' ', at);
  if (at != line.npos) area.path = line.substr(at);
  return true;
}

// "Rss:                1234 kB".
void parse_field(std::string_view line, Area& area) {
  const std::size_t colon = line.find(':');
  if (colon == line.npos) return;
  const std::string_view name = line.substr(0, colon);
  std::uint64_t* const field = name == "Rss"                                      ? &area.there.resident
                               : name == "Anonymous"                              ? &area.anonymous
                               : name == "Shared_Clean" || name == "Shared_Dirty" ? &area.there.shared
                               : name == "AnonHugePages"                          ? &area.there.huge
                               : name == "LazyFree"                               ? &area.lazy
                               : name == "Swap"                                   ? &area.there.swapped
                                                                                  : nullptr;
  if (field == nullptr) return;
  const std::size_t digits = line.find_first_not_of(' ', colon + 1);
  std::uint64_t kib = 0;
  if (digits != line.npos) std::from_chars(line.data() + digits, line.data() + line.size(), kib);
  *field += kib << 10;
}

std::vector<Area> areas_of(std::uint32_t pid, const std::function<void()>& meanwhile) {
  constexpr std::size_t kFew = 64;
  std::vector<Area> areas;
  const std::unique_ptr<std::FILE, Closer> file(std::fopen(("/proc/" + std::to_string(pid) + "/smaps").c_str(), "re"));
  if (file == nullptr) return areas;
  char* text = nullptr;
  std::size_t space = 0;
  for (ssize_t length; (length = getline(&text, &space, file.get())) > 0;) {
    const std::string_view line(text, static_cast<std::size_t>(length - (text[length - 1] == '\n')));
    // Fields begin with a capital, addresses never do.
    if (line.empty() || (line[0] >= 'A' && line[0] <= 'Z')) {
      if (!areas.empty()) parse_field(line, areas.back());
    } else if (Area area; parse_head(line, area)) {
      areas.push_back(std::move(area));
      if (areas.size() % kFew == 0) meanwhile();
    }
  }
  std::free(text);
  return areas;
}

// Which pages are there, lie in swap, or are of no other process: one word for each, with bits 63, 62 and 56.
class PageMap {
 public:
  explicit PageMap(std::uint32_t pid)
      : file_(open(("/proc/" + std::to_string(pid) + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~PageMap() {
    if (file_ >= 0) close(file_);
  }
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  // What of [begin, end) is there. Where the kernel does not say, or much was asked already, as large a share of the
  // area's as it is of the area; which pages are huge is not asked at all.
  Residency within(std::uint64_t begin, std::uint64_t end, const Area& area) {
    const std::uint64_t pages = (end - begin) / kPage;
    Residency found;
    for (std::uint64_t done = 0; file_ >= 0 && pages <= left_ && done < pages;) {
      const std::uint64_t part = std::min<std::uint64_t>(pages - done, std::size(words_));
      const ssize_t got = pread(file_, words_, part * 8, static_cast<off_t>((begin / kPage + done) * 8));
      if (got <= 0) break;
      const auto words = static_cast<std::uint64_t>(got) / 8;
      for (std::uint64_t index = 0; index < words; ++index) {
        const std::uint64_t word = words_[index], resident = word >> 63;
        found.resident += resident * kPage;
        found.shared += (resident & ~(word >> 56)) * kPage;
        found.swapped += (word >> 62 & 1) * kPage;
      }
      done += words;
      if (done == pages) {
        left_ -= pages;
        found.huge = part_of(area.there.huge, found.resident, area.there.resident);
        return found;
      }
    }
    const auto share = [&](std::uint64_t bytes) { return part_of(bytes, end - begin, area.end - area.begin); };
    const Residency& all = area.there;
    return {share(all.resident), share(all.shared), share(all.huge), share(all.swapped)};
  }

 private:
  // In whole pages.
  static std::uint64_t part_of(std::uint64_t bytes, std::uint64_t part, std::uint64_t whole) {
    if (whole == 0) return 0;
    const double share = static_cast<double>(part) / static_cast<double>(whole);
    return static_cast<std::uint64_t>(std::min(share, 1.0) * static_cast<double>(bytes)) & ~std::uint64_t{kPage - 1};
  }

  int file_;
  std::uint64_t left_ = 1u << 20;  // pages that may still be looked at: 8 MiB of words
  std::uint64_t words_[4096];
};

bool is_tracers(const Area& area) {
  return area.path.find("/memfd:heapyard-trace") != std::string::npos ||
         area.path.ends_with("/libheapyard_tracer.so") || area.path.ends_with("/libheapyard_tracer_heap.so");
}

class Reader {
 public:
  Reader(const AccountOf& of, const ProgramMappings& mappings, const ProgramMappings& tracers, ResidentAccount& account)
      : of_(of), mappings_(mappings), tracers_(tracers), pages_(of.pid), account_(account) {}

  void read(const std::vector<Area>& areas) {
    for (const Area& area : areas) {
      if (area.executable && area.is_file()) code_.insert(area.path);
    }
    const Area nothing;
    const Area* before = &nothing;
    bool of_library = false;  // the area before
    for (const Area& area : areas) {
      const bool adjacent = area.begin == before->end;
      of_library = area.is_file() ? code_.contains(area.path) : area.path.empty() && adjacent && of_library;
      const bool guarded =
          adjacent && before->path.empty() && !before->readable && before->end - before->begin <= kGuard;
      take(area, of_library, guarded);
      before = &area;
    }
  }

 private:
  static constexpr std::uint64_t kArena = 64u << 20;  // the C library's arenas begin at multiples of it
  // The kernel gives stacks places near the top of the address space; heaps with guards of their own lie elsewhere.
  static constexpr std::uint64_t kNearTop = (std::uint64_t{1} << 47) - (std::uint64_t{2} << 40);
  static constexpr std::uint64_t kGuard = 64u << 10;  // bytes below a stack that nobody may touch, at most

  void take(const Area& area, bool of_library, bool guarded) {
    account_.resident += area.there.resident;
    account_.shared += area.there.shared;
    account_.swapped += area.there.swapped;
    account_.part(Resident::kLazy) += area.lazy;
    if (is_tracers(area)) {
      account_.part(Resident::kTracer) += area.there.resident;
      return;
    }
    std::uint64_t rest = area.there.resident;
    // Takes what of a range is resident from the rest.
    const auto part_of = [&](std::uint64_t begin, std::uint64_t end) {
      const bool whole = (begin == area.begin && end == area.end) || area.there.resident + area.there.swapped == 0;
      Residency part = whole ? area.there : pages_.within(begin, end, area);
      part.resident = std::min(rest, part.resident);
      part.shared = std::min(part.resident, part.shared);
      part.huge = std::min(part.resident, part.huge);
      rest -= part.resident;
      return part;
    };
    tracers_.each_within(area.begin, area.end, [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
      account_.part(Resident::kTracer) += part_of(begin, end).resident;
    });
    mappings_.each_within(area.begin, area.end, [&](std::uint64_t begin, std::uint64_t end, std::uint32_t chain) {
      if (chain == ProgramMappings::kAllocators) {
        account_.part(Resident::kAllocator) += part_of(begin, end).resident;
        return;
      }
      if (chain >= account_.chains.size()) account_.chains.resize(chain + 1);
      MappedByChain& owner = account_.chains[chain];
      owner.there += part_of(begin, end);
      owner.mapped += end - begin;
      ++owner.pieces;
    });
    if (area.is_file() && of_library) {
      const std::uint64_t changed = std::min(rest, area.anonymous);
      account_.part(Resident::kChanged) += changed;
      account_.part(Resident::kAsInFiles) += rest - changed;
    } else if (area.is_file()) {
      account_.part(Resident::kOtherFiles) += rest;
    } else if (of_library) {
      account_.part(Resident::kChanged) += rest;
    } else if (area.path == "[vdso]" || area.path == "[vvar]" || area.path == "[vvar_vclock]") {
      account_.part(Resident::kAsInFiles) += rest;
    } else if ((guarded && area.begin >= kNearTop) || area.path.starts_with("[stack")) {
      account_.part(Resident::kStacks) += rest;
    } else {
      const bool allocators = !of_.glibc || area.path == "[heap]" || area.begin % kArena == 0 || holds_a_sample(area);
      account_.part(allocators ? Resident::kAllocator : Resident::kUnknown) += rest;
      if (allocators) account_.part(Resident::kHuge) += std::min(rest, area.there.huge);
    }
  }

  bool holds_a_sample(const Area& area) const {
    const auto at = std::lower_bound(of_.samples.begin(), of_.samples.end(), area.begin);
    return at != of_.samples.end() && *at < area.end;
  }

  const AccountOf& of_;
  const ProgramMappings& mappings_;
  const ProgramMappings& tracers_;
  PageMap pages_;
  ResidentAccount& account_;
  std::unordered_set<std::string> code_;  // paths of which something may be executed
};

}  // namespace

bool read_account(const AccountOf& of, const ProgramMappings& mappings, const ProgramMappings& tracers,
                  const std::function<void()>& meanwhile, ResidentAccount& account) {
  account = {};
  const std::vector<Area> areas = areas_of(of.pid, meanwhile);  // before the mappings are looked at, which may change
  Reader(of, mappings, tracers, account).read(areas);
  const std::uint64_t known = account.part(Resident::kAllocator);
  const std::uint64_t moved = std::min(of.live > known ? of.live - known : 0, account.part(Resident::kUnknown));
  account.part(Resident::kUnknown) -= moved;
  account.part(Resident::kAllocator) += moved;
  // Blocks need not be resident, but what is asked of them mostly is: the rest of them comes after it.
  const std::uint64_t allocators = account.part(Resident::kAllocator);
  const std::uint64_t rounding = std::min(of.rounding, allocators - std::min(of.live, allocators));
  account.part(Resident::kAllocator) -= rounding;
  account.part(Resident::kRounding) = rounding;
  return account.resident != 0;
}

}  // namespace heapyard::tracer
