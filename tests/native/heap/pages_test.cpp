// SPDX-License-Identifier: Apache-2.0
// What the calls of the operating system promise to the layers: heap/os.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "forked_child.hpp"
#include "heap/os/address_space.hpp"
#include "heap/os/notice.hpp"
#include "heap/os/pages.hpp"
#include "heap/os/threads.hpp"
#include "sanitized.hpp"

namespace heapyard::os {
namespace {

constexpr int kMark = 4711;

std::size_t page() { return page_bytes(); }

TEST(SystemPages, AnAlignedMappingIsWhatWasAskedForAndNoMore) {
  for (std::size_t alignment = page(); alignment <= std::size_t{64} << 20; alignment *= 4) {
    errno = kMark;
    auto* const memory = static_cast<char*>(map_aligned(3 * page(), alignment));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % alignment, 0u);
    EXPECT_EQ(memory[0] | memory[3 * page() - 1], 0);
    memory[0] = memory[3 * page() - 1] = 1;
    EXPECT_TRUE(unmap(memory, 3 * page()));
    // What was mapped besides is gone: else the place behind would be occupied. Its neighbour may be somebody else's.
    EXPECT_EQ(place(memory, 3 * page()), Placed::done);
    EXPECT_TRUE(unmap(memory, 3 * page()));
    EXPECT_EQ(errno, kMark);
  }
}

TEST(SystemPages, AnOccupiedPlaceStaysAsItIs) {
  auto* const memory = static_cast<char*>(map(2 * page()));
  ASSERT_NE(memory, nullptr);
  memory[page()] = 7;
  errno = kMark;
  EXPECT_EQ(place(memory + page(), page()), Placed::occupied);
  EXPECT_EQ(memory[page()], 7);
  EXPECT_EQ(errno, kMark);
  EXPECT_TRUE(unmap(memory, 2 * page()));
}

TEST(SystemPages, APlaceThatNobodyMayHaveIsRefused) {
  EXPECT_EQ(place(reinterpret_cast<void*>(~std::uintptr_t{0} - 4 * page() + 1), page()), Placed::refused);
}

TEST(SystemPages, WhatIsHeldHasMemoryOnlyWhereItIsPlaced) {
  constexpr std::size_t kAlignment = std::size_t{4} << 20;
  auto* const held = static_cast<char*>(hold(kAlignment, kAlignment));
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held) % kAlignment, 0u);
  ASSERT_TRUE(place_in_held(held + page(), page()));
  EXPECT_FALSE(filled(held + page()));
  held[page()] = 1;
  EXPECT_TRUE(filled(held + page()));
  EXPECT_TRUE(place_in_held(held + page(), page(), true));
  EXPECT_FALSE(filled(held + page()));
  EXPECT_EQ(place(held, page()), Placed::occupied);
  EXPECT_TRUE(unmap(held, kAlignment));
  EXPECT_FALSE(filled(held));
}

TEST(SystemPages, PagesMoveAndLeaveZeros) {
  auto* const from = static_cast<char*>(map(2 * page()));
  auto* const to = static_cast<char*>(map(2 * page()));
  ASSERT_TRUE(from != nullptr && to != nullptr);
  std::memset(from, 5, 2 * page());
  std::memset(to, 6, 2 * page());
  errno = kMark;
  const bool moved = move_pages(from, 2 * page(), to);  // not before Linux 5.7
  EXPECT_EQ(errno, kMark);
  EXPECT_EQ(to[0], moved ? 5 : 6);
  EXPECT_EQ(to[2 * page() - 1], moved ? 5 : 6);
  EXPECT_EQ(from[0], moved ? 0 : 5);
  unmap(from, 2 * page());
  unmap(to, 2 * page());
}

TEST(SystemPages, WhatThereIsNoRoomForIsNull) {
  constexpr std::size_t kTooMuch = std::size_t{1} << 60;
  errno = kMark;
  EXPECT_EQ(map(kTooMuch), nullptr);
  EXPECT_EQ(map_aligned(kTooMuch, std::size_t{1} << 21), nullptr);
  EXPECT_EQ(hold(kTooMuch, std::size_t{1} << 21), nullptr);
  void* const memory = map(page());
  EXPECT_EQ(remap(memory, page(), kTooMuch), nullptr);
  EXPECT_TRUE(unmap(memory, page()));
  EXPECT_EQ(grow_mapping(memory, page(), 2 * page()), Grown::never);
  EXPECT_EQ(errno, kMark);
}

// Room for the bytes, and not for those that align them.
TEST(SystemPages, WhatCannotBeAlignedIsNull) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer takes more address space than a limit leaves";
  const pid_t child = fork();
  if (child == 0) {
    constexpr std::size_t kAlignment = std::size_t{1} << 30;
    bool right = true;
    const rlimit limit{std::size_t{1} << 30, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
    right = right && address_limit() == limit.rlim_cur;
    right = right && map_aligned(page(), kAlignment) == nullptr && hold(page(), kAlignment) == nullptr;
    void* const memory = map(page());
    right = right && memory != nullptr && unmap(memory, page());
    test::end_child(right);
  }
  EXPECT_TRUE(test::ended_well(child));
}

TEST(Notice, IsOneSentence) {
  for (const auto& [mebibytes, expected] : {std::pair{std::size_t{0}, "heapyard: has 0 MiB, no more\n"},
                                            std::pair{std::size_t{12'345}, "heapyard: has 12345 MiB, no more\n"}}) {
    testing::internal::CaptureStderr();
    notice("has ", mebibytes, ", no more");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), expected);
  }
  const std::string endless(1000, 'x');
  testing::internal::CaptureStderr();
  notice(endless.c_str(), 1, "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "heapyard: " + std::string(246, 'x'));
}

// The child of a fork that comes in the middle has to do anew what its parent was at.
TEST(OnceAcrossForks, AChildDoesAnewWhatWasNotDone) {
  static OnceAcrossForks once;
  static int times = 0;
  bool ended_well = false;
  once.run([&] {
    ++times;
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      once.run([] { ++times; });
      once.run([] { ++times; });
      test::end_child(times == 2);
    }
    ended_well = test::ended_well(child);
  });
  once.run([] { ++times; });
  EXPECT_TRUE(ended_well);
  EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace heapyard::os
