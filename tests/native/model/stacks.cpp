// SPDX-License-Identifier: Apache-2.0
// Stacks, lists and pools that any thread may enter.
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>

#include "heap/core/free_stack.hpp"
#include "heap/core/tagged_stack.hpp"
#include "heap/layers/backend/span_pool.hpp"
#include "heap/layers/block_marks.hpp"
#include "heap/layers/frontend/depot.hpp"
#include "heap/layers/frontend/front_ends.hpp"
#include "heap/layers/shuffled_slots.hpp"
#include "heap/os/lock.hpp"
#include "heap/os/threads.hpp"
#include "heap/policy/scalloc_classes.hpp"
#include "protocols.hpp"

namespace heapyard::model {
namespace {

// --- the stack with tags

struct Node : Held {
  std::atomic<Node*> link{nullptr};
};
struct Stack {
  std::array<Node, 3> nodes;
  core::TaggedStack<Node> stack;

  Stack() {
    for (Node& node : nodes) stack.push(&node);
  }
  Node* pop() {
    Node* node = stack.pop();
    if (node != nullptr) node->take();
    return node;
  }
  void push(Node* node) {
    if (node == nullptr) return;
    node->give();
    stack.push(node);
  }
  bool whole() {
    std::size_t there = 0, held = 0;
    for (Node* node; there <= nodes.size() && (node = stack.pop()) != nullptr;) there += !node->held();
    for (const Node& node : nodes) held += node.held();
    return there + held == nodes.size();
  }
};
// One takes two and gives the first back, while another is in the middle of its pop.
Program stack(unsigned threads) {
  return [threads](Bodies& bodies) {
    auto state = std::make_shared<Stack>();
    bodies.push_back([=] { state->push(state->pop()); });
    bodies.push_back([=] {
      Node* first = state->pop();
      state->pop();
      state->push(first);
    });
    if (threads == 3) bodies.push_back([=] { state->pop(); });
    return [state] { return state->whole(); };
  };
}

// --- blocks put aside while a fork has the heap closed

struct Block {
  void* link = nullptr;
  Held freed;
};
Program put_aside(unsigned threads) {
  return [threads](Bodies& bodies) {
    struct State {
      core::FreeStack stack;
      std::array<Block, 3> blocks;
      static void free(void* block) { static_cast<Block*>(block)->freed.take(); }
    };
    auto state = std::make_shared<State>();
    bodies.push_back([=] {
      state->stack.push(&state->blocks[0]);
      if (threads == 2) state->stack.push(&state->blocks[1]);
      state->stack.work_off(1, State::free);
    });
    bodies.push_back([=] {
      state->stack.push(&state->blocks[2]);
      state->stack.work_off(1, State::free);
    });
    if (threads == 3) bodies.push_back([=] { state->stack.push(&state->blocks[1]); });
    return [state] {
      state->stack.work_off(~0u, State::free);
      for (const Block& block : state->blocks) {
        if (!block.freed.held()) return false;
      }
      return true;
    };
  };
}

// --- front ends, and spans, that were ever made: a list that only grows

struct Made : Held {
  std::atomic<Made*> link{nullptr};
  Made* before = nullptr;
  int number = 0;
};
Program front_ends(unsigned threads) {
  return [threads](Bodies& bodies) {
    struct State {
      FrontEnds<Made> all;
      std::array<Made, 2> made;
      void start(unsigned i) {
        Made* one = all.take();
        if (one == nullptr) {
          one = &made[i];
          one->number = 1;
          all.add(one);
        }
        one->take();
        one->give();
        all.give_back(one);
      }
    };
    auto state = std::make_shared<State>();
    for (unsigned i = 0; i < threads - 1; ++i) bodies.push_back([=] { state->start(i); });
    bodies.push_back(
        [=] { state->all.for_each([](Made* one) { check(one->number == 1, "a front end that is not made yet"); }); });
    return [state] {
      std::size_t listed = 0, made = 0;
      state->all.for_each([&](Made*) { ++listed; });
      for (const Made& one : state->made) made += static_cast<std::size_t>(one.number);
      return listed == made;
    };
  };
}

struct TwoSlots {
  static constexpr unsigned kClasses = 2, kSlots = 2, kFine = 1;
  static constexpr std::array<policy::SpanShape, 2> kShapes = {{{16, 1, 64, 0}, {32, 1, 64, 1}}};
};
struct PooledSpan : Held {
  using Concurrency = core::Concurrency;
  std::atomic<PooledSpan*> link{nullptr};
  PooledSpan* before = nullptr;
  std::uint32_t there = 64;
  unsigned size_class = 0;
  unsigned in_class() const { return size_class; }
};
struct FewSpans {
  std::array<PooledSpan, 3> spans;
  std::atomic<unsigned> cut{1};  // the first is there
  void* allocate(std::size_t, std::size_t& there) {
    there = 64;
    const unsigned at = cut.fetch_add(1, std::memory_order_relaxed);
    return at < spans.size() ? &spans[at] : nullptr;
  }
  bool extend(void*, std::size_t, std::size_t&) { return false; }
  void give_back(void*, std::size_t&, bool) {}
  bool sparing() const { return false; }
};
Program span_pool(unsigned threads) {
  return [threads](Bodies& bodies) {
    struct State {
      FewSpans few;
      SpanPool<TwoSlots, PooledSpan, FewSpans, NoMadvise, 1> pool{few};
      PooledSpan* get(unsigned c) {
        PooledSpan* span = pool.get(c, 0);
        if (span == nullptr) return span;
        span->take();
        span->size_class = c;
        return span;
      }
      void put(PooledSpan* span) {
        if (span == nullptr) return;
        span->give();
        pool.put(span, 0);
      }
    };
    auto state = std::make_shared<State>();
    state->pool.put(&state->few.spans[0], 0);
    bodies.push_back([=] { state->put(state->get(1)); });
    bodies.push_back([=] { state->put(state->get(0)); });
    if (threads == 3)
      bodies.push_back(
          [=] { state->pool.for_each([](PooledSpan* span) { check(span->there == 64, "not made yet"); }); });
    return [state] {
      state->few.cut = 3;
      unsigned there = 0, made = 1;
      for (PooledSpan* span; there < 4 && (span = state->get(0)) != nullptr;) ++there;
      state->pool.for_each([&](PooledSpan*) { ++made; });
      return there == made;
    };
  };
}

// --- batches that threads exchange

struct OneClass {
  static constexpr unsigned kClasses = 2;
  static constexpr std::size_t kLargest = 16;
  static constexpr bool is_small(std::size_t) { return true; }
  static constexpr unsigned small_class_of(std::size_t) { return 1; }
  static constexpr unsigned class_of(std::size_t) { return 1; }
  static constexpr std::size_t bytes_of(unsigned) { return 16; }
};
struct BatchPages {
  static inline char* memory = nullptr;
  static void* map(std::size_t bytes) {
    if (memory == nullptr)
      memory = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    return memory;
  }
  static bool unmap(void*, std::size_t) { return true; }
  static bool decommit(void*, std::size_t) { return true; }
};
Program depot(unsigned threads) {
  return [threads](Bodies& bodies) {
    struct State {
      Depot<OneClass, BatchPages> depot;
      std::array<Held, 3> blocks;
      void put(unsigned i) {
        void* block = &blocks[i];
        check(depot.put(1, &block, 1, 64), "refused");
      }
      void get() {
        void* block[Depot<OneClass, BatchPages>::kMost];
        if (depot.get(1, block) == 1) static_cast<Held*>(block[0])->take();
      }
    };
    auto state = std::make_shared<State>();
    state->put(0);  // makes batches
    bodies.push_back([=] {
      state->put(1);
      if (threads == 2) state->get();
    });
    bodies.push_back([=] {
      state->get();
      state->put(2);
    });
    if (threads == 3) bodies.push_back([=] { state->get(); });
    return [state] {
      for (unsigned i = 0; i < 4; ++i) state->get();
      for (const Held& block : state->blocks) {
        if (!block.held()) return false;
      }
      return true;
    };
  };
}

// --- marks of live blocks: two threads need the same piece first

struct PiecePages {
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  static inline char* memory = nullptr;
  static inline std::size_t used = 0;
  static void* map(std::size_t bytes) {
    const Unseen unseen;
    if (memory == nullptr)
      memory =
          static_cast<char*>(mmap(nullptr, 4 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    char* piece = memory + used++ * kBytes;
    std::memset(piece, 0, bytes < 128 ? bytes : 128);  // all that the blocks below use
    return piece;
  }
  static bool unmap(void*, std::size_t) { return true; }
  static bool decommit(void*, std::size_t) { return true; }
};
Program block_marks(unsigned threads) {
  return [threads](Bodies& bodies) {
    PiecePages::used = 0;
    auto marks = std::make_shared<BlockMarks<PiecePages>>();
    marks->lay_out(0, 4096);
    static constexpr auto block = [](unsigned i) { return reinterpret_cast<const void*>(std::uintptr_t{i} * 16); };
    for (unsigned t = 0; t < threads; ++t) {
      bodies.push_back([=] {
        marks->set(block(t));
        check(marks->has(block(t)), "a mark is lost");
        if (t == 0) check(marks->take(block(0)), "a mark is lost");
      });
    }
    return [=] { return !marks->has(block(0)) && marks->has(block(1)) && (threads == 2 || marks->has(block(2))); };
  };
}

// --- blocks that wait in slots, in no order

Program shuffled_slots() {
  return [](Bodies& bodies) {
    struct State {
      ShuffledSlots<1> slots;
      std::array<Held, 3> blocks;
      static void take(void* block) {
        if (block != nullptr) static_cast<Held*>(block)->take();
      }
    };
    auto state = std::make_shared<State>();
    for (unsigned t = 0; t < 2; ++t) {
      bodies.push_back([=] {
        state->blocks[t].take();  // the program writes into it
        state->blocks[t].give();
        State::take(state->slots.exchange(&state->blocks[t]));
      });
    }
    bodies.push_back([=] { state->slots.drain(State::take); });
    return [state] {
      state->slots.drain(State::take);
      return state->blocks[0].held() && state->blocks[1].held();
    };
  };
}

// --- the lock, and what is done once

Program lock(unsigned threads) {
  return [threads](Bodies& bodies) {
    struct State {
      os::Lock lock;
      int sum = 0;
    };
    auto state = std::make_shared<State>();
    for (unsigned t = 0; t < threads; ++t) {
      bodies.push_back([=] {
        if (t == 2) {
          if (!state->lock.try_lock()) return;
        } else {
          state->lock.lock();
        }
        ++state->sum;
        state->lock.unlock();
      });
    }
    return [=] { return state->sum >= 2; };
  };
}

Program once(unsigned threads) {
  return [threads](Bodies& bodies) {
    struct State {
      os::OnceAcrossForks once;
      int made = 0;
    };
    auto state = std::make_shared<State>();
    for (unsigned t = 0; t < threads; ++t) {
      bodies.push_back([=] {
        state->once.run([&] { ++state->made; });
        check(state->made == 1, "not made, or twice");
      });
    }
    return [] { return true; };
  };
}

}  // namespace

void add_stacks(Protocols& all) {
  all.push_back({"lock", "heap/os/lock.hpp", 2, true, lock(2)});
  all.push_back({"lock", "heap/os/lock.hpp", 3, false, lock(3)});
  all.push_back({"once", "heap/os/threads.hpp", 2, true, once(2)});
  all.push_back({"once", "heap/os/threads.hpp", 3, false, once(3)});
  all.push_back({"stack with tags", "heap/core/tagged_stack.hpp", 2, true, stack(2)});
  all.push_back({"stack with tags", "heap/core/tagged_stack.hpp", 3, false, stack(3)});
  all.push_back({"put aside", "heap/core/free_stack.hpp", 2, true, put_aside(2)});
  all.push_back({"put aside", "heap/core/free_stack.hpp", 3, false, put_aside(3)});
  all.push_back({"front ends", "heap/layers/frontend/front_ends.hpp", 2, true, front_ends(2)});
  all.push_back({"front ends", "heap/layers/frontend/front_ends.hpp", 3, false, front_ends(3)});
  all.push_back({"span pool", "heap/layers/backend/span_pool.hpp", 2, true, span_pool(2)});
  all.push_back({"span pool", "heap/layers/backend/span_pool.hpp", 3, false, span_pool(3)});
  all.push_back({"depot", "heap/layers/frontend/depot.hpp", 2, true, depot(2)});
  all.push_back({"depot", "heap/layers/frontend/depot.hpp", 3, false, depot(3)});
  all.push_back({"marks of blocks", "heap/layers/block_marks.hpp", 2, false, block_marks(2)});
  all.push_back({"marks of blocks", "heap/layers/block_marks.hpp", 3, false, block_marks(3)});
  all.push_back({"shuffled slots", "heap/layers/shuffled_slots.hpp", 3, true, shuffled_slots()});
}

}  // namespace heapyard::model
