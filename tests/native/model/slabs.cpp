// SPDX-License-Identifier: Apache-2.0
// Slabs: a bitset and a state word, moved by whoever frees.
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "heap/layers/spans/bitset_slab.hpp"
#include "heap/layers/spans/slab_heap.hpp"
#include "heap/policy/slab_classes.hpp"
#include "protocols.hpp"

namespace heapyard::model {
namespace {

constexpr unsigned kSlabClass = 24;  // three objects, offered to all from one free one on
constexpr unsigned kSingle = 25;     // one object
using Slab = BitsetSlabOf<Checked>;

struct Pages {
  using Span = Slab;
  static constexpr std::size_t kPages = 2;
  std::array<char*, kPages> pages;
  std::array<std::atomic<bool>, kPages> out{};
  std::array<int, kPages> live{};  // objects

  Pages() {
    static char* const memory =
        static_cast<char*>(mmap(nullptr, (kPages + 1) * policy::slab::kBigPage, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (std::size_t i = 0; i < kPages; ++i) {
      pages[i] = memory + i * policy::slab::kBigPage;
      std::memset(pages[i], 0, 128);
      for (const unsigned c : {kSlabClass, kSingle}) each_object(pages[i], c, [](int& object) { object = 0; });
    }
  }
  template <class Work>
  static void each_object(char* page, unsigned c, Work work) {
    const policy::SlabShape& shape = policy::SlabClasses::kShapes[c];
    for (unsigned i = 0; i < shape.objects; ++i)
      work(*reinterpret_cast<int*>(page + shape.first + std::size_t{i} * shape.bytes));
  }
  std::size_t index(const Slab* slab) const { return reinterpret_cast<const char*>(slab) == pages[0] ? 0 : 1; }
  void count(const Slab* slab, int more) {
    const Unseen unseen;
    live[index(slab)] += more;
  }
  bool in_use(const Slab* slab) const {
    const Unseen unseen;
    return live[index(slab)] != 0;
  }
  Slab* get(unsigned, unsigned) {
    for (std::size_t i = 0; i < kPages; ++i) {
      if (!out[i].load(std::memory_order_relaxed) && !out[i].exchange(true, std::memory_order_acquire))
        return reinterpret_cast<Slab*>(pages[i]);
    }
    return nullptr;
  }
  void put(Slab* slab, unsigned) {
    check(!in_use(slab), "a page comes back with an object in use");
    // Whoever used it last must be done.
    each_object(reinterpret_cast<char*>(slab), slab->in_class(), [](int& object) { object = 0; });
    check(out[index(slab)].exchange(false, std::memory_order_release), "a page comes back that is there");
  }
  void trim(bool) {}
  std::size_t pages_out() const { return static_cast<std::size_t>(out[0]) + out[1]; }
};

struct State {
  Pages small, big;
  SlabHeap<Pages, Pages, 1> heap{small, big};

  // The objects of one claim, written by who has them.
  std::uint64_t take(Slab* slab) {
    const std::uint64_t taken = slab->take(0);
    for (std::uint64_t bits = taken; bits != 0; bits &= bits - 1) {
      int* object = static_cast<int*>(slab->object_of(0, static_cast<unsigned>(std::countr_zero(bits))));
      check(*object != 1, "two threads have the same object");
      *object = 1;
    }
    big.count(slab, std::popcount(taken));
    return taken;
  }
  void give(Slab* slab, std::uint64_t objects) {
    if (objects == 0) return;
    big.count(slab, -std::popcount(objects));
    for (std::uint64_t bits = objects; bits != 0; bits &= bits - 1)
      *static_cast<int*>(slab->object_of(0, static_cast<unsigned>(std::countr_zero(bits)))) = 2;
    heap.free(slab, 0, objects, 0);
  }
};

std::uint64_t first(std::uint64_t bits) { return bits & -bits; }

// One thread is done with its slab while others free its objects: the page goes back, once.
Program last_objects(unsigned threads) {
  return [threads](Bodies& bodies) {
    auto state = std::make_shared<State>();
    Slab* slab = state->heap.claim(kSlabClass, 0);
    const std::uint64_t all = state->take(slab), one = first(all);
    bodies.push_back([=] { state->heap.unclaim(slab, 0); });
    bodies.push_back([=] { state->give(slab, threads == 2 ? all : all & ~one); });
    if (threads == 3) bodies.push_back([=] { state->give(slab, one); });
    return [=] { return std::popcount(all) == 3 && state->big.pages_out() == 0; };
  };
}

// A slab on offer is claimed by one thread and emptied by another.
Program claimed_and_emptied() {
  return [](Bodies& bodies) {
    auto state = std::make_shared<State>();
    Slab* slab = state->heap.claim(kSlabClass, 0);
    const std::uint64_t all = state->take(slab), one = first(all), two = first(all & ~one);
    state->heap.unclaim(slab, 0);
    state->give(slab, one);  // now it is on offer
    bodies.push_back([=] {
      Slab* claimed = state->heap.claim(kSlabClass, 0);
      check(claimed != nullptr, "no slab");
      const std::uint64_t taken = state->take(claimed);
      check(taken != 0, "a slab that can be claimed has no free object");
      state->give(claimed, taken);
      state->heap.unclaim(claimed, 0);
    });
    bodies.push_back([=] {
      state->give(slab, two);
      state->give(slab, all & ~one & ~two);
    });
    return [=] { return state->big.pages_out() == 0; };
  };
}

// A page goes back and becomes a slab of another class, while a thread that sampled the old one thinks about it.
Program made_anew() {
  return [](Bodies& bodies) {
    auto state = std::make_shared<State>();
    Slab* slab = state->heap.claim(kSingle, 0);
    const std::uint64_t object = state->take(slab);
    bodies.push_back([=] {
      state->heap.unclaim(slab, 0);
      Slab* other = state->heap.claim(kSlabClass, 0);
      check(other != nullptr, "no slab");
      const std::uint64_t objects = state->take(other);
      state->heap.unclaim(other, 0);
      state->give(other, first(objects));
      state->give(other, objects & ~first(objects));
    });
    bodies.push_back([=] { state->give(slab, object); });
    return [=] { return state->big.pages_out() == 0; };
  };
}

}  // namespace

void add_slabs(Protocols& all) {
  const char *slab = "heap/layers/spans/bitset_slab.hpp", *heap = "heap/layers/spans/slab_heap.hpp";
  all.push_back({"slabs: the last objects", slab, 2, true, last_objects(2)});
  all.push_back({"slabs: the last objects", slab, 3, false, last_objects(3)});
  all.push_back({"slabs: claimed and emptied", heap, 2, false, claimed_and_emptied()});
  all.push_back({"slabs: a page is made anew", heap, 2, false, made_anew()});
}

}  // namespace heapyard::model
