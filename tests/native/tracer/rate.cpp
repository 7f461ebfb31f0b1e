// SPDX-License-Identifier: Apache-2.0
// Pairs of malloc and free at a chosen rate, 20 calls deep: the work between them is fixed, not the time.
//
//   rate PAIRS SPIN    SPIN: steps of a dependent computation between two pairs
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr std::size_t kHeld = 4096;  // blocks that live at a time

[[gnu::noinline]] std::uint64_t spin(std::uint64_t state, std::uint64_t steps) {
  for (std::uint64_t step = 0; step < steps; ++step) state = state * 6364136223846793005u + 1442695040888963407u;
  return state;
}

[[gnu::noinline]] std::uint64_t pairs(std::uint64_t count, std::uint64_t steps) {
  static void* held[kHeld];
  std::uint64_t state = 1;
  for (std::uint64_t turn = 0; turn < count; ++turn) {
    state = spin(state, steps + 1);
    void*& place = held[state >> 52];
    std::free(place);
    place = std::malloc(16 + (state >> 40 & 255));
    if (place == nullptr) std::exit(1);
    *static_cast<volatile char*>(place) = 1;
  }
  return state;
}

[[gnu::noinline]] std::uint64_t below(int depth, std::uint64_t count, std::uint64_t steps) {
  const std::uint64_t found = depth > 0 ? below(depth - 1, count, steps) : pairs(count, steps);
  asm volatile("" ::: "memory");
  return found;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  std::printf("%llu\n", static_cast<unsigned long long>(below(20, std::strtoull(arguments[1], nullptr, 10),
                                                              std::strtoull(arguments[2], nullptr, 10))));
  return 0;
}
