// SPDX-License-Identifier: Apache-2.0
// Spans of blocks that any thread may free, their epochs, their lists, and buffers that are closed and adopted.
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "heap/layers/spans/allocation_buffer.hpp"
#include "heap/layers/spans/list_span.hpp"
#include "heap/layers/spans/reusable_spans.hpp"
#include "heap/policy/scalloc_classes.hpp"
#include "protocols.hpp"

namespace heapyard::model {
namespace {

struct SmallClasses {
  static constexpr unsigned kClasses = 2;
  static constexpr std::array<policy::SpanShape, 2> kShapes = {{{0, 0, 0, 0}, {16, 3, 256, 0}}};
};
using Span = ListSpanOf<Checked>;
struct alignas(256) Memory {
  Span span{};
  char blocks[3 * 16];
};

// Hands out its spans in order, again when they came back, and hands over what is written in them, as SpanPool does.
struct Pool {
  using Span = model::Span;
  std::array<Memory, 4> memory{};
  std::array<std::atomic<bool>, 4> out{};
  std::array<int, 4> live{};  // blocks: the test's own books

  std::size_t index(const void* inside) const {
    return static_cast<std::size_t>(static_cast<const char*>(inside) - reinterpret_cast<const char*>(memory.data())) /
           sizeof(Memory);
  }
  void count(const void* block, int more) {
    const Unseen unseen;
    live[index(block)] += more;
  }
  bool in_use(std::size_t at) const {
    const Unseen unseen;
    return live[at] != 0;
  }
  Span* get(unsigned, unsigned) {
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (!out[i].load(std::memory_order_relaxed) && !out[i].exchange(true, std::memory_order_acquire))
        return &memory[i].span;
    }
    return nullptr;
  }
  void put(Span* span, unsigned) {
    const std::size_t at = index(span);
    check(!in_use(at), "a span comes to the pool with a block in use");
    std::memset(reinterpret_cast<char*>(span) + Span::kHeader, 0, 3 * 16);  // as if the kernel took it
    check(out[at].exchange(false, std::memory_order_release), "a span comes to the pool that is there");
  }
  void expect_empty() {}
  std::size_t spans_out() const {
    std::size_t count = 0;
    for (const auto& one : out) count += one;
    return count;
  }
};

template <template <class> class Lists>
struct Spans {
  using Buffer = AllocationBuffer<SmallClasses, Pool, 40, EagerCleanup, Lists>;

  struct State {
    Pool pool;
    Buffer own, other;
    std::array<void*, 4> blocks{};
    // The owner has all blocks of its first span, and `more` of the next.
    explicit State(unsigned more) {
      own.open(1);
      other.open(2);
      for (unsigned i = 0; i < 3 + more; ++i) blocks[i] = allocate(own);
    }
    static Span* of(void* block) {
      return reinterpret_cast<Span*>(reinterpret_cast<std::uintptr_t>(block) & ~std::uintptr_t{255});
    }
    void* allocate(Buffer& buffer) {
      void* block = buffer.allocate(1);
      if (block == nullptr) block = buffer.refill(pool, 1);
      if (block == nullptr) return nullptr;
      pool.count(block, 1);
      return std::memset(block, 0xAA, 16);
    }
    void free(Buffer& buffer, void* block) {
      pool.count(block, -1);
      std::memset(block, 0xBB, 16);
      if (!buffer.free(of(block), block)) Buffer::release(pool, &buffer, of(block), block);
    }
  };

  // The owner frees one block of a span that is no longer hot while others free the rest.
  static Program last_blocks(unsigned threads) {
    return [threads](Bodies& bodies) {
      auto state = std::make_shared<State>(1);
      bodies.push_back([=] { state->free(state->own, state->blocks[0]); });
      bodies.push_back([=] {
        state->free(state->other, state->blocks[1]);
        if (threads == 2) state->free(state->other, state->blocks[2]);
      });
      if (threads == 3)
        bodies.push_back([=] { Buffer::release(state->pool, nullptr, State::of(state->blocks[2]), drop(*state, 2)); });
      return [=] { return state->pool.spans_out() == 1 && !state->pool.out[0]; };
    };
  }
  static void* drop(State& state, unsigned i) {
    state.pool.count(state.blocks[i], -1);
    return std::memset(state.blocks[i], 0xBB, 16);
  }

  // The owner uses its hot span up, lets it float and takes the next, while another thread frees all of it.
  static Program floating(unsigned freed) {
    return [freed](Bodies& bodies) {
      auto state = std::make_shared<State>(0);
      bodies.push_back([=] {
        void* next = state->allocate(state->own);
        state->free(state->own, next);
      });
      bodies.push_back([=] {
        for (unsigned i = 0; i < freed; ++i) state->free(state->other, state->blocks[i]);
      });
      return [=] {
        for (unsigned i = freed; i < 3; ++i) state->free(state->other, state->blocks[i]);
        state->own.close(state->pool);
        state->other.close(state->pool);
        return state->pool.spans_out() == 0;
      };
    };
  }

  // The owner ends while another thread frees: the span is adopted, or goes to the pool, and is not lost.
  static Program ending(unsigned threads) {
    return [threads](Bodies& bodies) {
      auto state = std::make_shared<State>(0);
      bodies.push_back([=] { state->own.close(state->pool); });
      bodies.push_back([=] {
        for (unsigned i = 0; i < (threads == 2 ? 3u : 2u); ++i) state->free(state->other, state->blocks[i]);
      });
      if (threads == 3)
        bodies.push_back([=] { Buffer::release(state->pool, nullptr, State::of(state->blocks[2]), drop(*state, 2)); });
      return [=] {
        state->other.close(state->pool);
        return state->pool.spans_out() == 0;
      };
    };
  }

  // The owner ends while another thread frees so much of a span that is not hot that it is listed.
  static Program listed_late() {
    return [](Bodies& bodies) {
      auto state = std::make_shared<State>(1);
      bodies.push_back([=] { state->own.close(state->pool); });
      bodies.push_back([=] {
        for (const unsigned i : {0u, 1u}) state->free(state->other, state->blocks[i]);
      });
      return [=] {
        state->free(state->other, state->blocks[2]);
        state->other.close(state->pool);
        return state->pool.spans_out() == 1;  // that of the fourth block, which is still out
      };
    };
  }

  // Memory is short: lists are looked through while another thread frees a listed span's last block, and its owner
  // ends.
  static Program draining(bool ends) {
    return [ends](Bodies& bodies) {
      auto state = std::make_shared<State>(1);
      for (const unsigned i : {0u, 1u}) state->free(state->own, state->blocks[i]);
      bodies.push_back([=] { state->own.release_empty(state->pool); });
      bodies.push_back([=] { state->free(state->other, state->blocks[2]); });
      if (ends) bodies.push_back([=] { state->own.close(state->pool); });
      return [=] {
        state->own.release_empty(state->pool);
        if (!ends) state->own.close(state->pool);
        state->other.close(state->pool);
        return state->pool.spans_out() == 1;  // that of the fourth block, which is still out
      };
    };
  }

  // A span becomes empty, is used anew and floats again, while a thread that counted it before still thinks about it.
  static Program used_anew() {
    return [](Bodies& bodies) {
      auto state = std::make_shared<State>(1);
      state->free(state->own, state->blocks[0]);
      bodies.push_back([=] {
        state->free(state->own, state->blocks[1]);
        // The rest of the hot span, all of the next, and one more, so that the next one floats.
        std::array<void*, 6> again;
        for (void*& block : again) block = state->allocate(state->own);
        for (std::size_t i = 1; i < again.size(); ++i) {
          for (std::size_t j = 0; j < i; ++j) check(again[i] != again[j], "a block is handed out twice");
        }
      });
      bodies.push_back([=] { state->free(state->other, state->blocks[2]); });
      return [] { return true; };
    };
  }
};

}  // namespace

void add_spans(Protocols& all) {
  using Deque = Spans<ReusableDeque>;
  using Stacked = Spans<ReusableStack>;
  const char *span = "heap/layers/spans/list_span.hpp", *buffer = "heap/layers/spans/allocation_buffer.hpp",
             *lists = "heap/layers/spans/reusable_spans.hpp";
  all.push_back({"remote frees: the last blocks", span, 2, true, Deque::last_blocks(2)});
  all.push_back({"remote frees: the last blocks", span, 3, false, Deque::last_blocks(3)});
  all.push_back({"remote frees: a span floats", span, 2, false, Deque::floating(2)});
  all.push_back({"remote frees: a span floats onto a stack", lists, 2, false, Stacked::floating(2)});
  all.push_back({"remote frees: a span is used anew", span, 2, false, Deque::used_anew()});
  all.push_back({"span adoption", buffer, 2, true, Deque::ending(2)});
  all.push_back({"span adoption", buffer, 3, false, Deque::ending(3)});
  all.push_back({"span adoption, listed on a stack", lists, 2, false, Stacked::ending(2)});
  all.push_back({"span listed while its owner ends", lists, 2, true, Deque::listed_late()});
  all.push_back({"span listed on a stack while its owner ends", lists, 2, true, Stacked::listed_late()});
  all.push_back({"memory is short", lists, 2, false, Stacked::draining(false)});
  all.push_back({"memory is short, the owner ends", lists, 3, false, Stacked::draining(true)});
}

}  // namespace heapyard::model
