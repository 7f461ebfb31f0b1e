// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/mappings.hpp"

#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdint>

#include "heap/os/pages.hpp"
#include "tracer/events/chains.hpp"
#include "tracer/events/current_session.hpp"
#include "tracer/events/next_symbol.hpp"
#include "tracer/events/own_memory.hpp"
#include "tracer/events/ready.hpp"
#include "tracer/events/recording_guard.hpp"
#include "tracer/events/ring_room.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

extern "C" {
void* __sbrk(std::intptr_t) noexcept;  // of the C library: what is in front of it need not be looked up
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));
}

namespace heapyard::tracer {
namespace {

using std::size_t;

template <class Function>
using Pointer = std::atomic<Function*>;

void* first_mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) {
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
}
int first_munmap(void* memory, size_t bytes) { return static_cast<int>(syscall(SYS_munmap, memory, bytes)); }
void* first_mremap(void* old, size_t old_bytes, size_t bytes, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  void* const at = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void*) : nullptr;
  va_end(more);
  return reinterpret_cast<void*>(syscall(SYS_mremap, old, old_bytes, bytes, flags, at));
}

void* first_shmat(int segment, const void* at, int flags) {
  return reinterpret_cast<void*>(syscall(SYS_shmat, segment, at, flags));
}
int first_shmdt(const void* memory) { return static_cast<int>(syscall(SYS_shmdt, memory)); }

constinit Pointer<decltype(first_mmap)> next_mmap{first_mmap};
constinit Pointer<decltype(first_munmap)> next_munmap{first_munmap};
constinit Pointer<decltype(first_mremap)> next_mremap{first_mremap};
constinit Pointer<void*(std::intptr_t)> next_sbrk{__sbrk};
constinit Pointer<decltype(first_shmat)> next_shmat{first_shmat};
constinit Pointer<decltype(first_shmdt)> next_shmdt{first_shmdt};
constinit std::atomic<std::uintptr_t> allocator_begin{0}, allocator_end{0};
constinit OwnMemory own_memory;

template <class Function>
Function* next_of(const Pointer<Function>& pointer) {
  return pointer.load(std::memory_order_relaxed);
}

template <class Function>
void find(Pointer<Function>& pointer, const char* name) {
  if (void* found = next_symbol(name)) pointer.store(reinterpret_cast<Function*>(found), std::memory_order_relaxed);
}

// Whether there is a session that wants it. It begins with a block, not with a mapping.
bool wanted() {
  return current.connection.load(std::memory_order_acquire) == Connection::kConnected && mode() != Mode::kOff;
}

}  // namespace

void find_next_mappings() {
  find(next_mmap, "mmap");
  find(next_munmap, "munmap");
  find(next_mremap, "mremap");
  find(next_sbrk, "sbrk");
  find(next_shmat, "shmat");
  find(next_shmdt, "shmdt");
  dl_find_object object;
  // Where malloc is part of the program itself, its mappings cannot be told from the program's.
  if (_dl_find_object(next_symbol("malloc"), &object) != 0 || object.dlfo_link_map->l_name[0] == '\0') return;
  allocator_begin.store(reinterpret_cast<std::uintptr_t>(object.dlfo_map_start), std::memory_order_relaxed);
  allocator_end.store(reinterpret_cast<std::uintptr_t>(object.dlfo_map_end), std::memory_order_relaxed);
}

void tell_own_memory() { own_memory.tell(current.session ? &shared() : nullptr); }

namespace {

enum class Caller { kProgram, kAllocator, kTracer };

Caller who_is(const void* caller) {
  const auto at = reinterpret_cast<std::uintptr_t>(caller);
  const auto within = [at](std::uintptr_t begin, std::uintptr_t end) { return at >= begin && at < end; };
  if (within(reinterpret_cast<std::uintptr_t>(__ehdr_start), reinterpret_cast<std::uintptr_t>(_end)))
    return Caller::kTracer;
  return within(allocator_begin.load(std::memory_order_relaxed), allocator_end.load(std::memory_order_relaxed))
             ? Caller::kAllocator
             : Caller::kProgram;
}

void record_mapping(void* memory, size_t bytes, void* frame) {
  if (!wanted()) return;
  const os::KeepErrno keep;
  ThreadState& self = this_thread;
  const Recording recording(self);
  if (!recording.held() || !ready(self)) return;
  const std::uint64_t chain = self.for_arena ? 0 : chain_of(self, frame);
  if (chain == 0 && !self.for_arena) return;
  if (std::uint64_t* words = room(self, 4)) {
    words[0] = first_word(Kind::kMapped, reinterpret_cast<std::uintptr_t>(memory));
    words[1] = stamp();
    words[2] = bytes;
    words[3] = chain;
    self.ring.publish(4);
  }
}

void record_unmapping(void* memory, size_t bytes) {
  if (!wanted()) return;
  const os::KeepErrno keep;
  ThreadState& self = this_thread;
  const Recording recording(self);
  if (!recording.held() || !ready(self)) return;
  if (std::uint64_t* words = room(self, 3)) {
    words[0] = first_word(Kind::kUnmapped, reinterpret_cast<std::uintptr_t>(memory));
    words[1] = stamp();
    words[2] = bytes;
    self.ring.publish(3);
  }
}

// What somebody has mapped; what he is about to unmap.
[[gnu::always_inline]] inline void note_mapping(const void* caller, void* memory, size_t bytes, void* frame) {
  const Caller who = who_is(caller);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  if (who == Caller::kProgram) record_mapping(memory, bytes, frame);
  if (who == Caller::kTracer) own_memory.add(begin, begin + os::round_up(bytes, kPage));
}
[[gnu::always_inline]] inline void note_unmapping(const void* caller, void* memory, size_t bytes) {
  const Caller who = who_is(caller);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  if (who == Caller::kProgram) record_unmapping(memory, bytes);
  if (who == Caller::kTracer) own_memory.remove(begin, begin + os::round_up(bytes, kPage));
}

// The end of the heap has gone from one address to another.
void note_break(const void* caller, std::uintptr_t from, std::uintptr_t to, void* frame) {
  if (who_is(caller) != Caller::kProgram) return;
  const std::uintptr_t low = os::round_up(std::min(from, to), kPage), high = std::max(from, to) & ~(kPage - 1);
  if (low >= high) return;
  if (to > from)
    record_mapping(reinterpret_cast<void*>(low), high - low, frame);
  else
    record_unmapping(reinterpret_cast<void*>(low), high - low);
}

// Bytes of the segment of shared memory that is mapped at an address: who maps it no more does not say.
class Segments {
 public:
  void add(const void* at, std::size_t bytes) {
    for (Segment& segment : segments_) {
      const void* nobody = nullptr;
      if (!segment.at.compare_exchange_strong(nobody, at)) continue;
      segment.bytes.store(bytes);
      return;
    }
  }
  // 0 if it is not known.
  std::size_t take(const void* at) {
    for (Segment& segment : segments_) {
      const void* here = at;
      const std::size_t bytes = segment.bytes.load();
      if (segment.at.compare_exchange_strong(here, nullptr)) return bytes;
    }
    return 0;
  }

 private:
  struct Segment {
    std::atomic<const void*> at;
    std::atomic<std::size_t> bytes;
  };
  Segment segments_[64] = {};
};
constinit Segments segments;

}  // namespace
}  // namespace heapyard::tracer

using namespace heapyard::tracer;

#define CALLER __builtin_return_address(0)
#define FRAME __builtin_frame_address(0)

EXPORTED void* mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  void* const memory = next_of(next_mmap)(at, bytes, protection, flags, file, offset);
  if (memory != MAP_FAILED) note_mapping(CALLER, memory, bytes, FRAME);
  return memory;
}

EXPORTED void* mmap64(void* at, std::size_t bytes, int protection, int flags, int file, off64_t offset) noexcept {
  void* const memory = next_of(next_mmap)(at, bytes, protection, flags, file, offset);
  if (memory != MAP_FAILED) note_mapping(CALLER, memory, bytes, FRAME);
  return memory;
}

EXPORTED int munmap(void* memory, std::size_t bytes) noexcept {
  note_unmapping(CALLER, memory, bytes);
  return next_of(next_munmap)(memory, bytes);
}

// What fails leaves the old mapping as it was, whose chain is then the caller's.
EXPORTED void* mremap(void* old, std::size_t old_bytes, std::size_t bytes, int flags, ...) noexcept {
  std::va_list more;
  va_start(more, flags);
  void* const at = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void*) : nullptr;
  va_end(more);
  note_unmapping(CALLER, old, old_bytes);
  void* const memory = next_of(next_mremap)(old, old_bytes, bytes, flags, at);
  if (memory != MAP_FAILED)
    note_mapping(CALLER, memory, bytes, FRAME);
  else
    note_mapping(CALLER, old, old_bytes, FRAME);
  return memory;
}

EXPORTED void* sbrk(std::intptr_t increment) noexcept {
  void* const before = next_of(next_sbrk)(increment);
  const auto from = reinterpret_cast<std::uintptr_t>(before);
  if (before != reinterpret_cast<void*>(-1) && increment != 0)
    note_break(CALLER, from, from + static_cast<std::uintptr_t>(increment), FRAME);
  return before;
}

EXPORTED int brk(void* end) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(next_of(next_sbrk)(0)), to = reinterpret_cast<std::uintptr_t>(end);
  if (next_of(next_sbrk)(static_cast<std::intptr_t>(to - from)) == reinterpret_cast<void*>(-1)) return -1;
  note_break(CALLER, from, to, FRAME);
  return 0;
}

EXPORTED void* shmat(int segment, const void* at, int flags) noexcept {
  void* const memory = next_of(next_shmat)(segment, at, flags);
  const heapyard::os::KeepErrno keep;
  shmid_ds facts;
  if (memory != reinterpret_cast<void*>(-1) && shmctl(segment, IPC_STAT, &facts) == 0) {
    segments.add(memory, facts.shm_segsz);
    note_mapping(CALLER, memory, facts.shm_segsz, FRAME);
  }
  return memory;
}

EXPORTED int shmdt(const void* memory) noexcept {
  if (const std::size_t bytes = segments.take(memory); bytes != 0)
    note_unmapping(CALLER, const_cast<void*>(memory), bytes);
  return next_of(next_shmdt)(memory);
}
