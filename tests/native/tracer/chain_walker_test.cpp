// SPDX-License-Identifier: Apache-2.0
// A walk that remembers, and a memory of whole chains, give what a walk from scratch gives: over random calls through
// every kind of frame, so that what is remembered is right in part, or in nothing, most of the time.
#include "tracer/events/chain_walker.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "frame_pointer.h"
#include "tracer/events/own_stack.hpp"
#include "tracer/events/spare_chains.hpp"

namespace {

using namespace heapyard::tracer;

struct Walk {
  bool always;     // a chain that is remembered is walked as well, so that the walk before is always the last
  unsigned limit;  // of frames
  unsigned most;   // frames that are remembered
};
std::ostream& operator<<(std::ostream& out, const Walk& walk) {
  return out << (walk.always ? "always, " : "if unknown, ") << walk.limit << " of " << walk.most;
}

struct Ours {
  explicit Ours(Walk when, ChainMemory* given = nullptr)
      : when(when),
        own(given == nullptr ? std::make_unique<ChainMemory>() : nullptr),
        walker((given == nullptr ? *own : *given).walker),
        memo((given == nullptr ? *own : *given).memo) {}
  const Walk when;
  const std::unique_ptr<ChainMemory> own;
  ChainWalker& walker;
  ChainMemo& memo;
  RuleCache rules;
  OwnStack stack;
  std::map<std::vector<std::uintptr_t>, std::uint64_t> hashes;
  std::map<std::uint64_t, std::vector<std::uintptr_t>> chains;
  std::map<std::vector<std::uintptr_t>, std::uint32_t> numbers;
  std::vector<std::uintptr_t> told;  // outermost first, as a collector has it
  unsigned recalled = 0, expected = 0, looked = 0, told_again = 0;
  std::uintptr_t sp = 0;  // of the last look
};
thread_local Ours* ours;
thread_local std::mt19937* choose;
constexpr std::uint64_t kSeed = 7;
constexpr auto kNothing = [](const dl_find_object&) {};

[[gnu::noinline]] void look() {
  const Registers at = caller_of(__builtin_frame_address(0));
  const auto& [always, limit, most] = ours->when;
  std::uintptr_t frames[256];
  unsigned count = 0;
  const ChainEnd end = walk(ours->rules, at, 0, frames, limit, count, kNothing);
  ASSERT_NE(end, ChainEnd::kTorn);
  const std::vector<std::uintptr_t> expected(frames, frames + count);
  const std::uint32_t number =
      ours->numbers.emplace(expected, static_cast<std::uint32_t>(ours->numbers.size() + 1)).first->second;
  ours->stack.end_above(at.sp - 8);
  const std::uintptr_t stack_end = ours->stack.readable_until(at.sp - 8);
  std::uint32_t known = ours->walker.recall_expected(ours->memo, at, stack_end);
  ours->expected += known != 0;
  if (known == 0) known = ours->walker.recall_other(ours->memo, at, stack_end);
  ++ours->looked;
  ours->sp = at.sp;
  if (known != 0) {
    ASSERT_EQ(known, number);
    ++ours->recalled;
    if (!always) return;
  }
  const auto found = ours->walker.walk(ours->rules, at, 0, limit, most, kSeed, kNothing);
  ASSERT_EQ(found.end, end);
  std::vector<std::uintptr_t> walked;
  for (unsigned index = 0; index < ours->walker.frames(); ++index) walked.push_back(ours->walker.frame(index));
  ASSERT_EQ(walked, expected);
  const auto [entry, fresh] = ours->hashes.emplace(expected, found.hash);
  ASSERT_EQ(entry->second, found.hash);                                           // the same chain, the same hash
  ASSERT_EQ(ours->chains.emplace(found.hash, expected).first->second, expected);  // and no other
  if (ChainMemo::Entry* remembered = ours->walker.remember_in(ours->memo, kSeed)) remembered->number = number;
  if (!fresh) return;
  ASSERT_LE(ours->walker.told_frames(), std::min(ours->told.size(), expected.size()));
  ours->told_again += ours->walker.told_frames();
  ours->told.resize(ours->walker.told_frames());
  ours->told.insert(ours->told.end(), expected.rbegin() + static_cast<std::ptrdiff_t>(ours->told.size()),
                    expected.rend());
  ASSERT_EQ(ours->told, std::vector(expected.rbegin(), expected.rend()));
  ours->walker.note_told();
}

void go(int depth);

[[gnu::noinline]] void plain(int depth) {
  go(depth);
  asm volatile("" : : : "memory");
}
// Its frame is as large as that of plain().
[[gnu::noinline]] void twin(int depth) {
  go(depth);
  asm volatile("nop" : : : "memory");
}
WITHOUT_FRAME_POINTER void without_frame_pointer(int depth) {
  char room[72];
  asm volatile("" : : "r"(room) : "memory");
  go(depth);
  asm volatile("" : : "r"(room) : "memory");
}
WITHOUT_FRAME_POINTER void twin_without_frame_pointer(int depth) {
  char room[72];
  asm volatile("" : : "r"(room) : "memory");
  go(depth);
  asm volatile("nop" : : "r"(room) : "memory");
}
// The frame pointer as any other register, with something else in it every time.
WITHOUT_FRAME_POINTER void with_data_in_it(int depth) {
  asm volatile("mov %0, %%rbp" : : "r"((*choose)()) : "rbp");
  go(depth);
  asm volatile("" : : : "memory", "rbp");
}
[[gnu::noinline]] void with_changing_frame(int depth) {
  auto* room = static_cast<volatile char*>(__builtin_alloca(16 * (1 + (*choose)() % 3)));
  room[0] = 1;
  go(depth);
  room[0] = 2;
}
[[gnu::noinline]] void realigned(int depth) {
  alignas(64) char room[64];
  asm volatile("" : : "r"(room) : "memory");
  go(depth);
  asm volatile("" : : "r"(room) : "memory");
}
[[gnu::noinline]] void through_the_c_library(int depth) {
  int numbers[2] = {1, 0};
  static thread_local int inner;
  inner = depth;
  std::qsort(numbers, 2, sizeof *numbers, [](const void*, const void*) {
    go(inner);
    return 0;
  });
}

// Those of kKinds that are called.
thread_local unsigned first_kind, kinds;

WITHOUT_FRAME_POINTER void go(int depth) {
  static constexpr void (*kKinds[])(int) = {plain,
                                            twin,
                                            without_frame_pointer,
                                            twin_without_frame_pointer,
                                            with_data_in_it,
                                            with_changing_frame,
                                            realigned,
                                            through_the_c_library};
  if ((*choose)() % 4 == 0) look();  // not everywhere: the walk before is of other callers then
  if (depth == 0 || testing::Test::HasFatalFailure()) return;
  const unsigned more = kinds == 2 && depth > 6;
  for (unsigned calls = (*choose)() % 3 + more; calls-- > 0;) kKinds[first_kind + (*choose)() % kinds](depth - 1);
  if ((*choose)() % 4 == 0) look();
}

void wander(unsigned seed, Walk when) {
  const auto memory = std::make_unique<Ours>(when);
  std::mt19937 random(seed);
  ours = memory.get();
  choose = &random;
  for (int turn = 0; turn < 300; ++turn) {
    // Of two that are alike, the same inner frames lie below others all the time.
    kinds = turn % 3 == 2 ? 8 : 2;
    first_kind = turn % 3 == 1 ? 2 : 0;
    plain(12);
    with_data_in_it(12);
  }
  if (when.most == ChainWalker::kMost) {
    EXPECT_GT(ours->recalled, 100u);
    EXPECT_GT(ours->told_again, 100u);
  }
  EXPECT_GT(ours->looked - ours->recalled, 100u);
  EXPECT_GT(ours->chains.size(), 100u);
}

class ChainWalkerTest : public testing::TestWithParam<Walk> {};
INSTANTIATE_TEST_SUITE_P(Walks, ChainWalkerTest,
                         testing::Values(Walk{false, 256, ChainWalker::kMost}, Walk{true, 256, ChainWalker::kMost}));

TEST_P(ChainWalkerTest, RemembersOnlyWhatIsStillSo) { wander(1, GetParam()); }
TEST_P(ChainWalkerTest, InAThread) {
  for (unsigned seed = 2; seed < 6; ++seed) std::thread(wander, seed, GetParam()).join();
}

// The same of chains longer than the limit, which are remembered as a whole, or not.
class LongChainsTest : public testing::TestWithParam<Walk> {};
INSTANTIATE_TEST_SUITE_P(Walks, LongChainsTest,
                         testing::Values(Walk{false, 9, ChainWalker::kMost}, Walk{true, 20, ChainWalker::kMost},
                                         Walk{false, 128, ChainWalker::kMost}, Walk{false, 20, 20}, Walk{true, 9, 31}));

TEST_P(LongChainsTest, AreWhatAWalkFromScratchGives) { wander(1, GetParam()); }

// Down and up again, a little most of the time, through as many frames as are remembered and more.
thread_local int aim, steps;
[[gnu::noinline]] void dive(int depth);
[[gnu::noinline]] void dive_otherwise(int depth) {
  dive(depth);
  asm volatile("" : : : "memory");
}
[[gnu::noinline]] void dive(int depth) {
  while (steps > 0 && aim >= depth && !testing::Test::HasFatalFailure()) {
    if (aim > depth) {
      ((*choose)() % 8 == 0 ? dive_otherwise : dive)(depth + 1);
      continue;
    }
    look();
    --steps;
    const auto chance = (*choose)();
    aim = chance % 64 == 0 ? static_cast<int>(chance / 64 % 1500) : aim + static_cast<int>(chance % 9) - 4;
    aim = std::clamp(aim, 0, 1500);
  }
}
TEST_P(LongChainsTest, InADeepRecursion) {
  const auto memory = std::make_unique<Ours>(GetParam());
  std::mt19937 random(1);
  ours = memory.get();
  choose = &random;
  aim = 5;
  steps = 20'000;
  dive(0);
  EXPECT_EQ(steps, 0);
  if (GetParam().most == ChainWalker::kMost) {
    EXPECT_GT(ours->recalled, 100u);
  }
}

using Inner = void (*)();

// Two chains that differ in one frame only, and in one word of the stack: that of so many frames further in.
template <int Inside>
WITHOUT_FRAME_POINTER void inside() {
  if constexpr (Inside == 0)
    look();
  else
    inside<Inside - 1>();
  asm volatile("" : : : "memory");
}
template <int Inside>
WITHOUT_FRAME_POINTER void around() {
  inside<Inside>();
  asm volatile("" : : : "memory");
}
template <int Inside>
WITHOUT_FRAME_POINTER void twin_around() {
  inside<Inside>();
  asm volatile("nop" : : : "memory");
}
template <int Inside>
void differ_in_one_word(Walk when) {
  const auto memory = std::make_unique<Ours>(when);
  ours = memory.get();
  constexpr volatile Inner kBoth[] = {around<Inside>, twin_around<Inside>};
  std::uintptr_t sp[2];
  for (int call = 0; call < 4; ++call) {
    asm volatile("" : "+r"(call));  // all are to be called from one place: no unrolling
    kBoth[call % 2]();
    sp[call % 2] = ours->sp;
  }
  EXPECT_EQ(sp[0], sp[1]);  // else it is another place
  EXPECT_EQ(ours->numbers.size(), 2u);
  if constexpr (Inside > 0) differ_in_one_word<Inside - 1>(when);
}
TEST_P(ChainWalkerTest, SeesOneWordThatDiffers) { differ_in_one_word<ChainMemo::kChecks + 6>(GetParam()); }

// More chains than there is room for at first, by all combinations of their three innermost frames.
constexpr unsigned kEach = 10;
thread_local unsigned chosen;
template <unsigned Kind>
[[gnu::noinline]] void innermost() {
  look();
  asm volatile("" : : "i"(Kind) : "memory");
}
// Calls the one of the level below whose number is the digit of `chosen` that stands for this level.
template <unsigned Level, unsigned Kind, unsigned... Kinds>
[[gnu::noinline]] void of_level(std::integer_sequence<unsigned, Kinds...> all) {
  if constexpr (Level == 0) {
    constexpr Inner kBelow[] = {innermost<Kinds>...};
    kBelow[chosen % kEach]();
  } else {
    constexpr void (*kBelow[])(decltype(all)) = {of_level<Level - 1, Kinds>...};
    kBelow[chosen / (Level == 1 ? kEach : kEach * kEach) % kEach](all);
  }
  asm volatile("" : : "i"(Kind) : "memory");
}
TEST(ChainMemoTest, GrowsWithTheChainsThatComeOften) {
  const auto memory = std::make_unique<Ours>(Walk{false, 256, ChainWalker::kMost});
  ours = memory.get();
  constexpr unsigned kChains = kEach * kEach * kEach;
  // One loop, for a compiler may unroll that of few turns, and its call then has as many return addresses.
  for (unsigned call = 0; call < 8 * kChains; ++call) {
    if (call % kChains == 0) ours->recalled = 0;
    chosen = call * 7 % kChains;
    of_level<2, 0>(std::make_integer_sequence<unsigned, kEach>());
  }
  EXPECT_EQ(ours->numbers.size(), kChains);
  EXPECT_GT(ours->recalled, kChains * 3 / 4);
}

// Chains that come in one order: the next is expected, but for the first, before which nothing had come. In two orders
// by turns: it is sought where it was the last time but one. A walker that has forgotten knows none.
TEST(ChainMemoTest, ExpectsTheChainThatCameNextTheLastTime) {
  const auto memory = std::make_unique<Ours>(Walk{false, 256, ChainWalker::kMost});
  ours = memory.get();
  struct Turn {
    std::vector<unsigned> chains;
    unsigned recalled, expected;
    bool forget_first = false;
  };
  const std::vector<unsigned> in_order{1, 2, 3, 4, 5}, by_turns{1, 3, 1, 2, 1, 3, 1, 2};
  const Turn turns[] = {{in_order, 0, 0},  {in_order, 5, 4},
                        {in_order, 5, 5},  {by_turns, 8, 2},  // 1 after 5, as ever, and 1 after 3, the second time
                        {{3}, 0, 0, true}, {{3}, 1, 1}};
  for (const Turn& turn : turns) {  // of one place, so that they are the same chains
    if (turn.forget_first) ours->walker.forget();
    ours->recalled = ours->expected = 0;
    for (const unsigned chain : turn.chains) {
      chosen = chain;
      of_level<2, 0>(std::make_integer_sequence<unsigned, kEach>());
    }
    EXPECT_EQ(ours->recalled, turn.recalled);
    EXPECT_EQ(ours->expected, turn.expected);
  }
}

TEST(ChainMemoTest, AnEntryComparesItsOwnWordsAndNoOther) {
  constexpr unsigned kMost = ChainMemo::kChecks;
  std::uintptr_t stack[kMost + 1];
  Check checks[kMost + 1];  // from the outermost to the innermost, as the walker has them
  for (unsigned word = 0; word <= kMost; ++word) {
    stack[word] = 1000 + word;
    checks[kMost - word] = {reinterpret_cast<std::uintptr_t>(&stack[word]), stack[word]};
  }
  const Registers at{stack[0], reinterpret_cast<std::uintptr_t>(&stack[1]), 0};
  ChainMemo::Entry entry{};
  for (unsigned count = kMost;; --count) {  // each has had more words before
    ASSERT_EQ(entry.put(at, &checks[kMost - 1], count), count);
    const std::uintptr_t end = at.sp + 8 * count;  // what it needs and no more
    ASSERT_TRUE(entry.words_hold(at.sp, end));
    ASSERT_FALSE(entry.words_hold(at.sp, end - 8) && count > 0);
    for (unsigned word = 1; word <= kMost; ++word) {
      ++stack[word];
      ASSERT_EQ(entry.words_hold(at.sp, end), word > count) << word << " of " << count;
      --stack[word];
    }
    if (count == 0) break;
  }
  ASSERT_EQ(entry.put(at, &checks[kMost - 1], kMost), kMost);
  std::mt19937_64 random(1);
  for (int turn = 0; turn < 100'000; ++turn) {  // several that differ, by little, do not make up for each other
    const std::uintptr_t before[] = {stack[1], stack[2], stack[kMost]};
    for (std::uintptr_t* word : {&stack[1], &stack[2], &stack[kMost]}) *word += random() % 17 - 8;
    const bool same = stack[1] == before[0] && stack[2] == before[1] && stack[kMost] == before[2];
    ASSERT_EQ(entry.words_hold(at.sp, at.sp + 8 * kMost), same);
    stack[1] = before[0], stack[2] = before[1], stack[kMost] = before[2];
  }
  checks[kMost - 3].address = at.sp - 8 + 8 * (std::uintptr_t{UINT16_MAX} + 1);
  EXPECT_EQ(entry.put(at, &checks[kMost - 1], kMost), 2u);  // the third lies too far away
}

// What one thread remembered another must not find, though all lies on the stack as it did; then it learns as at first.
TEST(SpareChainsTest, NothingIsRememberedInThem) {
  SpareChains spare;
  ChainMemory* first = nullptr;
  for (int thread = 0; thread < 3; ++thread) {
    ChainMemory* chains = spare.take();
    ASSERT_NE(chains, nullptr);
    if (first == nullptr) first = chains;
    EXPECT_EQ(chains, first);
    EXPECT_FALSE(chains->told.has(5));
    chains->told.add(5);
    const auto memory = std::make_unique<Ours>(Walk{false, 256, ChainWalker::kMost}, chains);
    ours = memory.get();
    for (const auto& [chain, recalled] : {std::pair{4u, 0u}, {3u, 0u}, {3u, 1u}, {4u, 2u}}) {
      chosen = chain;
      of_level<2, 0>(std::make_integer_sequence<unsigned, kEach>());
      EXPECT_EQ(ours->recalled, recalled);
    }
    spare.give(chains);
  }
}

TEST(SpareChainsTest, EachIsOneThreadsOwn) {
  SpareChains spare;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (std::uint64_t turn = 1; turn <= 2'000; ++turn) {
        ChainMemory* chains = spare.take();
        ASSERT_FALSE(chains->told.has(turn % 64));
        chains->told.add(turn % 64);
        ASSERT_FALSE(chains->told.has((turn + 1) % 64));
        spare.give(chains);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// What a stale stack may hold at its worst: two calls whose innermost frames are the same, and in the second the words
// that the first walk compared lie in a function's own room and hold what they held, while the callers are others. Only
// the frame pointer tells.
struct Trap {
  bool armed = false, sprung = false;
  std::uintptr_t sp = 0, outer = 0;  // of the first look; of the function that makes both calls
  std::size_t room = 0;              // of the second call
  std::vector<char> image;           // [sp, outer) as it was
} trap;

// Whether to look: in the second call only where the stack is as deep as in the first.
[[gnu::noinline]] bool in_place(std::uintptr_t sp) {
  if (!trap.armed) {
    trap.sp = sp;
    trap.image.assign(reinterpret_cast<const char*>(sp), reinterpret_cast<const char*>(trap.outer));
  } else if (sp == trap.sp) {
    trap.sprung = true;
  }
  return !trap.armed || sp == trap.sp;
}
WITHOUT_FRAME_POINTER void look_in_trap() {
  std::uintptr_t sp;
  asm volatile("mov %%rsp, %0" : "=r"(sp));
  if (in_place(sp)) look();
}

WITHOUT_FRAME_POINTER void saving_it() {
  asm volatile("xor %%ebp, %%ebp" : : : "rbp");
  look_in_trap();
  asm volatile("" : : : "memory", "rbp");
}
WITHOUT_FRAME_POINTER void leaving_it_alone() {
  look_in_trap();
  asm volatile("" : : : "memory");
}

// What was there at the first look.
void put_back(char* room, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(room);
  for (std::size_t at = 0; trap.armed && at < bytes; ++at) {
    if (begin + at >= trap.sp && begin + at < trap.outer) room[at] = trap.image[begin + at - trap.sp];
  }
}

[[gnu::noinline]] void with_room(std::size_t bytes, Inner inner) {
  auto* room = static_cast<char*>(__builtin_alloca(bytes));
  put_back(room, bytes);
  asm volatile("" : : "r"(room) : "memory");
  inner();
  asm volatile("" : : "r"(room) : "memory");
}
using Caller = void (*)(Inner);
[[gnu::noinline]] void first_caller(Inner inner) {
  char room[2048];
  asm volatile("" : : "r"(room) : "memory");
  with_room(16, inner);
  asm volatile("" : : "r"(room) : "memory");
}
[[gnu::noinline]] void second_caller(Inner inner) {
  with_room(trap.room, inner);
  asm volatile("" : : : "memory");
}
[[gnu::noinline]] void both(Caller caller, Inner inner) {
  trap.outer = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) - 512;  // beyond what it passes on
  char room[512];
  asm volatile("" : : "r"(room) : "memory");
  caller(inner);
  asm volatile("" : : "r"(room) : "memory");
}

template <std::size_t Bytes>
WITHOUT_FRAME_POINTER void caller_with(Inner inner) {
  char room[Bytes];
  put_back(room, Bytes);
  asm volatile("" : : "r"(room) : "memory");
  inner();
  asm volatile("" : : "r"(room) : "memory");
}
[[gnu::noinline]] void realigned_in_trap() {
  alignas(64) char room[64];
  asm volatile("" : : "r"(room) : "memory");
  look_in_trap();
  asm volatile("" : : "r"(room) : "memory");
}

void walk_into_the_trap(const volatile Caller* callers, Inner inner, Walk when) {
  const auto memory = std::make_unique<Ours>(when);
  ours = memory.get();
  trap = Trap{};
  for (trap.room = 16; trap.room < 8192; trap.room += 16) {
    for (int call = 0; call < 2; ++call) {
      asm volatile("" : "+r"(call));  // both are to be called from one place: no unrolling
      trap.armed = call == 1;
      both(callers[call], inner);
    }
  }
  EXPECT_TRUE(trap.sprung);
  EXPECT_EQ(ours->chains.size(), 2u);
}

constexpr volatile Caller kCallers[] = {first_caller, second_caller};
TEST_P(ChainWalkerTest, SeesAFrameThatBeginsElsewhere) { walk_into_the_trap(kCallers, look_in_trap, GetParam()); }
TEST_P(ChainWalkerTest, SeesAFramePointerThatWasSaved) { walk_into_the_trap(kCallers, saving_it, GetParam()); }
TEST_P(ChainWalkerTest, SeesAFramePointerThatWasLeftAlone) {
  walk_into_the_trap(kCallers, leaving_it_alone, GetParam());
}
// A stack that is realigned ends at the same place for four beginnings.
TEST_P(ChainWalkerTest, SeesAFrameThatRealignsItsStack) {
  constexpr volatile Caller kSizes[] = {caller_with<1024>, caller_with<1040>, caller_with<1056>, caller_with<1072>};
  unsigned sprung = 0;
  for (int size = 0; size < 3; ++size) {
    const auto memory = std::make_unique<Ours>(GetParam());
    ours = memory.get();
    trap = Trap{};
    for (int call = 0; call < 2; ++call) {
      asm volatile("" : "+r"(call));
      trap.armed = call == 1;
      both(kSizes[size + call], realigned_in_trap);
    }
    sprung += trap.sprung;
  }
  EXPECT_GT(sprung, 0u);
}

}  // namespace
