// SPDX-License-Identifier: Apache-2.0
// What libheapyard exports beyond malloc: heap/include/heapyard.h says what each function does.
#include "heap/include/heapyard.h"

#include <cerrno>
#include <cstdint>

#include "composition.hpp"
#include "heap/abi/json_text.hpp"
#include "heap/abi/options.hpp"
#include "heap/layers/first_class.hpp"

using heapyard::abi::Heap;

namespace {

using FirstClass = heapyard::FirstClass<Heap>;
using Parts = Heap::Layered;
using Classes = Parts::Front::Classes;

FirstClass::Heap* inner(heapyard_heap* heap) { return reinterpret_cast<FirstClass::Heap*>(heap); }
heapyard_heap* outer(FirstClass::Heap* heap) { return reinterpret_cast<heapyard_heap*>(heap); }

static_assert(Classes::kClasses * sizeof "{'bytes': 32768, 'blocks': 1099511627776}, " + 1024 <
              HEAPYARD_STATISTICS_BYTES);

void write_statistics(heapyard::abi::JsonText& json) {
  const std::size_t cached = Parts::front.free_bytes(), held = Parts::pool.used_bytes();
  const std::size_t large = Parts::runs.large_bytes(), owned = FirstClass::Heaps::span_bytes();
  const std::size_t used = Parts::runs.used_bytes(), mapped = Parts::runs.there_bytes();
  const std::size_t dirty = Parts::runs.dirty_bytes(), spans = used > large + owned ? used - large - owned : 0;
  json.open(nullptr, '{');
  json.word("name", heapyard::abi::kName);
  json.word("version", heapyard::abi::kVersion);
  json.open("bytes", '{');
  json.number("mapped", mapped);
  json.number("small_blocks", held > cached ? held - cached : 0);
  json.number("large_blocks", large);
  json.number("first_class_spans", owned);
  json.number("cached", cached < held ? cached : held);
  json.number("free_in_spans", spans > held ? spans - held : 0);
  json.number("free_dirty", dirty);
  json.number("free_clean", mapped > used + dirty ? mapped - used - dirty : 0);
  json.number("outside", Parts::runs.budget().limit().outside());
  json.close('}');
  Parts::runs.budget().limit().set() ? json.number("limit", Parts::runs.budget().limit().most()) : json.null("limit");
  json.number("threads", Parts::front.threads());
  json.open("classes", '[');
  for (unsigned c = 1; c < Classes::kClasses; ++c) {
    const std::size_t blocks = Parts::pool.used_blocks(c);
    if (blocks == 0) continue;
    json.open(nullptr, '{');
    json.number("bytes", Classes::bytes_of(c));
    json.number("blocks", blocks);
    json.close('}');
  }
  json.close(']');
  json.close('}');
}

bool statistics_at_exit = false;

[[gnu::constructor]] void apply_options() {
  const auto options = heapyard::abi::Options::of_environment();
  Heap::begin();
  Parts::runs.budget().limit().set(options.limit);
  if (options.keep != SIZE_MAX) Parts::runs.budget().keep(static_cast<std::uint32_t>(options.keep * 1024 / 100));
  if (!options.huge_pages) Parts::runs.use_huge_pages(false);
  if (options.thread_cache != SIZE_MAX) Parts::front.set_base(options.thread_cache);
  statistics_at_exit = options.statistics;
}

// One line of JSON on standard error.
[[gnu::destructor]] void tell_statistics() {
  if (!statistics_at_exit) return;
  char text[HEAPYARD_STATISTICS_BYTES];
  const std::size_t length = heapyard_statistics(text, sizeof text);
  if (length == 0) return;
  text[length] = '\n';
  syscall(SYS_write, STDERR_FILENO, text, length + 1);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

size_t heapyard_statistics(char* text, size_t bytes) {
  heapyard::abi::JsonText json(text, bytes);
  return Heap::inside([&](const auto&) { write_statistics(json); }) ? json.length() : 0;
}

size_t heapyard_purge(void) {
  size_t before = 0, after = 0;
  Heap::inside([&](const auto& visit) {
    Parts::front.trim(visit);
    before = Parts::runs.dirty_bytes();
    Parts::runs.trim();
    after = Parts::runs.dirty_bytes();
  });
  return before > after ? before - after : 0;
}

void heapyard_set_limit(size_t bytes) {
  Parts::runs.budget().limit().set(bytes);
  Heap::inside([](const auto&) { Parts::runs.settle(); });  // free pages beyond it go
}
size_t heapyard_limit(void) { return Parts::runs.budget().limit().most(); }

heapyard_sized heapyard_allocate_at_least(size_t bytes) {
  void* block = Heap::allocate(bytes);
  return {block, block == nullptr ? 0 : Heap::usable(block)};
}

heapyard_heap* heapyard_heap_create(void) { return outer(FirstClass::make()); }

int heapyard_heap_destroy(heapyard_heap* heap) {
  return heap == nullptr || FirstClass::destroy(inner(heap)) ? 0 : EAGAIN;
}

void* heapyard_heap_allocate(heapyard_heap* heap, size_t bytes) {
  return FirstClass::allocate(inner(heap), bytes, FirstClass::kAlignment, false);
}

void* heapyard_heap_allocate_zeroed(heapyard_heap* heap, size_t count, size_t each) {
  size_t bytes;
  if (__builtin_mul_overflow(count, each, &bytes)) return heapyard::os::or_no_memory(nullptr);
  return FirstClass::allocate(inner(heap), bytes, FirstClass::kAlignment, true);
}

void* heapyard_heap_allocate_aligned(heapyard_heap* heap, size_t alignment, size_t bytes) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    errno = EINVAL;
    return nullptr;
  }
  return FirstClass::allocate(inner(heap), bytes, alignment, false);
}

size_t heapyard_heap_bytes(heapyard_heap* heap) { return inner(heap)->runs.bytes(); }

heapyard_heap* heapyard_heap_of(const void* block) { return outer(FirstClass::of(block)); }

}  // extern "C"
#pragma GCC visibility pop
