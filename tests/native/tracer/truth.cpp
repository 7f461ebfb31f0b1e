// SPDX-License-Identifier: Apache-2.0
// A program that knows who owns its memory: thousands of call chains, recursion, inlined and template functions,
// threads that free each other's blocks, exceptions. At every probe it names the instant to the tracer and writes what
// each chain owns to a file: the truth that a profile is held against.
//
//   truth FILE SEED OPERATIONS THREADS [SUCCESSORS]
//
// SUCCESSORS: each thread leaves its work between two probes to so many others, one after the other.
// A chain is first<A>, second<B>, third<C> and `depth` frames of dive(). Lines: "probe NAME", then "A B C depth bytes
// blocks".
#include <array>
#include <barrier>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>

extern "C" __attribute__((weak)) void heapyard_trace_mark(const char* name);

namespace {

constexpr int kWays = 17;  // 17^3 = 4,913 chains, times the depths of recursion
constexpr int kDepths = 3;

struct Owned {
  std::int64_t bytes, blocks;
};
using Truth = Owned[kWays][kWays][kWays][kDepths];

struct Block {
  void* memory;
  std::size_t size;
  std::uint8_t a, b, c, depth;
};

// Everything below is in mappings of its own: the truth must not allocate.
template <class T>
T* mapped(std::size_t count) {
  void* memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::exit(1);
  return static_cast<T*>(memory);
}

Truth* truth;
std::mutex truth_lock;
Block* blocks;
std::size_t block_count;
constexpr std::size_t kMostBlocks = 200'000;

struct Wish {
  int a, b, c, depth;
  std::size_t size;
  bool throws, jumps;
  void* got;
  std::jmp_buf* back;
};

[[gnu::always_inline]] inline void* inlined_allocation(std::size_t size) { return std::malloc(size); }

[[gnu::noinline]] void dive(Wish& wish, int depth) {
  if (depth > 0) {
    dive(wish, depth - 1);
    asm volatile("" ::: "memory");  // no tail call
    return;
  }
  switch (wish.size % 4) {
    case 0:
      wish.got = inlined_allocation(wish.size);
      break;
    case 1:
      wish.got = ::operator new(wish.size);
      break;
    case 2:
      wish.got = std::calloc(1, wish.size);
      break;
    default:
      wish.got = std::realloc(std::malloc(wish.size / 2), wish.size);
      break;
  }
  if (wish.throws) throw wish.size;
  if (wish.jumps) std::longjmp(*wish.back, 1);
}

template <int C>
[[gnu::noinline]] void third(Wish& wish) {
  char* volatile stretch = static_cast<char*>(__builtin_alloca(16 + wish.size % 64));  // a frame of changing size
  stretch[0] = 0;
  dive(wish, wish.depth);
  asm volatile("" ::: "memory");
}

using Step = void (*)(Wish&);
template <std::size_t... C>
constexpr auto table_of_third(std::index_sequence<C...>) {
  return std::array<Step, sizeof...(C)>{third<C>...};
}

template <int B>
[[gnu::noinline]] void second(Wish& wish) {
  static constexpr auto next = table_of_third(std::make_index_sequence<kWays>{});
  alignas(64) char realigned[64];  // a frame that realigns the stack
  asm volatile("" : : "r"(realigned) : "memory");
  next[wish.c](wish);
  asm volatile("" ::: "memory");
}
template <std::size_t... B>
constexpr auto table_of_second(std::index_sequence<B...>) {
  return std::array<Step, sizeof...(B)>{second<B>...};
}

template <int A>
[[gnu::noinline]] void first(Wish& wish) {
  static constexpr auto next = table_of_second(std::make_index_sequence<kWays>{});
  next[wish.b](wish);
  asm volatile("" ::: "memory");
}
template <std::size_t... A>
constexpr auto table_of_first(std::index_sequence<A...>) {
  return std::array<Step, sizeof...(A)>{first<A>...};
}
constexpr auto kFirst = table_of_first(std::make_index_sequence<kWays>{});

std::uint64_t next_random(std::uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

[[gnu::noinline]] void jumping(Wish& wish) {
  std::jmp_buf back;
  wish.back = &back;
  if (setjmp(back) == 0) kFirst[wish.a](wish);
}

void work(std::uint64_t seed, std::size_t operations) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u | 1;
  for (int warm = 0; warm < 8; ++warm) next_random(state);
  for (std::size_t done = 0; done < operations; ++done) {
    const std::uint64_t dice = next_random(state);
    Block taken{};
    {
      const std::lock_guard held(truth_lock);
      if (block_count > 0 && (dice % 100 < 45 || block_count == kMostBlocks)) {  // of any thread's blocks
        Block& at = blocks[next_random(state) % block_count];
        taken = at;
        at = blocks[--block_count];
        Owned& owned = (*truth)[taken.a][taken.b][taken.c][taken.depth];
        owned.bytes -= static_cast<std::int64_t>(taken.size);
        --owned.blocks;
      }
    }
    if (taken.memory != nullptr) {
      if (taken.size % 4 == 1)
        ::operator delete(taken.memory);
      else
        std::free(taken.memory);
      continue;
    }
    // Few chains own much and many own little, as in programs.
    const auto some = [&] {
      return static_cast<int>(next_random(state) % kWays * (next_random(state) % kWays) / kWays);
    };
    const std::uint64_t kind = next_random(state) % 1000;
    const std::size_t size = kind < 900 ? 1 + kind % 300 : kind < 995 ? 1000 + kind * 9 : 200'000 + kind * 11;
    Wish wish{some(),         some(),  some(), static_cast<int>(next_random(state) % kDepths), size, dice % 50 == 7,
              dice % 50 == 8, nullptr, nullptr};
    if (wish.jumps) {
      jumping(wish);
    } else {
      try {
        kFirst[wish.a](wish);
      } catch (std::size_t) {
      }
    }
    if (wish.got == nullptr) std::exit(1);
    const std::lock_guard held(truth_lock);
    blocks[block_count++] = {wish.got,
                             size,
                             static_cast<std::uint8_t>(wish.a),
                             static_cast<std::uint8_t>(wish.b),
                             static_cast<std::uint8_t>(wish.c),
                             static_cast<std::uint8_t>(wish.depth)};
    Owned& owned = (*truth)[wish.a][wish.b][wish.c][wish.depth];
    owned.bytes += static_cast<std::int64_t>(size);
    ++owned.blocks;
  }
}

void probe(std::FILE* out, int number) {
  char name[32];
  std::snprintf(name, sizeof name, "probe %d", number);
  if (heapyard_trace_mark != nullptr) heapyard_trace_mark(name);
  std::fprintf(out, "%s\n", name);
  for (int a = 0; a < kWays; ++a) {
    for (int b = 0; b < kWays; ++b) {
      for (int c = 0; c < kWays; ++c) {
        for (int depth = 0; depth < kDepths; ++depth) {
          const Owned& owned = (*truth)[a][b][c][depth];
          if (owned.blocks > 0)
            std::fprintf(out, "%d %d %d %d %lld %lld\n", a, b, c, depth, static_cast<long long>(owned.bytes),
                         static_cast<long long>(owned.blocks));
        }
      }
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5 && count != 6) return 2;
  std::FILE* out = std::fopen(arguments[1], "w");
  if (out == nullptr) return 2;
  const std::uint64_t seed = std::strtoull(arguments[2], nullptr, 10);
  const std::size_t operations = std::strtoull(arguments[3], nullptr, 10);
  const int threads = std::atoi(arguments[4]), successors = count == 6 ? std::atoi(arguments[5]) : 0;
  truth = mapped<Truth>(1);
  blocks = mapped<Block>(kMostBlocks);
  constexpr int kProbes = 4;
  std::barrier meeting(threads + 1);
  std::vector<std::thread> workers;
  for (int index = 0; index < threads; ++index) {
    workers.emplace_back([&, index] {
      for (int round = 0; round < kProbes; ++round) {
        const std::uint64_t own = seed * 1000 + static_cast<std::uint64_t>(round * threads + index);
        const std::size_t share = operations / kProbes / static_cast<std::size_t>(threads);
        if (successors == 0) work(own, share);
        for (int one = 0; one < successors; ++one)
          std::thread(work, own + 1'000'003 * static_cast<std::uint64_t>(one), share / successors).join();
        meeting.arrive_and_wait();
        meeting.arrive_and_wait();
      }
    });
  }
  for (int round = 0; round < kProbes; ++round) {
    meeting.arrive_and_wait();
    probe(out, round);
    meeting.arrive_and_wait();
  }
  for (std::thread& worker : workers) worker.join();
  return std::fclose(out) == 0 ? 0 : 1;
}
