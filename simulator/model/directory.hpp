// SPDX-License-Identifier: Apache-2.0
// What is known of every line of memory: which cores hold it, and once two cores have touched it, what passed between
// them.
//
// A line that one core alone touches costs 8 bytes; one that several touch has a record of its own besides. O(1) a
// look.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <map>
#include <vector>

#include "cache.hpp"
#include "machine.hpp"

namespace heapyard::simulator {

using CoreNumber = std::uint32_t;

class CoreSet {
 public:
  void add(CoreNumber core) { words_[core / 64] |= std::uint64_t{1} << core % 64; }
  void remove(CoreNumber core) { words_[core / 64] &= ~(std::uint64_t{1} << core % 64); }
  bool contains(CoreNumber core) const { return words_[core / 64] >> core % 64 & 1; }
  bool is_empty() const { return (words_[0] | words_[1]) == 0; }
  template <class Visit>
  void for_each(Visit visit) const {
    for (CoreNumber word = 0; word < words_.size(); ++word)
      for (std::uint64_t left = words_[word]; left != 0; left &= left - 1)
        visit(word * 64 + static_cast<CoreNumber>(std::countr_zero(left)));
  }

 private:
  std::array<std::uint64_t, kMostCores / 64> words_{};
};

inline constexpr std::uint32_t kNobody = UINT32_MAX;

// A thread's stores to one line.
struct Writer {
  std::uint32_t thread;
  std::uint64_t bytes = 0;  // bit i: it wrote byte i of the line
  std::uint64_t stores = 0;
};

struct CodePlace {
  std::uint64_t address;  // of the instruction
  std::uint64_t count = 0;
};

// A line that at least two cores have touched.
struct SharedLine {
  Line line = 0;
  CoreSet holders;                      // private caches that have it
  CoreSet lost;                         // cores whose copy another core's write took, and that have not come back
  std::uint32_t owner = kNobody;        // the holder that may write
  std::uint32_t last_atomic = kNobody;  // core of the latest atomic
  std::uint64_t tenure = 0;             // bytes written since the line came to its present owner
  std::uint64_t arrives = 0;  // cycle: before it nobody else gets the line, which is under way or being written
  std::uint64_t transfers = 0, false_transfers = 0, invalidations = 0, coherence_misses = 0, handovers = 0;
  std::vector<Writer> writers;
  std::vector<CodePlace> code;

  void forget_counts() {
    transfers = false_transfers = invalidations = coherence_misses = handovers = 0;
    writers.clear();
    code.clear();
  }
};

struct LineEntry {
  std::uint32_t shared = 0;     // index of its SharedLine; 0: one core alone has touched it
  std::uint8_t core = 0;        // that core
  bool is_touched : 1 = false;  // ever
  bool is_held : 1 = false;     // that core's caches have it now, and may write it
  bool was_atomic : 1 = false;  // that core's atomics have been here
};

class Directory {
 public:
  Directory() { shared_.emplace_back(); }  // index 0 means none

  LineEntry& entry(Line line) { return page(line / kPageLines).lines[line % kPageLines]; }
  SharedLine& shared(const LineEntry& entry) { return shared_[entry.shared]; }
  SharedLine& make_shared(LineEntry& entry, Line line) {
    entry.shared = static_cast<std::uint32_t>(shared_.size());
    SharedLine& made = shared_.emplace_back();
    made.line = line;
    return made;
  }

  // True once after the page was first touched or dropped: the kernel then has to supply memory.
  bool fault(Line line) {
    Page& of = page(line / kPageLines);
    const bool faults = !of.is_resident;
    of.is_resident = true;
    resident_pages_ += faults;
    peak_resident_pages_ = std::max(peak_resident_pages_, resident_pages_);
    return faults;
  }
  // Pages that lie within [low, high) are no longer resident; visit(line, entry) for each of their lines that was
  // touched.
  template <class Visit>
  void drop(std::uint64_t low, std::uint64_t high, Visit visit) {
    const std::uint64_t begin = (low + kPageBytes - 1) / kPageBytes, end = high / kPageBytes;
    if (begin >= end) return;
    // In ascending order, so that every run does the same; a heap may give back terabytes of which it touched little.
    const auto last = leaves_.upper_bound((end - 1) / kLeafPages);
    for (auto at = leaves_.lower_bound(begin / kLeafPages); at != last; ++at) {
      const std::uint64_t first = at->first * kLeafPages;
      const std::uint64_t stop = std::min(end, first + kLeafPages);
      for (std::uint64_t number = std::max(begin, first); number < stop; ++number) {
        Page* const page = at->second->pages[number % kLeafPages].get();
        if (!page || !page->is_resident) continue;
        page->is_resident = false;
        --resident_pages_;
        for (std::size_t i = 0; i < page->lines.size(); ++i)
          if (page->lines[i].is_touched) visit(number * kPageLines + i, page->lines[i]);
      }
    }
  }

  const std::deque<SharedLine>& all_shared() const { return shared_; }
  void forget_counts() {
    for (SharedLine& line : shared_) line.forget_counts();
  }
  std::uint64_t resident_pages() const { return resident_pages_; }
  std::uint64_t peak_resident_pages() const { return peak_resident_pages_; }

 private:
  static constexpr std::uint64_t kPageBytes = 4096, kPageLines = kPageBytes / kLineBytes, kLeafPages = 1024;
  struct Page {
    std::array<LineEntry, kPageLines> lines;
    bool is_resident = false;
  };
  struct Leaf {
    std::array<std::unique_ptr<Page>, kLeafPages> pages;
  };

  Page& page(std::uint64_t number) {
    if (number == last_page_number_) return *last_page_;
    const std::uint64_t key = number / kLeafPages;
    if (key != last_key_) {
      std::unique_ptr<Leaf>& leaf = leaves_[key];
      if (!leaf) leaf = std::make_unique<Leaf>();
      last_key_ = key;
      last_leaf_ = leaf.get();
    }
    std::unique_ptr<Page>& page = last_leaf_->pages[number % kLeafPages];
    if (!page) page = std::make_unique<Page>();
    last_page_number_ = number;
    last_page_ = page.get();
    return *page;
  }

  std::map<std::uint64_t, std::unique_ptr<Leaf>> leaves_;
  std::uint64_t last_key_ = UINT64_MAX, last_page_number_ = UINT64_MAX;
  Leaf* last_leaf_ = nullptr;
  Page* last_page_ = nullptr;
  std::uint64_t resident_pages_ = 0, peak_resident_pages_ = 0;
  std::deque<SharedLine> shared_;
};

}  // namespace heapyard::simulator
