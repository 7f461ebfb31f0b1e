// SPDX-License-Identifier: Apache-2.0
// What C++ promises of new and delete: point 2 of the list.
#include <new>

#include "support.hpp"

namespace heapyard::check {
namespace {

void every_form(Report& report, Amount) {
  for (std::size_t bytes = 1; bytes < 1u << 20; bytes = bytes * 2 + 1) {
    const auto used = [&](void* block) { return std::memset(block, 1, bytes); };
    operator delete(used(operator new(bytes)));
    operator delete(used(operator new(bytes)), bytes);
    operator delete[](used(operator new[](bytes)));
    operator delete[](used(operator new[](bytes)), bytes);
    operator delete(used(operator new(bytes, std::nothrow)), std::nothrow);
    operator delete[](used(operator new[](bytes, std::nothrow)), std::nothrow);
    for (std::size_t a = 32; a <= 4096; a *= 8) {
      const auto alignment = static_cast<std::align_val_t>(a);
      void* block = operator new(bytes, alignment);
      if (!aligned(block, a)) return report.fail("new of %zu bytes at %zu gave %p", bytes, a, block);
      operator delete(used(block), alignment);
      operator delete(used(operator new(bytes, alignment)), bytes, alignment);
      operator delete[](used(operator new[](bytes, alignment)), alignment);
      operator delete[](used(operator new[](bytes, alignment)), bytes, alignment);
      operator delete(used(operator new(bytes, alignment, std::nothrow)), alignment, std::nothrow);
      operator delete[](used(operator new[](bytes, alignment, std::nothrow)), alignment, std::nothrow);
    }
  }
  operator delete(opaque<void*>(nullptr));
  // A block of new that free gets, or the other way round, is a program's mistake that many programs make.
  free(operator new(100));
}

int asked = 0;

void handler(Report& report, Amount) {
  const auto too_much = static_cast<std::size_t>(PTRDIFF_MAX) - 4096;
  std::set_new_handler([] {
    if (++asked == 3) std::set_new_handler(nullptr);
  });
  bool thrown = false;
  try {
    void* block = operator new(opaque(too_much));
    report.fail("new of %zu bytes gave %p instead of throwing", too_much, block);
    return;
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  if (!thrown) report.fail("new of %zu bytes did not throw bad_alloc", too_much);
  if (asked != 3) report.fail("the new_handler was called %d times instead of 3", asked);
}

void nothrow(Report& report, Amount) {
  const auto too_much = static_cast<std::size_t>(PTRDIFF_MAX) - 4096;
  if (operator new(opaque(too_much), std::nothrow)) report.fail("nothrow new of %zu bytes gave a block", too_much);
  if (operator new[](opaque(too_much), std::align_val_t{64}, std::nothrow))
    report.fail("aligned nothrow new of %zu bytes gave a block", too_much);
}

constexpr Case kCxxCases[] = {
    {"c++", "every-form", "all forms of new and delete, aligned and sized", every_form},
    {"c++", "new-handler", "new asks its handler, then throws bad_alloc", handler},
    {"c++", "nothrow", "nothrow new gives null", nothrow},
};

}  // namespace

std::span<const Case> cxx_cases() { return kCxxCases; }

}  // namespace heapyard::check
