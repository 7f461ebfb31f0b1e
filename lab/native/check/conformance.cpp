// SPDX-License-Identifier: Apache-2.0
// What C, POSIX and glibc promise of the C interface: points 1 and 5 of a list drawn from the tests of seven
// allocators.
#include <dlfcn.h>
#include <malloc.h>

#include <cerrno>

#include "support.hpp"

extern "C" {
void* pvalloc(std::size_t);
[[gnu::weak]] void free_sized(void*, std::size_t);
[[gnu::weak]] void free_aligned_sized(void*, std::size_t, std::size_t);
}

namespace heapyard::check {
namespace {

constexpr std::size_t kTooMuch[] = {static_cast<std::size_t>(PTRDIFF_MAX), static_cast<std::size_t>(PTRDIFF_MAX) + 1,
                                    SIZE_MAX - 4096, SIZE_MAX};

// Requests whose size classes and thresholds differ between allocators; each with its neighbours.
template <class Body>
void for_each_size(std::size_t most, Body body) {
  for (std::size_t bytes = 0; bytes <= 2100 && bytes <= most; ++bytes) body(bytes);
  for (std::size_t power = 4096; power <= most; power *= 2) {
    for (const std::size_t bytes : {power - 16, power - 1, power, power + 1, power + power / 2}) body(bytes);
  }
}

void symbols(Report& report, Amount) {
  // Whoever serves malloc must serve all that make blocks, or free gets blocks of another heap.
  struct Symbol {
    const char* name;
    bool makes_blocks;
  };
  constexpr Symbol kSymbols[] = {
      {"free", true},
      {"calloc", true},
      {"realloc", true},
      {"posix_memalign", true},
      {"aligned_alloc", true},
      {"memalign", true},
      {"malloc_usable_size", true},
      {"valloc", true},
      {"pvalloc", true},
      {"reallocarray", false},
      {"free_sized", false},
      {"free_aligned_sized", false},
      {"malloc_trim", false},
      {"mallinfo2", false},
      {"mallopt", false},
      {"malloc_info", false},
  };
  Dl_info serving{}, other{};
  dladdr(dlsym(RTLD_DEFAULT, "malloc"), &serving);
  char missing[200] = {};
  for (const Symbol& symbol : kSymbols) {
    void* address = dlsym(RTLD_DEFAULT, symbol.name);
    const bool own = address && dladdr(address, &other) && std::strcmp(other.dli_fname, serving.dli_fname) == 0;
    if (own) continue;
    if (symbol.makes_blocks) report.fail("%s is not the library's own: its blocks are of another heap", symbol.name);
    const std::size_t used = std::strlen(missing);
    std::snprintf(missing + used, sizeof missing - used, "%s%s", used ? " " : "", symbol.name);
  }
  report.fact("not_provided", missing);
}

void malloc_alignment(Report& report, Amount) {
  std::size_t least = 16;
  for_each_size(64u << 20, [&](std::size_t bytes) {
    void* blocks[3];
    for (void*& block : blocks) {
      block = malloc(bytes);
      if (!block && bytes) return report.fail("malloc(%zu) gave null", bytes);
      // C demands what any object of this size can need; System V's ABI 16 bytes for those of 16 and more.
      std::size_t needed = 16;
      while (needed > bytes && needed > 1) needed /= 2;
      if (!aligned(block, needed))
        report.fail("malloc(%zu) gave %p, which is not aligned to %zu", bytes, block, needed);
      while (block && !aligned(block, least)) least /= 2;
    }
    for (void* block : blocks) free(block);
  });
  report.fact("least_alignment", static_cast<double>(least), "B");
}

void zero_bytes(Report& report, Amount) {
  void* first = malloc(opaque(0ul));
  void* second = malloc(opaque(0ul));
  if (!first || !second)
    report.note("malloc(0) gives null, which C allows and some programs take for out of memory");
  else if (first == second)
    report.fail("two calls of malloc(0) gave the same block");
  free(first);
  free(second);
  free(opaque<void*>(nullptr));
  void* block = calloc(opaque(0ul), 8);
  free(block);
  block = realloc(malloc(20), opaque(0ul));
  report.fact("realloc_to_zero", block ? "a block" : "null");
  free(block);
}

void too_much(Report& report, Amount) {
  for (const std::size_t bytes : kTooMuch) {
    const auto refused = [&](const char* call, void* got) {
      if (got)
        report.fail("%s of %zu bytes gave a block", call, bytes);
      else if (errno != ENOMEM)
        report.fail("%s of %zu bytes left errno at %d instead of ENOMEM", call, bytes, errno);
      errno = 0;
    };
    errno = 0;
    refused("malloc", malloc(opaque(bytes)));
    refused("calloc", calloc(1, opaque(bytes)));
    void* block = malloc(100);
    fill(block, 100, 1);
    refused("realloc", realloc(block, opaque(bytes)));
    if (!intact(block, 100, 1)) report.fail("a realloc that failed changed the block");
    free(block);
    refused("aligned_alloc", aligned_alloc(64, opaque(bytes & ~std::size_t{63})));
    void* untouched = &untouched;
    const int error = posix_memalign(&untouched, 64, opaque(bytes));
    if (error != ENOMEM) report.fail("posix_memalign of %zu bytes gave %d instead of ENOMEM", bytes, error);
    errno = 0;
  }
}

void calloc_overflow(Report& report, Amount) {
  const std::size_t half = opaque(SIZE_MAX / 2 + 2);
  for (const std::size_t each : {2ul, 3ul, 16ul, SIZE_MAX}) {
    errno = 0;
    if (void* block = calloc(half, opaque(each)))
      report.fail("calloc(%zu, %zu) gave %p", half, each, block);
    else if (errno != ENOMEM)
      report.fail("calloc(%zu, %zu) left errno at %d instead of ENOMEM", half, each, errno);
    errno = 0;
    void* old = malloc(10);
    if (void* block = reallocarray(old, half, opaque(each)))
      report.fail("reallocarray(p, %zu, %zu) gave %p", half, each, block);
    else
      free(old);
  }
}

void calloc_zeroes(Report& report, Amount amount) {
  for (std::size_t bytes = 1; bytes < 40u << 20; bytes = bytes * 5 / 3 + 3) {
    for (std::size_t round = 0; round < amount.of(8, 4); ++round) {
      auto* dirty = static_cast<unsigned char*>(malloc(bytes));
      if (!dirty) return;
      std::memset(dirty, 0xA5, bytes);
      free(dirty);
      auto* block = static_cast<unsigned char*>(calloc(1, bytes));
      for (std::size_t i = 0; i < bytes; ++i) {
        if (block[i]) return report.fail("calloc of %zu bytes left byte %zu at 0x%02x", bytes, i, block[i]);
      }
      std::memset(block, 0x5A, bytes);
      free(block);
    }
  }
}

void realloc_keeps(Report& report, Amount amount) {
  constexpr std::size_t kSlots = 64;
  struct {
    void* block;
    std::size_t bytes;
  } slots[kSlots] = {};
  Random random(1);
  for (std::size_t step = 0; step < amount.of(200'000, 10); ++step) {
    auto& slot = slots[random.below(kSlots)];
    const std::size_t bytes = 1 + random.below(random.percent(5) ? 400'000 : random.percent(50) ? 200 : 5'000);
    void* moved = realloc(slot.block, bytes);
    if (!moved) return report.fail("realloc to %zu bytes gave null", bytes);
    const std::size_t kept = slot.bytes < bytes ? slot.bytes : bytes;
    const std::uint64_t tag = static_cast<std::uint64_t>(&slot - slots);
    if (const std::size_t at = first_wrong(moved, kept, tag); at != kept) {
      return report.fail("realloc from %zu to %zu bytes lost byte %zu", slot.bytes, bytes, at);
    }
    if (bytes >= 16 && !aligned(moved, 16))
      return report.fail("realloc to %zu bytes gave %p, which is not aligned to 16", bytes, moved);
    fill(moved, bytes, tag);
    slot = {moved, bytes};
  }
  for (auto& slot : slots) free(slot.block);
}

void usable_size(Report& report, Amount) {
  constexpr std::size_t kBlocks = 4000;
  static void* blocks[kBlocks];
  static std::size_t usable[kBlocks];
  Random random(2);
  double waste = 0, asked = 0;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::size_t bytes = 1 + random.below(i % 50 == 0 ? 100'000 : 2'000);
    blocks[i] = malloc(bytes);
    usable[i] = malloc_usable_size(blocks[i]);
    if (usable[i] < bytes) return report.fail("malloc_usable_size of a block of %zu bytes is %zu", bytes, usable[i]);
    fill(blocks[i], usable[i], i);
    asked += static_cast<double>(bytes);
    waste += static_cast<double>(usable[i] - bytes);
  }
  for (std::size_t i = 0; i < kBlocks; ++i) {
    if (!intact(blocks[i], usable[i], i))
      return report.fail("what malloc_usable_size calls usable is another block's too");
    free(blocks[i]);
  }
  if (malloc_usable_size(opaque<void*>(nullptr)) != 0) report.fail("malloc_usable_size of null is not 0");
  report.fact("rounded_up", 100 * waste / asked, "%");
}

void alignments(Report& report, Amount amount) {
  constexpr std::size_t kSizes[] = {0, 1, 7, 8, 24, 48, 100, 256, 1000, 4096, 5000, 70'000, 1u << 20};
  const std::size_t most = amount.quick ? 1u << 16 : 1u << 21;
  for (std::size_t alignment = sizeof(void*); alignment <= most; alignment *= 2) {
    for (const std::size_t bytes : kSizes) {
      void* blocks[8] = {};
      int made = 0;
      const auto add = [&](const char* call, void* block) {
        if (!block) return bytes ? report.fail("%s of %zu bytes at %zu gave null", call, bytes, alignment) : void();
        if (!aligned(block, alignment)) {
          if (bytes)
            report.fail("%s of %zu bytes at %zu gave %p", call, bytes, alignment, block);
          else
            report.note("%s of 0 bytes at %zu gave %p", call, alignment, block);
        }
        if (malloc_usable_size(block) < bytes) {
          report.fail("%s of %zu bytes at %zu: malloc_usable_size is %zu", call, bytes, alignment,
                      malloc_usable_size(block));
        }
        fill(block, bytes, alignment + static_cast<std::size_t>(made));
        blocks[made++] = block;
      };
      for (int twice = 0; twice < 2; ++twice) {
        void* block = nullptr;
        if (posix_memalign(&block, alignment, bytes) != 0) block = nullptr;
        add("posix_memalign", block);
        add("aligned_alloc", aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
        add("memalign", memalign(alignment, bytes));
      }
      for (int i = 0; i < made; ++i) {
        if (!intact(blocks[i], bytes, alignment + static_cast<std::size_t>(i))) {
          report.fail("aligned blocks of %zu bytes at %zu overlap", bytes, alignment);
        }
        if (i % 2) {
          void* moved = realloc(blocks[i], bytes + 100);
          if (!moved || !intact(moved, bytes, alignment + static_cast<std::size_t>(i))) {
            report.fail("realloc of a block of %zu bytes at %zu lost its contents", bytes, alignment);
          }
          blocks[i] = moved;
        }
        free(blocks[i]);
      }
      if (report.failed()) return;
    }
  }
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const std::size_t bytes : {1ul, 100ul, 5000ul}) {
    void* block = valloc(bytes);
    void* whole = pvalloc(bytes);
    if (!aligned(block, page)) report.fail("valloc(%zu) gave %p", bytes, block);
    if (!aligned(whole, page) || malloc_usable_size(whole) < page)
      report.fail("pvalloc(%zu) gave less than a page", bytes);
    free(block);
    free(whole);
  }
}

void alignment_errors(Report& report, Amount) {
  void* untouched = &untouched;
  for (const std::size_t alignment : {0ul, 1ul, 4ul, 24ul, 100ul}) {
    const int error = posix_memalign(&untouched, opaque(alignment), 64);
    if (error != EINVAL) report.fail("posix_memalign at %zu gave %d instead of EINVAL", alignment, error);
    if (untouched != &untouched) return report.fail("posix_memalign at %zu failed and changed the pointer", alignment);
  }
  errno = 0;
  void* block = aligned_alloc(opaque(24ul), 48);
  if (block)
    report.note("aligned_alloc takes an alignment of 24, which is not a power of two");
  else if (errno != EINVAL)
    report.note("aligned_alloc refuses an alignment of 24 with errno %d instead of EINVAL", errno);
  free(block);
}

void errno_kept(Report& report, Amount) {
  constexpr std::size_t kBlocks = 30;
  void* blocks[kBlocks];
  for (std::size_t i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(std::size_t{1} << (i % 26));
    std::memset(blocks[i], 1, std::size_t{1} << (i % 26));
  }
  for (std::size_t i = 0; i < kBlocks; ++i) {
    errno = 123;
    free(blocks[i]);
    if (errno != 123)
      return report.fail("free of %zu bytes changed errno to %d, against POSIX 2024", std::size_t{1} << (i % 26),
                         errno);
  }
}

void sized_free(Report& report, Amount) {
  report.fact("free_sized", free_sized ? "yes" : "no");
  for (std::size_t bytes = 1; bytes < 1u << 20; bytes = bytes * 3 + 1) {
    void* block = malloc(bytes);
    fill(block, bytes, 3);
    if (free_sized)
      free_sized(block, bytes);
    else
      free(block);
    block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (free_aligned_sized)
      free_aligned_sized(block, 64, (bytes + 63) / 64 * 64);
    else
      free(block);
  }
}

void reports(Report& report, Amount) {
  void* block = malloc(1000);
  malloc_trim(0);
  report.fact("mallinfo2_arena", static_cast<double>(mallinfo2().arena), "B");
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  free(block);
}

constexpr Case kConformanceCases[] = {
    {"conformance", "symbols", "everything that makes blocks is the library's own", symbols},
    {"conformance", "malloc-alignment", "every size is aligned as C and the ABI demand", malloc_alignment},
    {"conformance", "zero-bytes", "requests of 0 bytes, free of null", zero_bytes},
    {"conformance", "too-much", "absurd sizes give null and ENOMEM", too_much},
    {"conformance", "calloc-overflow", "calloc and reallocarray whose product overflows are refused", calloc_overflow},
    {"conformance", "calloc-zeroes", "calloc gives zeros in memory that was used before", calloc_zeroes},
    {"conformance", "realloc-keeps", "realloc keeps contents and alignment, growing and shrinking", realloc_keeps},
    {"conformance", "usable-size", "every byte of malloc_usable_size can be used", usable_size},
    {"conformance", "alignments", "posix_memalign, aligned_alloc, memalign, valloc, pvalloc at 8 B to 2 MiB",
     alignments},
    {"conformance", "alignment-errors", "alignments that are none are refused", alignment_errors},
    {"conformance", "errno-kept", "free leaves errno alone", errno_kept},
    {"conformance", "sized-free", "C23's sized frees, where there are some", sized_free},
    {"conformance", "reports", "malloc_trim, mallinfo2 and mallopt can be called", reports},
};

}  // namespace

std::span<const Case> conformance_cases() { return kConformanceCases; }

}  // namespace heapyard::check
