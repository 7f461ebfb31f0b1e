// SPDX-License-Identifier: Apache-2.0
// How a workload calls the heap: malloc and friends, counted, checked for null, and observed if the options ask for it.
//
// A workload is a template over Operations<Observer>; the observer is chosen once per run, so an unobserved call is the
// call itself, two additions, a multiplication and a branch never taken. Every call names its object (a slot or a
// serial number of the workload): from that come the log, and the checksum that is the same under every allocator and
// schedule. Cost O(1) each. One object per thread. A null from the heap ends the program with exit 4.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "sampled_timing.hpp"
#include "worker.hpp"

namespace heapyard::kit {

// Says which call of which thread failed and what the thread had reached; exit 4. Only the first caller speaks.
[[noreturn]] void out_of_memory(const Worker& worker, const Tally& reached, Call call, std::uint64_t size);

// Sees nothing and costs nothing.
struct NoObserver {
  explicit NoObserver(Worker&) {}
  template <class Operation>
  auto around(Call, Operation operation) {
    return operation();
  }
  void note(Call, std::uint64_t, std::uint64_t) {}
};

// Times every n-th call of each kind on its own. (One count for all kinds would, where malloc and free alternate, time
// only one of them.)
class LatencyObserver {
 public:
  explicit LatencyObserver(Worker& worker) {
    for (std::size_t call = 0; call < kCalls; ++call)
      of_[call] = {&worker.latencies->of[call], worker.latency_period, worker.read_cost};
  }
  template <class Operation>
  auto around(Call call, Operation operation) {
    return of_[static_cast<std::size_t>(call)].around(operation);
  }
  void note(Call, std::uint64_t, std::uint64_t) {}

 private:
  SampledTiming of_[kCalls];
};

// Remembers every call.
class LogObserver {
 public:
  explicit LogObserver(Worker& worker) : log_(worker.log) {}
  template <class Operation>
  auto around(Call, Operation operation) {
    return operation();
  }
  void note(Call call, std::uint64_t object, std::uint64_t size) { log_.add(call, object, size); }

 private:
  OperationLog& log_;
};

// Latencies are of the measured phase alone.
template <class Observer>
using OutsideMeasurement = std::conditional_t<std::is_same_v<Observer, LatencyObserver>, NoObserver, Observer>;

template <class Observer>
class Operations {
 public:
  // Continues the worker's tally of `phase`, and writes it back when destroyed.
  Operations(Worker& worker, Phase phase)
      : worker_(worker), kept_(worker.tally[static_cast<std::size_t>(phase)]), tally_(kept_), observer_(worker) {}
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;
  ~Operations() { kept_ = tally_; }

  void* allocate(std::uint64_t size, std::uint64_t object) {
    return allocated(Call::kMalloc, observer_.around(Call::kMalloc, [&] { return std::malloc(size); }), size, object);
  }
  void* allocate_zeroed(std::uint64_t size, std::uint64_t object) {
    return allocated(Call::kCalloc, observer_.around(Call::kCalloc, [&] { return std::calloc(1, size); }), size,
                     object);
  }
  // `alignment`: a power of two, at least sizeof(void*); `size` need not be a multiple of it.
  void* allocate_aligned(std::uint64_t alignment, std::uint64_t size, std::uint64_t object) {
    void* const block = observer_.around(Call::kAligned, [&] {
      void* found = nullptr;
      return posix_memalign(&found, alignment, size) == 0 ? found : nullptr;
    });
    return allocated(Call::kAligned, block, size, object);
  }
  // The same by C's own function, which wants whole multiples: `size` is one of `alignment`.
  void* allocate_multiple(std::uint64_t alignment, std::uint64_t size, std::uint64_t object) {
    void* const block = observer_.around(Call::kAligned, [&] { return std::aligned_alloc(alignment, size); });
    return allocated(Call::kAligned, block, size, object);
  }
  // Cache lines that no other object shares. It counts, and is logged, as what was asked for: the same work as
  // unpadded.
  void* allocate_padded(std::uint64_t size, std::uint64_t object) {
    void* const block = observer_.around(Call::kAligned, [&] {
      void* found = nullptr;
      return posix_memalign(&found, kCacheLine, (size / kCacheLine + 1) * kCacheLine) == 0 ? found : nullptr;
    });
    return allocated(Call::kAligned, block, size, object);
  }
  // A null `block` makes a new object.
  void* reallocate(void* block, std::uint64_t size, std::uint64_t object) {
    void* const moved = observer_.around(Call::kRealloc, [&] { return std::realloc(block, size); });
    return allocated(Call::kRealloc, moved, size, object, block ? tally_.reallocations : tally_.allocations);
  }
  void release(void* block, std::uint64_t object) {
    observer_.note(Call::kFree, object, 0);
    observer_.around(Call::kFree, [&] {
      std::free(block);
      return 0;
    });
    ++tally_.releases;
    tally_.released += (object + 1) * kOdd;
  }

  // For workloads that know how much they hold.
  void hold(std::uint64_t bytes) { worker_.live.add(bytes); }
  void drop(std::uint64_t bytes) { worker_.live.subtract(bytes); }
  // What was read from an object becomes part of the checksum: an allocator that damages contents is found out.
  void saw(std::uint64_t content) { tally_.contents += content; }

 private:
  static constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;

  void* allocated(Call call, void* block, std::uint64_t size, std::uint64_t object) {
    return allocated(call, block, size, object, tally_.allocations);
  }
  void* allocated(Call call, void* block, std::uint64_t size, std::uint64_t object, std::uint64_t& counter) {
    if (!block) [[unlikely]]
      out_of_memory(worker_, tally_, call, size);
    ++counter;
    tally_.bytes += size;
    tally_.sequence = (tally_.sequence + size + 1) * kOdd + object;
    observer_.note(call, object, size);
    return block;
  }

  Worker& worker_;
  Tally& kept_;
  Tally tally_;
  [[no_unique_address]] Observer observer_;
};

// Writes every byte of an object, which makes all of it resident. The stores stay: the heap's functions are no
// built-ins to the compiler here, so it must assume that free reads what it is given.
inline void write_all(void* block, std::uint64_t size, std::uint64_t value) {
  auto* const words = static_cast<std::uint64_t*>(block);
  for (std::uint64_t i = 0; i < size / 8; ++i) words[i] = value;
  auto* const bytes = static_cast<std::uint8_t*>(block);
  for (std::uint64_t i = size & ~std::uint64_t{7}; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(value);
}

// Writes one byte in each page and the last byte: all of it becomes resident at least cost.
inline void write_pages(void* block, std::uint64_t size, std::uint8_t value) {
  auto* const bytes = static_cast<std::uint8_t*>(block);
  for (std::uint64_t i = 0; i < size; i += kPage) bytes[i] = value;
  if (size) bytes[size - 1] = value;
}

}  // namespace heapyard::kit
