// SPDX-License-Identifier: Apache-2.0
// The exported interface, with a composition of ours as this very program's malloc: linked, not preloaded.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

extern "C" {
void free_sized(void*, std::size_t);
void free_aligned_sized(void*, std::size_t, std::size_t);
void* pvalloc(std::size_t);
void* __libc_malloc(std::size_t);
void __libc_free(void*);
}

namespace {

// Seen by no optimiser: the calls stay, with sizes the compiler would warn of.
template <class T>
T opaque(T value) {
  volatile T copy = value;
  return copy;
}

constexpr std::size_t kTooMuch = PTRDIFF_MAX;

TEST(Abi, OursServesThisProgram) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  EXPECT_EQ(malloc_info(0, file), 0);
  std::fclose(file);
  const char* name = std::getenv("HEAPYARD_TEST_HEAP");
  ASSERT_NE(name, nullptr) << "HEAPYARD_TEST_HEAP is to name the heap that is linked in";
  EXPECT_NE(std::strstr(text, name), nullptr) << text;
  free(text);
  errno = 0;
  EXPECT_EQ(malloc_info(opaque(1), nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Abi, ZeroBytesAreABlockOfTheirOwn) {
  void* first = malloc(opaque(0ul));
  void* second = malloc(opaque(0ul));
  EXPECT_NE(first, nullptr);
  EXPECT_NE(first, second);
  free(first);
  free(second);
  free(opaque<void*>(nullptr));
}

TEST(Abi, TooMuchIsRefusedWithErrno) {
  const std::size_t half = opaque(SIZE_MAX / 2 + 2);
  for (int way = 0; way < 8; ++way) {
    errno = 0;
    void* block = malloc(10);
    void* got = nullptr;
    switch (way) {
      case 0:
        got = malloc(opaque(kTooMuch));
        break;
      case 1:
        got = malloc(opaque(SIZE_MAX));
        break;
      case 2:
        got = calloc(half, 2);
        break;
      case 3:
        got = reallocarray(block, half, 2);
        break;
      case 4:
        got = realloc(block, opaque(kTooMuch));
        break;
      case 5:
        got = aligned_alloc(64, opaque(kTooMuch));
        break;
      case 6:
        got = memalign(opaque(kTooMuch), 8);
        break;
      case 7:
        got = pvalloc(opaque(SIZE_MAX));
        break;
    }
    EXPECT_EQ(got, nullptr) << way;
    EXPECT_EQ(errno, way == 6 ? errno : ENOMEM) << way;
    free(block);  // a failed realloc leaves the block
  }
}

TEST(Abi, AlignmentsAreHeldOrRefused) {
  for (std::size_t alignment = 8; alignment <= 1u << 20; alignment *= 2) {
    for (const std::size_t bytes : {0ul, 1ul, 100ul, 5000ul}) {
      void* block = nullptr;
      ASSERT_EQ(posix_memalign(&block, alignment, bytes), 0);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
      EXPECT_GE(malloc_usable_size(block), bytes);
      free_aligned_sized(block, alignment, bytes);
      block = aligned_alloc(alignment, bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
      free(block);
    }
  }
  void* untouched = &untouched;
  errno = 0;
  EXPECT_EQ(posix_memalign(&untouched, opaque(24ul), 8), EINVAL);
  EXPECT_EQ(posix_memalign(&untouched, opaque(4ul), 8), EINVAL);
  EXPECT_EQ(errno, 0);
  EXPECT_EQ(posix_memalign(&untouched, opaque(64ul), opaque(kTooMuch)), ENOMEM);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(untouched, &untouched);
  EXPECT_EQ(aligned_alloc(opaque(24ul), 48), nullptr);
  EXPECT_EQ(errno, EINVAL);
  void* odd = memalign(opaque(24ul), 48);  // rounded up to 32
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(odd) % 32, 0u);
  free(odd);
  void* pages = pvalloc(1);
  EXPECT_GE(malloc_usable_size(pages), 4096u);
  free(pages);
}

TEST(Abi, ReallocKeepsContentsOverEverySize) {
  std::vector<unsigned char> model;
  unsigned char* block = nullptr;
  for (std::size_t step = 0, bytes = 1; step < 400; ++step) {
    bytes = (bytes * 7 + 13) % (step % 10 == 0 ? 300'000 : 3'000) + 1;
    block = static_cast<unsigned char*>(realloc(block, bytes));
    ASSERT_NE(block, nullptr);
    model.resize(bytes < model.size() ? bytes : model.size());
    ASSERT_EQ(std::memcmp(block, model.data(), model.size()), 0);
    while (model.size() < bytes) {
      block[model.size()] = static_cast<unsigned char>(step + model.size());
      model.push_back(static_cast<unsigned char>(step + model.size()));
    }
  }
  EXPECT_EQ(realloc(block, opaque(0ul)), nullptr);
}

TEST(Abi, FreeKeepsErrno) {
  std::vector<void*> blocks;
  for (std::size_t bytes = 1; bytes < 1u << 22; bytes *= 2) blocks.push_back(malloc(bytes));
  errno = 77;
  for (void* block : blocks) free(block);
  free_sized(malloc(20), 20);
  EXPECT_EQ(errno, 77);
}

TEST(Abi, TheFamilyUnderItsOtherNameIsTheSameHeap) {
  void* block = __libc_malloc(100);
  EXPECT_GE(malloc_usable_size(block), 100u);
  free(block);
  __libc_free(malloc(100));
  EXPECT_EQ(malloc_usable_size(nullptr), 0u);
}

TEST(Abi, ReportsSeeWhatIsMappedAndFree) {
  std::vector<void*> blocks;
  for (int i = 0; i < 20'000; ++i) blocks.push_back(malloc(3000));
  const auto before = mallinfo2();
  for (void* block : blocks) free(block);
  const auto after = mallinfo2();
  EXPECT_EQ(before.arena, before.uordblks + before.fordblks);
  EXPECT_GE(after.fordblks, before.fordblks + 20'000 * 3000 / 10 * 9);  // the rest may be in a cache
  const int trimmed = malloc_trim(0);
  EXPECT_TRUE(trimmed == 0 || trimmed == 1);  // some give back at once and have nothing left to trim
  EXPECT_EQ(mallopt(M_MMAP_THRESHOLD, 1 << 20), 1);
}

int asked = 0;
void give_up() {
  if (++asked == 3) std::set_new_handler(nullptr);
}

TEST(Abi, OldReportsSayTheSame) {
  const struct mallinfo2 wide = mallinfo2();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
  EXPECT_EQ(narrow.arena, static_cast<int>(wide.arena));
  EXPECT_EQ(narrow.uordblks + narrow.fordblks, narrow.arena);
  testing::internal::CaptureStderr();
  malloc_stats();
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find(" bytes mapped, "), std::string::npos) << told;
  EXPECT_NE(told.find(" in use\n"), std::string::npos) << told;
}

TEST(Abi, NewAsksItsHandlerThenThrows) {
  asked = 0;
  std::set_new_handler(give_up);
  EXPECT_THROW(static_cast<void>(operator new(opaque(kTooMuch))), std::bad_alloc);
  EXPECT_EQ(asked, 3);
  EXPECT_THROW(static_cast<void>(operator new[](opaque(kTooMuch))), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(operator new(opaque(kTooMuch), std::align_val_t{64})), std::bad_alloc);
}

TEST(Abi, NothrowNewGivesNullEvenIfItsHandlerThrows) {
  EXPECT_EQ(operator new(opaque(kTooMuch), std::nothrow), nullptr);
  EXPECT_EQ(operator new[](opaque(kTooMuch), std::align_val_t{64}, std::nothrow), nullptr);
  std::set_new_handler([] { throw std::bad_alloc(); });
  EXPECT_EQ(operator new(opaque(kTooMuch), std::nothrow), nullptr);
  std::set_new_handler(nullptr);
}

TEST(Abi, EveryNewHasItsDelete) {
  operator delete(operator new(10));
  operator delete(operator new(10), std::size_t{10});
  operator delete[](operator new[](10));
  operator delete[](operator new[](10), std::size_t{10});
  operator delete(operator new(10, std::nothrow), std::nothrow);
  operator delete[](operator new[](10, std::nothrow), std::nothrow);
  constexpr std::align_val_t kWide{256};
  void* wide = operator new(10, kWide);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide) % 256, 0u);
  operator delete(wide, kWide);
  operator delete[](operator new[](10, kWide), kWide);
  operator delete(operator new(10, kWide), std::size_t{10}, kWide);
  operator delete[](operator new[](10, kWide), std::size_t{10}, kWide);
  operator delete(operator new(10, kWide, std::nothrow), kWide, std::nothrow);
  operator delete[](operator new[](10, kWide, std::nothrow), kWide, std::nothrow);
}

}  // namespace
