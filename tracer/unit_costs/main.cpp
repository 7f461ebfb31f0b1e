// SPDX-License-Identifier: Apache-2.0
// What the parts of a recording cost on this machine: the numbers that the tracer's design rests on
// (docs/measured/tracer.md).
//
//   unit_costs [ROUNDS]
//
// Rounds of 200,000 pairs of malloc and free, each round in every way, in shuffled order; a cost is the median over
// rounds of the difference to bare pairs, in nanoseconds and as a share of a pair, with the 95 % interval of the median
// by order statistics. The parts are the tracer's own headers.
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/mapping.hpp"
#include "tracer/events/chain_walker.hpp"
#include "tracer/events/own_stack.hpp"
#include "tracer/session/poisson.hpp"
#include "tracer/session/ring.hpp"
#include "tracer/session/sample_set.hpp"

namespace {

using namespace heapyard;
using namespace heapyard::tracer;

constexpr int kPairs = 200'000;

Session session;
RingWriter ring;
RuleCache rules;
ChainWalker walker;
ChainMemo memo;
OwnStack own_stack;
thread_local std::int64_t to_sample __attribute__((tls_model("initial-exec"))) = 1 << 30;
std::uintptr_t frames[256];
volatile std::uint64_t sink;

void consume() {
  Ring& shared = *ring.ring();
  shared.tail.store(shared.head.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void record(std::size_t words, std::uint64_t first) {
  std::uint64_t* at = ring.reserve(words);
  if (at == nullptr) {
    consume();
    at = ring.reserve(words);
  }
  for (std::size_t index = 0; index < words; ++index) at[index] = first;
  ring.publish(words);
}

// What happens beside a pair; each in a function of its own, called through a pointer, as a hook is.
using Part = void (*)(void* block, std::size_t size);
[[gnu::noinline]] void nothing(void*, std::size_t) { asm volatile(""); }
[[gnu::noinline]] void countdown(void*, std::size_t size) {
  if ((to_sample -= static_cast<std::int64_t>(size) + 1) < 0) to_sample = 1 << 30;
}
[[gnu::noinline]] void filter(void* block, std::size_t) {
  if (session.filter()[count_place(reinterpret_cast<std::uintptr_t>(block))].load(std::memory_order_relaxed) != 0)
    std::abort();
}
[[gnu::noinline]] void tick(void*, std::size_t) { sink = stamp(); }
[[gnu::noinline]] void clock_of_the_kernel(void*, std::size_t) { sink = monotonic_ns(); }
[[gnu::noinline]] void ring_of_four_words(void*, std::size_t size) { record(4, size); }
[[gnu::noinline]] void frame_pointers(void*, std::size_t) {
  const auto* frame = static_cast<const std::uintptr_t*>(__builtin_frame_address(0));
  unsigned count = 0;
  while (frame != nullptr && count < 256 && frame[1] != 0) {
    frames[count++] = frame[1];
    const auto* outside = reinterpret_cast<const std::uintptr_t*>(frame[0]);
    if (outside <= frame) break;
    frame = outside;
  }
  sink = count;
}
[[gnu::noinline]] void rules_of_each_frame(void*, std::size_t) {
  unsigned count = 0;
  walk(rules, caller_of(__builtin_frame_address(0)), 0, frames, 256, count, [](const dl_find_object&) {});
  sink = count;
}
[[gnu::noinline]] void walk_before_validated(void*, std::size_t) {
  sink = walker.walk(rules, caller_of(__builtin_frame_address(0)), 0, 256, 256, 1, [](const dl_find_object&) {}).hash;
}
[[gnu::noinline]] void remembered_chain(void*, std::size_t) {
  const Registers at = caller_of(__builtin_frame_address(0));
  const std::uintptr_t end = own_stack.end_above(at.sp - 8);
  std::uint64_t number = walker.recall_expected(memo, at, end);
  if (number == 0) number = walker.recall_other(memo, at, end);
  if (number == 0) {
    number = walker.walk(rules, at, 0, 256, 256, 1, [](const dl_find_object&) {}).hash % Owner::kChains;
    walker.remember_in(memo, 1)->number = static_cast<std::uint32_t>(number);
  }
  sink = number;
}
[[gnu::noinline]] void library_unwinder(void*, std::size_t) {
  unsigned count = 0;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* into) {
        frames[(*static_cast<unsigned*>(into))++ & 255] = _Unwind_GetIP(context);
        return _URC_NO_REASON;
      },
      &count);
  sink = count;
}

struct Way {
  const char* name;
  Part part;
  int depth;
  int pairs;
};
constexpr Way kWays[] = {
    {"an empty hook", nothing, 0, kPairs},
    {"a count of bytes down to the next sample", countdown, 0, kPairs},
    {"a look at the filter of samples", filter, 0, kPairs},
    {"a time stamp of the processor", tick, 0, kPairs},
    {"a time stamp of the kernel", clock_of_the_kernel, 0, kPairs},
    {"32 bytes into a ring", ring_of_four_words, 0, kPairs},
    {"10 frames by frame pointers", frame_pointers, 10, kPairs},
    {"10 frames by cached rules", rules_of_each_frame, 10, kPairs},
    {"10 frames by comparing with the walk before", walk_before_validated, 10, kPairs},
    {"10 frames of a chain that is remembered", remembered_chain, 10, kPairs},
    {"10 frames by _Unwind_Backtrace", library_unwinder, 10, kPairs / 20},
    {"40 frames by frame pointers", frame_pointers, 40, kPairs},
    {"40 frames by cached rules", rules_of_each_frame, 40, kPairs / 4},
    {"40 frames by comparing with the walk before", walk_before_validated, 40, kPairs},
    {"40 frames of a chain that is remembered", remembered_chain, 40, kPairs},
    {"40 frames by _Unwind_Backtrace", library_unwinder, 40, kPairs / 50},
};

// Nanoseconds of a pair with the part beside it, `depth` calls down.
[[gnu::noinline]] double pairs(Part part, int count) {
  const std::uint64_t begin = monotonic_ns();
  for (int turn = 0; turn < count; ++turn) {
    void* block = std::malloc(64);
    asm volatile("" : : "r"(block) : "memory");
    if (part != nullptr) part(block, 64);
    std::free(block);
  }
  return static_cast<double>(monotonic_ns() - begin) / count;
}
[[gnu::noinline]] double below(int depth, Part part, int count) {
  char room[48];
  asm volatile("" : : "r"(room) : "memory");
  const double took = depth > 0 ? below(depth - 1, part, count) : pairs(part, count);
  asm volatile("" : : "r"(room) : "memory");
  return took;
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 41;
  if (rounds < 6) {
    std::fprintf(stderr, "unit_costs: at least 6 rounds\n");
    return 2;
  }
  const Layout layout(1, 1 << 16, 64);
  void* base = map_shared(layout.end);
  if (base == nullptr) return 1;
  session = Session(base, layout);
  session.header().rings = 1;
  session.header().ring_bytes = 1 << 16;
  session.header().buckets = 64;
  ring = RingWriter(session.ring(0), session.words(0), 1 << 16, session.header().bell);
  std::vector<std::vector<double>> costs(std::size(kWays));
  std::vector<double> bare;
  std::mt19937 random(static_cast<unsigned>(monotonic_ns()));
  std::vector<std::size_t> order(std::size(kWays));
  std::iota(order.begin(), order.end(), 0);
  for (const Way& way : kWays) below(way.depth, way.part, 1000);
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t index : order) {
      std::memset(static_cast<void*>(&memo), 0, sizeof memo);  // of chains that differ in main() only
      const Way& way = kWays[index];
      const double pair = below(way.depth, nullptr, kPairs);  // beside it, at the same depth
      bare.push_back(pair);
      costs[index].push_back(below(way.depth, way.part, way.pairs) - pair);
    }
  }
  const auto quantile = [](std::vector<double>& values, double q) {
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(
        std::clamp(q * static_cast<double>(values.size()), 0.0, static_cast<double>(values.size() - 1)))];
  };
  const double pair = quantile(bare, 0.5);
  std::printf("A pair of malloc(64) and free here: %.1f ns. Beside it, over %d rounds:\n\n", pair, rounds);
  std::printf("%-46s %9s %21s %8s\n", "", "ns", "95 %", "pairs");
  const double half = 0.98 / std::sqrt(static_cast<double>(rounds));  // of the rank of a median
  for (std::size_t index = 0; index < std::size(kWays); ++index) {
    const double low = quantile(costs[index], 0.5 - half), high = quantile(costs[index], 0.5 + half);
    std::printf("%-46s %9.2f %9.2f to %8.2f %8.2f\n", kWays[index].name, quantile(costs[index], 0.5), low, high,
                quantile(costs[index], 0.5) / pair);
  }
  return 0;
}
