// SPDX-License-Identifier: Apache-2.0
// The lock-free layers under every schedule of a few threads, and under many random ones; and, so that this proves
// something, the same code over atomics with a fault, which the explorer must catch.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include "explorer.hpp"
#include "heap/policy/scalloc_classes.hpp"
#include "heap/policy/slab_classes.hpp"
#include "heap/core/tagged_stack.hpp"
#include "heap/layers/backend/span_pool.hpp"
#include "heap/layers/gate.hpp"
#include "heap/layers/spans/allocation_buffer.hpp"
#include "heap/layers/spans/bitset_slab.hpp"
#include "heap/layers/spans/list_span.hpp"
#include "heap/layers/spans/slab_heap.hpp"

namespace heapyard {
namespace {

using test::Explored;
using test::Explorer;
using test::Faultless;

// A read-modify-write is not atomic.
struct LosesUpdates : Faultless {
  static constexpr bool kSplits = true;
};
// No tag beside the pointer: the ABA problem.
struct ForgetsTags : Faultless {
  template <class T>
  static T kept(T value) {
    if constexpr (std::is_same_v<T, std::uint64_t>) return value & ((std::uint64_t{1} << 48) - 1);
    return value;
  }
};
// A span's epoch never changes: ABA again, of states.
struct ForgetsEpochs : Faultless {
  template <class T>
  static T kept(T value) {
    if constexpr (std::is_same_v<T, std::uint32_t>) {
      if (value > ListSpan::kCounter) return value & ~ListSpan::kCounter;  // it has a flag: no count of blocks
    }
    return value;
  }
};
// The same of slabs. Bit 24 is set in a slab's state and in no bitset of the classes used here.
struct ForgetsSlabEpochs : Faultless {
  template <class T>
  static T kept(T value) {
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (value & BitsetSlab::kZero) return value & ~((BitsetSlab::kListed - 1) & ~(BitsetSlab::kEpoch - 1));
    }
    return value;
  }
};

constexpr unsigned kPreemptions = 3;
constexpr std::size_t kRandom = 5'000;
// Schedules of a scenario at most. HEAPYARD_SCHEDULES asks for another number, such as 60000.
const char* const kAsked = std::getenv("HEAPYARD_SCHEDULES");
const std::size_t kMost = kAsked != nullptr ? std::strtoul(kAsked, nullptr, 10) : 20'000;

void expect_right(const Explorer::Scenario& scenario) {
  const auto all = Explorer::exhaustive(scenario, kPreemptions, kMost);
  EXPECT_FALSE(all.failed) << "schedule " << all.schedules << ": " << testing::PrintToString(all.choices);
  EXPECT_GT(all.schedules, 30u);
  const auto drawn = Explorer::random(scenario, 1, kRandom);
  EXPECT_FALSE(drawn.failed) << testing::PrintToString(drawn.choices);
}
void expect_caught(const Explorer::Scenario& scenario) {
  const auto all = Explorer::exhaustive(scenario, kPreemptions, kMost);
  EXPECT_TRUE(all.failed) << "in " << all.schedules << " schedules";
}

// --- the Treiber stack with tags: nobody pops what another has, nothing is lost

template <class Fault>
struct StackOf {
  struct Node {
    typename Explored<Fault>::template Atomic<Node*> link{nullptr};
    int held = 0;
  };
  static Explorer::Scenario scenario() {
    return [](Explorer::Bodies& bodies) {
      struct State {
        std::array<Node, 3> nodes;
        core::TaggedStack<Node, Explored<Fault>> stack;
      };
      auto state = std::make_shared<State>();
      for (Node& node : state->nodes) state->stack.push(&node);
      const auto pop = [state] {
        Node* node = state->stack.pop();
        if (node != nullptr && ++node->held != 1) Explorer::fail();
        return node;
      };
      const auto push = [state](Node* node) {
        if (node == nullptr) return;
        --node->held;
        state->stack.push(node);
      };
      bodies.push_back([=] { push(pop()); });
      // The classic: takes two, gives the first back while another thread is in the middle of its pop.
      bodies.push_back([=] {
        Node* first = pop();
        pop();
        push(first);
      });
      return [state] {
        std::set<Node*> left;
        for (Node* node; (node = state->stack.pop()) != nullptr;) {
          if (node->held != 0 || !left.insert(node).second) return false;
        }
        for (Node& node : state->nodes) {
          if (node.held == 0 && !left.contains(&node)) return false;
        }
        return true;
      };
    };
  }
};
TEST(Schedules, TaggedStackKeepsEveryNodeOnce) { expect_right(StackOf<Faultless>::scenario()); }
TEST(Schedules, ATaggedStackWithoutTagsIsCaught) { expect_caught(StackOf<ForgetsTags>::scenario()); }
TEST(Schedules, ATaggedStackThatLosesUpdatesIsCaught) { expect_caught(StackOf<LosesUpdates>::scenario()); }

// --- the span-pool: a span is given to one thread at a time

struct TwoSlots {
  static constexpr unsigned kClasses = 2, kSlots = 2, kFine = 1;
  static constexpr std::array<policy::SpanShape, 2> kShapes = {{{16, 1, 64, 0}, {32, 1, 64, 1}}};
};

template <class Fault>
struct PoolOf {
  struct Span {
    using Concurrency = Explored<Fault>;
    typename Concurrency::template Atomic<Span*> link{nullptr};
    Span* before = nullptr;
    std::uint32_t there = 64;
    unsigned size_class = 0;
    int held = 0;
    unsigned in_class() const { return size_class; }
  };
  struct NoMoreSpans {
    void* allocate(std::size_t, std::size_t&) { return nullptr; }
    bool extend(void*, std::size_t, std::size_t&) { return false; }
    void give_back(void*, std::size_t&, bool) {}
    bool sparing() const { return false; }
  };
  static Explorer::Scenario scenario() {
    return [](Explorer::Bodies& bodies) {
      struct State {
        std::array<Span, 3> spans;
        NoMoreSpans none;
        SpanPool<TwoSlots, Span, NoMoreSpans, NoMadvise, 1> pool{none};
      };
      auto state = std::make_shared<State>();
      for (Span& span : state->spans) state->pool.put(&span, 0);
      const auto get = [state](unsigned c) {
        Span* span = state->pool.get(c, 0);
        if (span == nullptr) return span;
        if (++span->held != 1) Explorer::fail();
        span->size_class = c;
        return span;
      };
      const auto put = [state](Span* span) {
        if (span == nullptr) return;
        --span->held;
        state->pool.put(span, 0);
      };
      bodies.push_back([=] { put(get(1)); });
      bodies.push_back([=] {
        Span* first = get(0);
        get(0);
        put(first);
      });
      return [state] {
        std::set<Span*> left;
        for (Span* span; (span = state->pool.get(0, 0)) != nullptr;) {
          if (span->held != 0 || !left.insert(span).second) return false;
        }
        return std::ranges::all_of(state->spans, [&](Span& span) { return span.held != 0 || left.contains(&span); });
      };
    };
  }
};
TEST(Schedules, SpanPoolGivesASpanToOneThread) { expect_right(PoolOf<Faultless>::scenario()); }
TEST(Schedules, ASpanPoolWithoutTagsIsCaught) { expect_caught(PoolOf<ForgetsTags>::scenario()); }
TEST(Schedules, ASpanPoolThatLosesUpdatesIsCaught) { expect_caught(PoolOf<LosesUpdates>::scenario()); }

// --- spans with remote stacks and epochs: whoever frees the last block, the span goes to the pool, once

struct SmallClasses {
  static constexpr unsigned kClasses = 2;
  static constexpr std::array<policy::SpanShape, 2> kShapes = {{{0, 0, 0, 0}, {16, 3, 256, 0}}};
};

template <class Fault, template <class> class Lists = ReusableDeque>
struct SpansOf {
  using Span = ListSpanOf<Explored<Fault>>;
  struct alignas(256) Memory {
    Span span{};
    char blocks[3 * 16];
  };
  // Hands out its spans in order, again when they came back; knows who has which.
  struct Pool {
    using Span = SpansOf::Span;
    std::array<Memory, 4> memory{};
    std::array<bool, 4> out{};
    std::array<int, 4> live{};  // blocks

    std::size_t index(const void* inside) const {
      return static_cast<std::size_t>(static_cast<const char*>(inside) - reinterpret_cast<const char*>(memory.data())) /
             sizeof(Memory);
    }
    Span* get(unsigned, unsigned) {
      for (std::size_t i = 0; i < memory.size(); ++i) {
        if (!std::exchange(out[i], true)) return &memory[i].span;
      }
      return nullptr;
    }
    void put(Span* span, unsigned) {
      const std::size_t at = index(span);
      if (!std::exchange(out[at], false) || live[at] != 0) Explorer::fail();  // there already, or in use
    }
    void expect_empty() {}
    std::size_t spans_out() const { return static_cast<std::size_t>(std::ranges::count(out, true)); }
  };
  using Buffer = AllocationBuffer<SmallClasses, Pool, 40, EagerCleanup, Lists>;

  struct State {
    Pool pool;
    Buffer own, other;
    State() {
      own.open(1);
      other.open(2);
    }
    static Span* of(void* block) {
      return reinterpret_cast<Span*>(reinterpret_cast<std::uintptr_t>(block) & ~std::uintptr_t{255});
    }
    void* allocate(Buffer& buffer) {
      void* block = buffer.allocate(1);
      if (block == nullptr) block = buffer.refill(pool, 1);
      if (block == nullptr) return nullptr;
      ++pool.live[pool.index(block)];
      return std::memset(block, 0xAA, 16);
    }
    void free(Buffer& buffer, void* block) {
      --pool.live[pool.index(block)];
      if (!buffer.free(of(block), block)) Buffer::release(pool, &buffer, of(block), block);
    }
  };

  // The owner frees one block of a span that is no longer hot while another thread frees the others.
  static Explorer::Scenario last_blocks() {
    return [](Explorer::Bodies& bodies) {
      auto state = std::make_shared<State>();
      std::array<void*, 4> blocks;
      for (void*& block : blocks) block = state->allocate(state->own);  // the fourth is of the next span
      bodies.push_back([=] { state->free(state->own, blocks[0]); });
      bodies.push_back([=] {
        state->free(state->other, blocks[1]);
        state->free(state->other, blocks[2]);
      });
      return [=] { return state->pool.spans_out() == 1 && !state->pool.out[0]; };
    };
  }

  // The owner uses its hot span up, lets it float and takes the next, while another thread frees all of it.
  static Explorer::Scenario floating() {
    return [](Explorer::Bodies& bodies) {
      auto state = std::make_shared<State>();
      std::array<void*, 3> blocks;
      for (void*& block : blocks) block = state->allocate(state->own);
      bodies.push_back([=] {
        void* next = state->allocate(state->own);
        if (std::ranges::find(blocks, next) == blocks.end()) state->free(state->own, next);
      });
      bodies.push_back([=] {
        for (void* block : blocks) state->free(state->other, block);
      });
      return [=] {
        // Freed blocks are in a hot span or the span is in the pool: closing finds all that is left.
        state->own.close(state->pool);
        state->other.close(state->pool);
        return state->pool.spans_out() <= 1;
      };
    };
  }

  // The owner ends while another thread frees: the span is adopted, or goes to the pool, and is not lost.
  static Explorer::Scenario ending() {
    return [](Explorer::Bodies& bodies) {
      auto state = std::make_shared<State>();
      std::array<void*, 3> blocks;
      for (void*& block : blocks) block = state->allocate(state->own);
      bodies.push_back([=] { state->own.close(state->pool); });
      bodies.push_back([=] {
        for (void* block : blocks) state->free(state->other, block);
      });
      return [=] {
        state->other.close(state->pool);
        return state->pool.spans_out() == 0;
      };
    };
  }

  // Memory is short: all lists are looked through while another thread frees a listed span's last block, and its owner
  // ends or takes it.
  static Explorer::Scenario draining(bool ends) {
    return [ends](Explorer::Bodies& bodies) {
      auto state = std::make_shared<State>();
      std::array<void*, 4> blocks;
      for (void*& block : blocks) block = state->allocate(state->own);  // the fourth is of the next span
      for (std::size_t i : {0, 1}) state->free(state->own, blocks[i]);
      bodies.push_back([=] { state->own.release_empty(state->pool); });
      bodies.push_back([=] { state->free(state->other, blocks[2]); });
      bodies.push_back([=] {
        if (ends) return state->own.close(state->pool);
        std::array<void*, 3> rest;  // the second leaves the hot span and takes the listed one, or a new one
        for (void*& block : rest) block = state->allocate(state->own);
        if (std::set<void*>(rest.begin(), rest.end()).size() != rest.size()) Explorer::fail();
      });
      return [=] {
        state->own.release_empty(state->pool);
        if (!ends) state->own.close(state->pool);
        state->other.close(state->pool);
        return !ends || state->pool.spans_out() == 1;  // that of the fourth block, which is still out
      };
    };
  }

  // A span becomes empty, is used anew and floats again, while a thread that counted it before still thinks about it.
  static Explorer::Scenario used_anew() {
    return [](Explorer::Bodies& bodies) {
      auto state = std::make_shared<State>();
      std::array<void*, 4> blocks;
      for (void*& block : blocks) block = state->allocate(state->own);
      state->free(state->own, blocks[0]);
      bodies.push_back([=] {
        state->free(state->own, blocks[1]);
        // The rest of the hot span, all of the next, and one more, so that the next one floats.
        std::array<void*, 6> again;
        for (void*& block : again) block = state->allocate(state->own);
        if (std::set<void*>(again.begin(), again.end()).size() != again.size()) Explorer::fail();
      });
      bodies.push_back([=] { state->free(state->other, blocks[2]); });
      return [] { return true; };
    };
  }
};
TEST(Schedules, TheLastBlocksOfASpanBringItToThePoolOnce) { expect_right(SpansOf<Faultless>::last_blocks()); }
TEST(Schedules, ASpanMayFloatWhileItsBlocksComeBack) { expect_right(SpansOf<Faultless>::floating()); }
TEST(Schedules, ASpanWhoseOwnerEndsIsNotLost) { expect_right(SpansOf<Faultless>::ending()); }
TEST(Schedules, ASpanMayBeUsedAnewWhileSomeoneStillThinksAboutIt) { expect_right(SpansOf<Faultless>::used_anew()); }
TEST(Schedules, ASpanMayFloatOntoALockFreeStack) { expect_right(SpansOf<Faultless, ReusableStack>::floating()); }
TEST(Schedules, ASpanOnALockFreeStackIsNotLostWhenItsOwnerEnds) {
  expect_right(SpansOf<Faultless, ReusableStack>::ending());
}
TEST(Schedules, MemoryMayRunShortWhileAnOwnerEnds) {
  expect_right(SpansOf<Faultless, ReusableStack>::draining(true));
  expect_right(SpansOf<Faultless>::draining(true));
}
TEST(Schedules, MemoryMayRunShortWhileAnOwnerTakesASpan) {
  expect_right(SpansOf<Faultless, ReusableStack>::draining(false));
}
TEST(Schedules, ALockFreeStackOfSpansThatLosesUpdatesIsCaught) {
  expect_caught(SpansOf<LosesUpdates, ReusableStack>::ending());
}
TEST(Schedules, RemoteStacksThatLoseUpdatesAreCaught) { expect_caught(SpansOf<LosesUpdates>::last_blocks()); }
TEST(Schedules, SpansWithoutEpochsAreCaught) { expect_caught(SpansOf<ForgetsEpochs>::used_anew()); }

// A list gets another owner just when it was drained: what that one has listed is looked at once, and stays.
TEST(Schedules, AStackOfSpansMayChangeHandsWhileItIsDrained) {
  ListSpan empty{}, listed{};
  empty.local_count = 3;
  listed.owner = 2;
  ReusableStack<ListSpan> list;
  int settled = 0;
  const auto settle = [&](ListSpan* span) {
    if (++settled < 5) list.add(span, span->sample(), 2, [](ListSpan*) { FAIL(); });
  };
  list.open(1);
  list.add(&empty, empty.sample(), 1, settle);
  const auto put = [&](ListSpan* span) {
    EXPECT_EQ(span, &empty);
    list.open(2);
    list.add(&listed, listed.sample(), 2, settle);
  };
  list.drain(3, false, put, settle);
  EXPECT_EQ(settled, 1);
  EXPECT_EQ(list.take(2, settle), &listed);
  EXPECT_EQ(list.take(2, settle), nullptr);
}

// --- slabs: a bitset and a count, moved by whoever frees

constexpr unsigned kSlabClass = 24;  // three objects, offered to all from one free one on
constexpr unsigned kSingle = 25;     // one object

template <class Fault>
struct SlabsOf {
  using Slab = BitsetSlabOf<Explored<Fault>>;
  struct Pages {
    using Span = Slab;
    static constexpr std::size_t kPages = 2;
    std::array<char*, kPages> pages;
    std::array<bool, kPages> out{};
    std::array<int, kPages> live{};  // objects

    Pages() {
      static char* const memory =
          static_cast<char*>(mmap(nullptr, (kPages + 1) * policy::slab::kBigPage, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
      for (std::size_t i = 0; i < kPages; ++i) {
        pages[i] = memory + i * policy::slab::kBigPage;
        std::memset(pages[i], 0, 128);
      }
    }
    Slab* get(unsigned, unsigned) {
      for (std::size_t i = 0; i < kPages; ++i) {
        if (!std::exchange(out[i], true)) return reinterpret_cast<Slab*>(pages[i]);
      }
      return nullptr;
    }
    void put(Slab* slab, unsigned) {
      for (std::size_t i = 0; i < kPages; ++i) {
        if (pages[i] != reinterpret_cast<char*>(slab)) continue;
        if (!std::exchange(out[i], false) || live[i] != 0) Explorer::fail();  // there already, or in use
      }
    }
    void trim() {}
    std::size_t pages_out() const { return static_cast<std::size_t>(std::ranges::count(out, true)); }
  };

  struct State {
    Pages small, big;
    SlabHeap<Pages, Pages, 1> heap{small, big};
    std::array<std::array<int, 3>, Pages::kPages> held{};

    // The objects of one claim, each marked as held by one.
    std::vector<unsigned> take(Slab* slab) {
      std::vector<unsigned> objects;
      for (std::uint64_t bits = slab->take(0); bits != 0; bits &= bits - 1) {
        objects.push_back(static_cast<unsigned>(std::countr_zero(bits)));
        ++big.live[page(slab)];
        if (++held[page(slab)][objects.back() / 16] != 1) Explorer::fail();
      }
      return objects;
    }
    void give(Slab* slab, const std::vector<unsigned>& objects) {
      std::uint64_t bits = 0;
      for (const unsigned bit : objects) {
        --held[page(slab)][bit / 16];
        --big.live[page(slab)];
        bits |= std::uint64_t{1} << bit;
      }
      if (bits != 0) heap.free(slab, 0, bits, 0);
    }
    std::size_t page(Slab* slab) const { return reinterpret_cast<char*>(slab) == big.pages[0] ? 0 : 1; }
  };

  // One thread is done with its slab while two others free its objects: the page goes back, once.
  static Explorer::Scenario last_objects() {
    return [](Explorer::Bodies& bodies) {
      auto state = std::make_shared<State>();
      Slab* slab = state->heap.claim(kSlabClass, 0);
      const auto objects = state->take(slab);
      bodies.push_back([=] { state->heap.unclaim(slab, 0); });
      bodies.push_back([=] { state->give(slab, {objects[0], objects[1]}); });
      bodies.push_back([=] { state->give(slab, {objects[2]}); });
      return [=] { return objects.size() == 3 && state->big.pages_out() == 0; };
    };
  }

  // A slab on offer is claimed by one thread, emptied by another, and made anew by a third.
  static Explorer::Scenario claimed_and_emptied() {
    return [](Explorer::Bodies& bodies) {
      auto state = std::make_shared<State>();
      Slab* slab = state->heap.claim(kSlabClass, 0);
      const auto objects = state->take(slab);
      state->heap.unclaim(slab, 0);
      state->give(slab, {objects[0]});  // now it is on offer
      const auto use = [state] {
        Slab* claimed = state->heap.claim(kSlabClass, 0);
        if (claimed == nullptr) return Explorer::fail();
        const auto taken = state->take(claimed);
        if (taken.empty()) Explorer::fail();  // a slab that can be claimed has a free object
        state->give(claimed, taken);
        state->heap.unclaim(claimed, 0);
      };
      bodies.push_back(use);
      bodies.push_back([=] {
        state->give(slab, {objects[1]});
        state->give(slab, {objects[2]});
      });
      return [=] { return state->big.pages_out() == 0; };
    };
  }

  // A page goes back and becomes a slab of another class, while a thread that sampled the old one thinks about it.
  static Explorer::Scenario made_anew() {
    return [](Explorer::Bodies& bodies) {
      auto state = std::make_shared<State>();
      Slab* slab = state->heap.claim(kSingle, 0);
      const auto object = state->take(slab);
      bodies.push_back([=] {
        state->heap.unclaim(slab, 0);
        Slab* other = state->heap.claim(kSlabClass, 0);
        if (other == nullptr) return Explorer::fail();
        auto objects = state->take(other);
        state->heap.unclaim(other, 0);
        state->give(other, {objects.back()});
        objects.pop_back();
        state->give(other, objects);
      });
      bodies.push_back([=] { state->give(slab, object); });
      return [=] { return state->big.pages_out() == 0; };
    };
  }
};
TEST(Schedules, TheLastObjectsOfASlabBringItsPageBackOnce) { expect_right(SlabsOf<Faultless>::last_objects()); }
TEST(Schedules, ASlabIsClaimedOrEmptiedNotBoth) { expect_right(SlabsOf<Faultless>::claimed_and_emptied()); }
TEST(Schedules, APageMayBecomeAnotherSlab) { expect_right(SlabsOf<Faultless>::made_anew()); }
TEST(Schedules, SlabsThatLoseUpdatesAreCaught) { expect_caught(SlabsOf<LosesUpdates>::last_objects()); }
TEST(Schedules, SlabsWithoutEpochsAreCaught) { expect_caught(SlabsOf<ForgetsSlabEpochs>::made_anew()); }

// --- the gate: while a fork has it closed nobody is inside, and nobody waits for ever

// Words of 32 bits stay zero: nobody is ever seen inside, and the gate is never seen closed.
struct ForgetsWords : Faultless {
  template <class T>
  static T kept(T value) {
    if constexpr (std::is_same_v<T, std::uint32_t>) return 0;
    return value;
  }
};

template <class Fault>
struct GateIn {
  using Gate = GateOf<Explored<Fault>, 2>;
  using Place = typename Gate::Place;
  struct State {
    Place chunks[3][2]{};
    std::size_t used = 0;
    Gate gate;
    int inside = 0, stopped = 0;

    Place* place() {
      return gate.take_place([this](std::size_t) { return static_cast<void*>(chunks[used++]); });
    }
    void work() {
      ++inside;
      Explorer::step();
      --inside;
    }
    // As a fork does.
    void fork() {
      gate.close();
      gate.wait_until_empty(nullptr, Gate::kForEver);
      for (int look = 0; look < 2; ++look) {
        if (inside != 0) Explorer::fail();
        Explorer::step();
      }
      gate.open();
    }
    void stop_left_behind() {
      while (Place* place = gate.take_left_behind()) {
        ++stopped;
        gate.give_place_back(place);
      }
    }
  };

  // `forks`: of so many threads, which overlap.
  static Explorer::Scenario visits(int forks) {
    return [=](Explorer::Bodies& bodies) {
      auto state = std::make_shared<State>();
      Place* place = state->place();
      bodies.push_back([=] {
        for (int visit = forks; visit < 3; ++visit) {
          if (!state->gate.enter(*place)) continue;
          state->work();
          state->gate.leave(*place);
        }
      });
      for (int i = 0; i < forks; ++i) bodies.push_back([=] { state->fork(); });
      return [=] { return !state->gate.closed(); };
    };
  }
  // A thread visits for the first time and gets its place.
  static Explorer::Scenario first_visit() {
    return [](Explorer::Bodies& bodies) {
      auto state = std::make_shared<State>();
      bodies.push_back([=] {
        if (!state->gate.enter()) return;
        state->work();
        Place* place = state->place();
        state->gate.move_to(*place);
        state->work();
        state->gate.leave(*place);
      });
      bodies.push_back([=] { state->fork(); });
      return [=] { return !state->gate.closed(); };
    };
  }
  // A thread ends: it stops its front end, or the fork does.
  static Explorer::Scenario end() {
    return [](Explorer::Bodies& bodies) {
      auto state = std::make_shared<State>();
      Place* place = state->place();
      bodies.push_back([=] {
        Gate& gate = state->gate;
        if (gate.enter(*place)) {
          ++state->stopped;
          return gate.leave(*place);
        }
        gate.leave_behind(*place, state.get());
        if (!gate.enter()) return;
        state->stop_left_behind();
        gate.leave();
      });
      bodies.push_back([=] {
        state->fork();
        if (!state->gate.enter()) return;
        state->stop_left_behind();
        state->gate.leave();
      });
      return [=] { return state->stopped == 1; };
    };
  }
};
TEST(Schedules, NobodyIsInsideWhileAForkHasTheGateClosed) { expect_right(GateIn<Faultless>::visits(1)); }
TEST(Schedules, ForksMayOverlap) { expect_right(GateIn<Faultless>::visits(2)); }
TEST(Schedules, AThreadThatGetsItsPlaceIsSeenAllTheTime) { expect_right(GateIn<Faultless>::first_visit()); }
TEST(Schedules, AThreadThatEndsBesideAForkIsStoppedOnce) { expect_right(GateIn<Faultless>::end()); }
TEST(Schedules, AGateThatForgetsIsCaught) { expect_caught(GateIn<ForgetsWords>::visits(1)); }
TEST(Schedules, AGateThatLosesUpdatesIsCaught) { expect_caught(GateIn<LosesUpdates>::visits(2)); }

}  // namespace
}  // namespace heapyard
