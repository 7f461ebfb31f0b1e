// SPDX-License-Identifier: Apache-2.0
// Text and JSON that no heap serves, and the mappings below them.
#include "base/text.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/mapping.hpp"

namespace heapyard {
namespace {

TEST(Counted, HasOneOfOneAndManyOfOthers) {
  Text text;
  text << Counted{1, "thread"} << ", " << Counted{0, "thread"} << ", " << Counted{12, "processor"};
  EXPECT_EQ(text.view(), "1 thread, 0 threads, 12 processors");
}

TEST(Text, LeavesALentBufferWhenItIsFull) {
  char room[8];
  Text text{std::span<char>(room)};
  text << "1234567";
  EXPECT_EQ(text.view().data(), room);
  const std::string more(100'000, 'x');  // and the mapping after it
  text << "8" << more;
  EXPECT_NE(text.view().data(), room);
  EXPECT_EQ(text.view(), "12345678" + more);
}

TEST(Json, EscapesAndSeparates) {
  Text text;
  Json json(text);
  json.open('{')
      .field("a\"b", "x\ny\\")
      .field("n", 3)
      .key("list")
      .open('[')
      .value(1.5)
      .value(true)
      .value(0.0 / 0.0)
      .close(']')
      .close('}');
  EXPECT_EQ(text.view(), R"({"a\"b":"x\u000ay\\","n":3,"list":[1.5,true,null]})");
}

TEST(Json, KeepsUtf8AndAsksWhereBytesAreNone) {
  Text text;
  Json json(text);
  // Whole letters of two to four bytes; one cut off, one overlong, a byte that begins nothing, one cut off at the end.
  json.open('[')
      .value("\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xbb")
      .value("a\xe2\x82z\xc0\xaf\xff")
      .value("\xf0\x9f\x90")
      .close(']');
  EXPECT_EQ(text.view(), "[\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xbb\",\"a??z???\",\"???\"]");
}

TEST(Clock, CountsNanoseconds) {
  const std::uint64_t before = monotonic_ns(), worked = thread_cpu_ns();
  sleep_ms(20);
  EXPECT_GE(monotonic_ns() - before, 20'000'000u);
  EXPECT_LT(thread_cpu_ns() - worked, monotonic_ns() - before);
  EXPECT_GT(real_ns(), 1'000'000'000'000'000'000u);  // some day of 2001
}

TEST(Mapping, IsZeroedAndNullWhereThereIsNone) {
  auto* const words = static_cast<std::uint64_t*>(map_shared(4096));
  ASSERT_NE(words, nullptr);
  EXPECT_EQ(words[0] | words[511], 0u);
  munmap(words, 4096);
  EXPECT_EQ(map_private(std::size_t{1} << 60), nullptr);
  EXPECT_EQ(map_file(-1, 4096), nullptr);
}

}  // namespace
}  // namespace heapyard
