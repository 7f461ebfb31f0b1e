// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <algorithm>

namespace heapyard::simulator {
namespace {

constexpr std::size_t kMostCodePlaces = 16;  // of one line

std::uint64_t bytes_of(const Access& access) {
  const std::uint64_t ones = access.bytes >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << access.bytes) - 1;
  return ones << access.address % kLineBytes;
}

bool writes(const Access& access) { return access.kind != Kind::kLoad; }

std::uint32_t wait_for(const SharedLine& shared, const Access& access) {
  return shared.arrives > access.cycle ? static_cast<std::uint32_t>(shared.arrives - access.cycle) : 0;
}

}  // namespace

Memory::Memory(const Machine& machine, std::uint32_t cores, bool spread) : machine_(machine), spread_(spread) {
  constexpr std::size_t kKib = 1024;
  cores_.reserve(cores);
  for (std::uint32_t i = 0; i < cores; ++i)
    cores_.push_back({{machine.l1.kib * kKib, machine.l1.ways, false}, {machine.l2.kib * kKib, machine.l2.ways, true}});
  const std::uint32_t clusters = std::min(machine.clusters, cores);
  const std::uint32_t in_one = (cores + clusters - 1) / clusters;
  for (std::uint32_t i = 0; i < clusters; ++i) l3_.emplace_back(in_one * machine.l3.kib * kKib, machine.l3.ways, true);
}

std::uint32_t Memory::split(const Access& whole, Counts& counts) {
  Access first = whole, second = whole;
  first.bytes = static_cast<std::uint32_t>(kLineBytes - whole.address % kLineBytes);
  second.address += first.bytes;
  second.bytes -= first.bytes;
  const std::uint32_t cycles = access(first, counts);
  second.cycle += cycles;
  return cycles + access(second, counts);
}

std::uint32_t Memory::beyond_l1(const Access& access, Line line, Slot* slot, Counts& counts) {
  Core& core = cores_[access.core];
  std::uint32_t cycles = 0;
  if (access.kind == Kind::kAtomic) {
    ++counts[Count::kAtomics];
    cycles += machine_.atomic_cycles;
  }
  if (!slot) {
    ++counts[Count::kL1Misses];
    if (const Slot* const in_l2 = core.l2.use(line)) {
      install_l1(access.core, *in_l2);
      slot = core.l1.use(line);
      cycles += machine_.l2.cycles;
    }
  }

  LineEntry& entry = directory_.entry(line);
  if (slot) {
    if (!writes(access)) return cycles;
    if (!(*slot & kWritable)) {
      cycles += upgrade(access, directory_.shared(entry), counts);
      *slot |= kWritable;
    }
    *slot |= kDirty;
  } else {
    ++counts[Count::kL2Misses];
    if (directory_.fault(line)) {
      ++counts[Count::kPageFaults];
      cycles += machine_.page_fault_cycles;
    }
    if (!entry.is_touched) {
      entry.is_touched = true;
      entry.core = static_cast<std::uint8_t>(access.core);
    } else if (entry.shared == 0 && entry.core != access.core) {
      share(entry, line);
    }
    bool alone = true;
    if (entry.shared == 0) {
      cycles += fetch_alone(access, line, counts);
      entry.is_held = true;
    } else {
      cycles += fetch_shared(access, directory_.shared(entry), counts, alone);
    }
    Slot flags = entry.shared == 0 ? 0 : kWatched;
    if (alone) flags |= kWritable;
    if (writes(access)) flags |= kDirty;
    install(access.core, line, flags);
  }
  if (access.kind == Kind::kAtomic) note_atomic(access, entry, counts);
  if (writes(access) && entry.shared != 0) {
    SharedLine& shared = directory_.shared(entry);
    shared.tenure |= bytes_of(access);
    note_writer(access, shared);
    shared.arrives = std::max(shared.arrives, access.cycle + cycles);
  }
  return cycles;
}

// Nobody else has it in a private cache: from an L3, else from memory.
std::uint32_t Memory::fetch_alone(const Access& access, Line line, Counts& counts) {
  const std::uint32_t own = cluster_of(access.core);
  const bool prefetched = continues_stream(access.core, line);
  if (l3_[own].use(line)) return prefetched ? machine_.l2.cycles : machine_.l3.cycles;
  ++counts[Count::kL3Misses];
  std::uint32_t cycles = prefetched ? machine_.l2.cycles : machine_.memory_cycles;
  for (std::uint32_t other = 0; other < clusters(); ++other) {
    if (other == own || !l3_[other].find(line)) continue;
    cycles = machine_.far_cycles;
    if (writes(access)) l3_[other].remove(line);
  }
  if (machine_.is_l3_inclusive) install_l3(own, line);
  return cycles;
}

// A prefetcher has fetched the line if the core came to the two before it, or behind it, in the same page: it runs
// ahead of such streams, as those of all machines in machine.cpp do.
bool Memory::continues_stream(CoreNumber core, Line line) {
  constexpr Line kPageLines = 64;
  const Line in_page = line % kPageLines;
  Cache& l2 = cores_[core].l2;
  return (in_page >= 2 && l2.find(line - 1) && l2.find(line - 2)) ||
         (in_page + 2 < kPageLines && l2.find(line + 1) && l2.find(line + 2));
}

// Two cores or more have touched the line. `alone`: no other private cache has it afterwards.
std::uint32_t Memory::fetch_shared(const Access& access, SharedLine& shared, Counts& counts, bool& alone) {
  const Line line = shared.line;
  const std::uint32_t own = cluster_of(access.core);
  if (shared.lost.contains(access.core)) {
    ++counts[Count::kCoherenceMisses];
    ++shared.coherence_misses;
    shared.lost.remove(access.core);
    note_code(access, shared);
  }
  const std::uint32_t wait = wait_for(shared, access);
  std::uint32_t cycles;
  if (shared.owner != kNobody) {
    const CoreNumber owner = shared.owner;
    cycles = distance(owner, access.core);
    shared.arrives = access.cycle + wait + cycles;
    ++counts[Count::kTransfers];
    ++shared.transfers;
    if (cluster_of(owner) != own) ++counts[Count::kFarTransfers];
    if (!(shared.tenure & bytes_of(access))) ++shared.false_transfers;
    note_code(access, shared);
    if (writes(access)) {
      take_from_holders(access, shared, counts);
    } else {
      if (withdraw(owner, line)) install_l3(cluster_of(owner), line);
      shared.owner = kNobody;
      alone = false;
    }
    if (machine_.is_l3_inclusive) install_l3(own, line);
  } else if (shared.holders.is_empty()) {
    cycles = fetch_alone(access, line, counts);
  } else {
    std::uint32_t nearest = UINT32_MAX;
    shared.holders.for_each([&](CoreNumber holder) { nearest = std::min(nearest, distance(holder, access.core)); });
    cycles = l3_[own].use(line) ? machine_.l3.cycles : nearest;
    if (machine_.is_l3_inclusive) install_l3(own, line);
    if (writes(access))
      cycles = std::max(cycles, take_from_holders(access, shared, counts));
    else
      alone = false;
  }
  shared.holders.add(access.core);
  if (writes(access)) {
    shared.owner = access.core;
    shared.tenure = 0;
    for (std::uint32_t other = 0; other < clusters(); ++other)
      if (other != own) l3_[other].remove(line);
  } else if (alone) {
    shared.owner = access.core;
  }
  return wait + cycles;
}

// A write to a line that the core may only read.
std::uint32_t Memory::upgrade(const Access& access, SharedLine& shared, Counts& counts) {
  ++counts[Count::kUpgrades];
  note_code(access, shared);
  const std::uint32_t cycles =
      wait_for(shared, access) + std::max(machine_.l3.cycles, take_from_holders(access, shared, counts));
  shared.owner = access.core;
  shared.tenure = 0;
  if (Slot* const in_l2 = cores_[access.core].l2.find(shared.line)) *in_l2 |= kWritable;
  for (std::uint32_t other = 0; other < clusters(); ++other)
    if (other != cluster_of(access.core)) l3_[other].remove(shared.line);
  return cycles;
}

// All copies but the writer's go; what the farthest one takes.
std::uint32_t Memory::take_from_holders(const Access& access, SharedLine& shared, Counts& counts) {
  std::uint32_t farthest = 0;
  const CoreSet holders = shared.holders;
  holders.for_each([&](CoreNumber holder) {
    if (holder == access.core) return;
    farthest = std::max(farthest, distance(holder, access.core));
    take(holder, shared.line);
    shared.holders.remove(holder);
    shared.lost.add(holder);
    ++counts[Count::kInvalidations];
    ++shared.invalidations;
  });
  return farthest;
}

std::uint32_t Memory::distance(CoreNumber from, CoreNumber to) const {
  return cluster_of(from) == cluster_of(to) ? machine_.peer_cycles : machine_.far_cycles;
}

// A second core comes: from now on the line has a record of its own.
void Memory::share(LineEntry& entry, Line line) {
  SharedLine& shared = directory_.make_shared(entry, line);
  if (entry.was_atomic) shared.last_atomic = entry.core;
  if (!entry.is_held) return;
  shared.holders.add(entry.core);
  shared.owner = entry.core;
  Core& core = cores_[entry.core];
  if (Slot* const slot = core.l2.find(line)) *slot |= kWatched;
  if (Slot* const slot = core.l1.find(line)) *slot |= kWatched;
}

void Memory::install(CoreNumber core, Line line, Slot flags) {
  if (const Slot evicted = cores_[core].l2.insert(slot_of(line, flags))) evicted_from_l2(core, evicted);
  install_l1(core, slot_of(line, flags));
}

void Memory::install_l1(CoreNumber core, Slot slot) {
  const Slot evicted = cores_[core].l1.insert(slot);
  if (evicted & kDirty)
    if (Slot* const in_l2 = cores_[core].l2.find(line_of(evicted))) *in_l2 |= kDirty;
}

void Memory::evicted_from_l2(CoreNumber core, Slot slot) {
  const Line line = line_of(slot);
  const Slot all = slot | cores_[core].l1.remove(line);
  left(core, line);
  if (!machine_.is_l3_inclusive || (all & kDirty)) install_l3(cluster_of(core), line);
}

void Memory::install_l3(std::uint32_t cluster, Line line) {
  if (l3_[cluster].use(line)) return;
  const Slot evicted = l3_[cluster].insert(slot_of(line, 0));
  if (evicted == 0 || !machine_.is_l3_inclusive) return;
  const Line old = line_of(evicted);
  LineEntry& entry = directory_.entry(old);
  const auto drop_copy = [&](CoreNumber holder) {
    if (cluster_of(holder) != cluster || !take(holder, old)) return;
    left(holder, old);
  };
  if (entry.shared == 0) {
    if (entry.is_held) drop_copy(entry.core);
  } else {
    const CoreSet holders = directory_.shared(entry).holders;
    holders.for_each(drop_copy);
  }
}

Slot Memory::take(CoreNumber core, Line line) { return cores_[core].l1.remove(line) | cores_[core].l2.remove(line); }

bool Memory::withdraw(CoreNumber core, Line line) {
  Slot was = 0;
  for (Cache* const cache : {&cores_[core].l1, &cores_[core].l2}) {
    Slot* const slot = cache->find(line);
    if (!slot) continue;
    was |= *slot;
    *slot &= ~(kWritable | kDirty);
  }
  return was & kDirty;
}

void Memory::left(CoreNumber core, Line line) {
  LineEntry& entry = directory_.entry(line);
  if (entry.shared == 0) {
    entry.is_held = false;
    return;
  }
  SharedLine& shared = directory_.shared(entry);
  shared.holders.remove(core);
  if (shared.owner == core) shared.owner = kNobody;
}

void Memory::note_atomic(const Access& access, LineEntry& entry, Counts& counts) {
  if (entry.shared == 0) {
    entry.was_atomic = true;
    return;
  }
  SharedLine& shared = directory_.shared(entry);
  if (shared.last_atomic != kNobody && shared.last_atomic != access.core) {
    ++counts[Count::kLockHandovers];
    ++shared.handovers;
  }
  shared.last_atomic = access.core;
}

void Memory::forward(const Access& access, Counts& counts) {
  ++counts[access.kind == Kind::kLoad ? Count::kLoads : Count::kStores];
  const LineEntry& entry = directory_.entry(access.address / kLineBytes);
  if (writes(access) && entry.shared != 0) note_writer(access, directory_.shared(entry));
}

void Memory::note_writer(const Access& access, SharedLine& shared) {
  const std::uint64_t bytes = bytes_of(access);
  for (std::size_t i = 0; i < shared.writers.size(); ++i) {
    if (shared.writers[i].thread != access.thread) continue;
    shared.writers[i].bytes |= bytes;
    ++shared.writers[i].stores;
    if (i > 0) std::swap(shared.writers[i], shared.writers[i - 1]);  // those who write most come first
    return;
  }
  shared.writers.push_back({access.thread, bytes, 1});
}

void Memory::note_code(const Access& access, SharedLine& shared) {
  for (CodePlace& place : shared.code) {
    if (place.address != access.code) continue;
    ++place.count;
    return;
  }
  if (shared.code.size() < kMostCodePlaces) shared.code.push_back({access.code, 1});
}

void Memory::drop(std::uint64_t low, std::uint64_t high) {
  directory_.drop(low, high, [this](Line line, LineEntry& entry) {
    if (entry.shared == 0) {
      if (entry.is_held && take(entry.core, line)) entry.is_held = false;
      return;
    }
    SharedLine& shared = directory_.shared(entry);
    const CoreSet holders = shared.holders;
    holders.for_each([&](CoreNumber holder) {
      take(holder, line);
      shared.holders.remove(holder);
    });
    shared.owner = kNobody;
  });
}

}  // namespace heapyard::simulator
