// SPDX-License-Identifier: Apache-2.0
// What the kernel's files say of a control group's memory, in both versions.
#include "heap/os/memory_group.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace heapyard::os {
namespace {

TEST(MemoryGroup, ThePathIsThatOfTheControllerAskedFor) {
  const std::string_view both = "12:cpu,cpuacct:/a\n4:hugetlb,memory:/b/c\n1:name=systemd:/d\n0::/e/f\n";
  EXPECT_EQ(group_path(both, "memory"), "/b/c");
  EXPECT_EQ(group_path(both, "cpu"), "/a");
  EXPECT_EQ(group_path(both, ""), "/e/f");
  EXPECT_EQ(group_path("0::/\n", ""), "/");
}

TEST(MemoryGroup, NoPathIsMadeUp) {
  EXPECT_EQ(group_path("", ""), "");
  EXPECT_EQ(group_path("0::/e\n", "memory"), "");
  EXPECT_EQ(group_path("3:memory2:/a\n4:memor:/b\n5:xmemory,y:/c\n", "memory"), "");
  EXPECT_EQ(group_path("4:memory:/cut off", "memory"), "");
  EXPECT_EQ(group_path("no colon\n:\nmemory:/a\n\n", "memory"), "");
  EXPECT_EQ(group_path("4:memory:/a:b\n", "memory"), "/a:b");
}

class MemoryGroupFiles : public testing::Test {
 protected:
  void SetUp() override {
    mount_ = testing::TempDir() + "heapyard-group-XXXXXX";
    ASSERT_NE(mkdtemp(mount_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(mount_); }

  void say(const std::string& group, const std::string& limit) const {
    std::filesystem::create_directories(mount_ + group);
    std::ofstream(mount_ + group + "/max") << limit << "\n";
  }
  std::size_t least(std::string_view path) const { return least_limit(mount_, path, "/max"); }

  std::string mount_;
};

TEST_F(MemoryGroupFiles, TheLeastOfAllGroupsAboveCounts) {
  say("", "9000");
  say("/a", "max");
  say("/a/b", "7000");
  EXPECT_EQ(least("/a/b"), 7000u);
  EXPECT_EQ(least("/a"), 9000u);
  EXPECT_EQ(least("/"), 9000u);
  say("/a", "5000");
  EXPECT_EQ(least("/a/b"), 5000u);
}

TEST_F(MemoryGroupFiles, WhatCannotBeReadIsNoLimit) {
  EXPECT_EQ(least("/a/b"), SIZE_MAX);
  say("/a", "max");
  EXPECT_EQ(least("/a/b"), SIZE_MAX);
  EXPECT_EQ(least("/" + std::string(5000, 'x')), SIZE_MAX);
  EXPECT_EQ(least("/../../a/b/" + std::string(5000, 'x')), SIZE_MAX);
}

// In a container without a name space of groups the path is the host's, and the mount its own group.
TEST_F(MemoryGroupFiles, APathOfTheHostEndsAtTheRoot) {
  say("", "4000");
  EXPECT_EQ(least("/kubepods/pod1/0123"), 4000u);
}

TEST(MemoryGroup, TheProcessesOwnIsReadWithoutHarm) {
  errno = 7;
  EXPECT_GT(group_limit(), 1u << 20);
  EXPECT_EQ(errno, 7);
}

}  // namespace
}  // namespace heapyard::os
