// SPDX-License-Identifier: Apache-2.0
// Blocks with a mapping of their own.
#include <gtest/gtest.h>

#include <cstdint>

#include "compositions.hpp"
#include "heap/layers/backend/lone_mapping.hpp"

namespace heapyard::test {

TEST(LoneMapping, BlocksOfAnyAlignmentFindTheirMapping) {
  using Lone = LoneMapping<ScarcePages>;
  for (std::size_t alignment = 1; alignment <= 1u << 20; alignment *= 2) {
    for (const std::size_t bytes : {0ul, 1ul, 4080ul, 4096ul, 100'000ul}) {
      void* block = Lone::allocate(bytes, alignment);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
      ASSERT_TRUE(Lone::owns(block));
      ASSERT_GE(Lone::usable(block), bytes);
      fill(block, Lone::usable(block), 1);
      Lone::free(block);
    }
  }
}

}  // namespace heapyard::test
