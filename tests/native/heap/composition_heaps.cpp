// SPDX-License-Identifier: Apache-2.0
// The heaps that the tests of compositions run over.
#include <string>

#include "compositions.hpp"
#include "consistent_pages.hpp"
#include "consistent_tree.hpp"
#include "examples/heap/fourth.hpp"
#include "heap/allocators/bfm.hpp"
#include "heap/allocators/elfmalloc.hpp"
#include "heap/allocators/heapyard.hpp"
#include "heap/allocators/scalloc.hpp"

namespace heapyard::test {
namespace {

using Full = BfmParts<BfmSteps, 8, kBfmDepth, GiveBack, ScarcePages>;
using Coarse = BfmParts<BfmCoarseSteps, 8, kBfmDepth, KeepLast, ScarcePages>;
using OneCached = BfmParts<BfmSteps, 1, kBfmDepth, GiveBack, ScarcePages>;
using One = BfmPartsNoCache<BfmSteps, 1, ScarcePages>;
using Several = BfmPartsNoCache<BfmSteps, 8, ScarcePages>;
template <class Choices>
struct Scarce : Choices {
  using Pages = ScarcePages;
  using Spans = VirtualSpans<ScarcePages, Choices::Classes::kVirtualSpan, kScallocColours, std::size_t{1} << 30>;
};
using Spans = ScallocParts<Scarce<ScallocDefaults>>;
using PerCore = ScallocParts<Scarce<ScallocPerCore>>;
using Stacks = ScallocParts<Scarce<ScallocWithStacks>>;
using Lazy = ScallocParts<Scarce<ScallocLazy>>;
using SmallSpans = ScallocParts<Scarce<ScallocSpansOf<std::size_t{256} << 10>>>;
struct SharedTablesChoices : Scarce<ScallocSpansOf<std::size_t{64} << 10>> {};
struct SharedTables : ScallocParts<SharedTablesChoices> {
  using Large = BestFitTree<Outside, HugeSteps<Outside>>;
  static inline constinit Large large;
  using Tight = TightOver<Large>;
  static inline constinit Tight tight{large};
};
using WholeSpans = ScallocParts<Scarce<ScallocSpansOf<std::size_t{2} << 20, true>>>;
using ElfSpans = VirtualSpans<ScarcePages, policy::slab::kBigPage, 1, std::size_t{1} << 30>;
using Elf = ElfmallocParts<MagazineCapacity, ScarcePages, ElfSpans>;
using ElfOwn = ElfmallocParts<OwnSlabOnly, ScarcePages, ElfSpans>;
using Own = HeapyardParts<ScarcePages, PageWindow<ScarcePages, std::size_t{1} << 30>>;
// That count for the tracer; with somebody who listens.
using BfmCounting = BfmParts<BfmSteps, 8, kBfmDepth, GiveBack, ScarcePages, HugeSteps, Sampled>;
using SpansCounting = ScallocParts<Scarce<ScallocWithSamples>>;
using ElfCounting = ElfmallocParts<MagazineCapacity, ScarcePages, ElfSpans, Sampled>;
struct Mixed : ScallocParts<Scarce<ScallocDefaults>, struct MixedTag> {
  using Large = BestFitTree<Outside, HugeSteps<Outside>>;
  static inline constinit Large large;
  using Tight = TightOver<Large>;
  static inline constinit Tight tight{large};
};

// heapyard has a shell of its own.
template <class Parts>
struct ShellOf {
  using Heap = HeapShell<Parts>;
};
template <PageParts Parts>
struct ShellOf<Parts> {
  using Heap = PageHeap<Parts>;
};

template <class Parts>
constexpr bool kOneSizeEach = PageParts<Parts> || requires { requires Parts::Tight::kPacks; };

template <class Parts>
bool consistent() {
  using Heap = typename ShellOf<Parts>::Heap;
  if constexpr (PageParts<Parts>) {
    return Parts::runs.consistent() && Parts::pool.consistent();
  } else if constexpr (kOneSizeEach<Parts>) {
    return Heap::usage().free <= Heap::usage().mapped;
  } else {
    std::size_t blocks;
    return Parts::large.consistent(&blocks) && Parts::pool.consistent();
  }
}

template <class Parts>
constexpr TestedHeap tested(const char* name) {
  using Heap = typename ShellOf<Parts>::Heap;
  return {name,
          Heap::kSampled,
          PageParts<Parts>,
          kOneSizeEach<Parts>,
          Heap::begin,
          Heap::allocate,
          Heap::allocate_zeroed,
          Heap::allocate_aligned,
          Heap::free,
          Heap::resize,
          Heap::move,
          Heap::usable,
          Heap::usage,
          consistent<Parts>};
}

constexpr TestedHeap kHeaps[] = {
    tested<Full>("Bfm"),
    tested<Spans>("Scalloc"),
    tested<PerCore>("ScallocPerCore"),
    tested<Stacks>("ScallocStack"),
    tested<Elf>("Elfmalloc"),
    tested<Own>("Heapyard"),
    tested<BfmCounting>("BfmSampled"),
    tested<SpansCounting>("ScallocSampled"),
    tested<ElfCounting>("ElfmallocSampled"),
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // slower: variants are left to the other builds
    tested<Coarse>("BfmCoarse"),
    tested<OneCached>("BfmCache"),
    tested<One>("BfmSingle"),
    tested<Several>("BfmMulti"),
    tested<Lazy>("ScallocLazy"),
    tested<SmallSpans>("ScallocSmallSpans"),
    tested<WholeSpans>("ScallocWholeSpans"),
    tested<ElfOwn>("ElfmallocL"),
    tested<Mixed>("ScallocOverTree"),
    tested<SharedTables>("ScallocSharedTables"),
#endif
};
std::string name_of(const testing::TestParamInfo<TestedHeap>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Heaps, Composition, testing::ValuesIn(kHeaps), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CompositionAlone);  // none of its tests is compiled for ThreadSanitizer
INSTANTIATE_TEST_SUITE_P(Heaps, CompositionAlone, testing::ValuesIn(kHeaps), name_of);

}  // namespace
}  // namespace heapyard::test
