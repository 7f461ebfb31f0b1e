// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/recording.hpp"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "heap/os/page_events.hpp"
#include "heap/os/pages.hpp"
#include "heap/os/sample_events.hpp"
#include "tracer/events/block_tags.hpp"
#include "tracer/events/chain_numbers.hpp"
#include "tracer/events/connection.hpp"
#include "tracer/events/next_malloc.hpp"
#include "tracer/events/next_symbol.hpp"
#include "tracer/events/redirect.hpp"
#include "tracer/events/spare_chains.hpp"
#include "tracer/session/poisson.hpp"

namespace heapyard::tracer {

thread_local constinit ThreadState this_thread;

namespace {

// A nap is 50 us by name and about 100 us in fact.
constexpr int kNapsSampled = 300, kNapsUntilGone = 10'000;
// Bytes that a thread allocates before it asks again whether anything is to be recorded. Where this library was loaded
// late, nobody comes by here then, and the next session begins at once.
std::uint64_t until_asked_again() { return loaded_late() ? 0 : 1 << 20; }

constinit Activity no_activity;                        // that no thread has taken
constinit SampleCount no_free[kSampleCounts] = {};     // but those of early blocks
constinit SampleCount every_free[kSampleCounts] = {};  // is its first count, once a session is exact

// A free of an early block must find a yes even if it loads a mask and then, of a table set meanwhile, the count. So
// each table has them by place, and whoever comes after every_free its first count too.
void watch(SampleCount* counts) {
  if (free_filter.mask.load() == 0) change(counts[0], 1);
  free_filter.mask.store(kSampleCounts - 1);
  free_filter.counts.store(counts);
  if (counts == every_free) free_filter.mask.store(0);
}

// The threads that have recorded something, by the number of their ring: a process that is attached to again begins
// with all of them anew. Locked, for a thread's memory goes when it ends.
class Recorders {
 public:
  void enter(std::uint32_t ring, ThreadState* state) { states_[ring].store(state); }
  void leave(const ThreadState* state) {
    lock();
    for (std::atomic<ThreadState*>& entry : states_) {  // its number may be of an earlier session
      ThreadState* expected = const_cast<ThreadState*>(state);
      entry.compare_exchange_strong(expected, nullptr);
    }
    unlock();
  }
  // While nobody comes by the functions of malloc here.
  void begin_anew() {
    lock();
    for (std::atomic<ThreadState*>& entry : states_) {
      if (ThreadState* state = entry.exchange(nullptr)) __atomic_store_n(&state->to_sample, 0, __ATOMIC_RELAXED);
    }
    unlock();
  }
  void forget() {  // in a forked child, which has none of them
    for (std::atomic<ThreadState*>& entry : states_) entry.store(nullptr, std::memory_order_relaxed);
    unlock();
  }

 private:
  void unlock() { locked_.store(false, std::memory_order_release); }
  void lock() {
    while (locked_.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  std::atomic<ThreadState*> states_[kRings] = {};
  std::atomic<bool> locked_{false};
};

struct Process {
  Session session;                          // changes only in connect() and after a fork
  const Activity* activity = &no_activity;  // the session's
  SampleSet samples;
  BlockTags tags;  // where every event is recorded, and for the blocks of that time after it has come down to samples
  ChainNumbers numbers;
  bool tagging = false;     // changes only in connect()
  std::uint64_t start = 0;  // stamp
  std::atomic<std::uint32_t> generation{1};
  std::atomic<std::uint32_t> sessions{0};  // so far
  char wish[256] = {};                     // of whoever attached
  std::atomic<int> connecting{0};          // 0 not yet, 1 one thread is at it, 2 done, 3 there is no collector
  std::atomic<std::uint32_t> modules_known{0};
  pthread_key_t at_thread_end = 0;
  bool has_key = false;
  std::uint32_t first_log2_interval = 0;  // that a session begins with; 0 where nothing is sampled
};
constinit Process process;

// All zero at first, and apart from what is not: so what of it is never touched is no memory.
struct Tables {
  std::atomic<std::uintptr_t> modules[512] = {};  // bases of the objects the collector knows of
  RuleCache rules;
  Recorders recorders;
  SpareChains spare_chains;
};
constinit Tables tables;

// What other libraries allocate and free later in the thread's end takes a ring anew, as does a signal handler here.
void give_ring_back(void*) {
  ThreadState& self = this_thread;
  if (loaded_late()) tables.recorders.leave(&self);
  const ThreadState was = std::exchange(self, ThreadState{});
  if (was.chains != nullptr) tables.spare_chains.give(was.chains);
  if (was.ring) was.ring.ring()->owner.store(0, std::memory_order_release);
}

void after_fork_in_child() {
  if (process.session) munmap(process.session.base(), process.session.bytes());
  process.session = Session{};
  process.activity = &no_activity;
  watch(no_free);
  process.connecting.store(process.connecting.load() == 3 ? 3 : 0);
  process.tagging = false;  // and the words of the parent's blocks are gone
  process.modules_known.store(0);
  process.generation.fetch_add(1);
  if (loaded_late()) {
    tables.recorders.forget();
    redirect_after_fork();
  }
  ThreadState& self = this_thread;
  self.ring = RingWriter{};  // its memory has gone
  self.activity = Activity::kNone;
  self.pended = 0;
  self.random ^= static_cast<std::uint64_t>(getpid()) << 32;
  if (self.to_sample != 0 && process.first_log2_interval != 0) {  // drawn at an interval that the parent has come to
    self.log2_interval = process.first_log2_interval;
    self.to_sample = next_distance(self.random, self.log2_interval);
  }
}

class SettingUp {
 public:
  SettingUp() : before_(this_thread.busy) { this_thread.busy = Busy::kSettingUp; }
  ~SettingUp() { this_thread.busy = before_; }

 private:
  const Busy before_;
};

void record_one(void* block, std::size_t size, void* frame, bool page);

[[gnu::noinline]] void page_taken(void* memory, std::size_t bytes) noexcept {
  record_one(memory, bytes, __builtin_frame_address(0), true);
}
void page_returned(void* memory) noexcept { record_free(memory, FreeKind::kFree); }
constexpr os::PageEvents kPageEvents{page_taken, page_returned};

os::SampleTurn draw_turn(std::size_t counted) noexcept;
void record_sample(void* block, std::size_t bytes, std::size_t counted, std::uint32_t log2_interval, void* frame);

[[gnu::noinline]] void sample_taken(void* block, std::size_t bytes, std::size_t counted,
                                    std::uint32_t log2_interval) noexcept {
  record_sample(block, bytes, counted, log2_interval, __builtin_frame_address(0));
}
[[gnu::noinline]] void large_taken(void* block, std::size_t bytes) noexcept {
  if (is_due(bytes))
    record_allocation(block, bytes, __builtin_frame_address(0), 0);
  else
    count_down(bytes);
}
bool sample_returned(void* block) noexcept { return record_free(block, FreeKind::kFree); }
constexpr os::SampleEvents kSampleEvents{draw_turn, sample_taken, large_taken, sample_returned};

// The heaps of this project tell of their pages, and their sampled variants of samples, to whoever asks.
template <class Events>
void observe(const char* function, const Events* events) {
  using Observe = void (*)(const Events*);
  if (auto* observe = reinterpret_cast<Observe>(next_symbol(function))) observe(events);
}

void watch_early_blocks_in(SampleCount* filter) {
  for (std::size_t offset = 0; offset < EarlyBlocks::kBytes; offset += kSampleReach)
    change(filter[count_place(early_blocks.begin() + offset)], 1);
}

Mode mode() { return process.session.header().mode.load(std::memory_order_relaxed); }

void stop() {
  process.session.header().mode.store(Mode::kOff);
  process.session.header().activity.begin_anew();
  watch(no_free);
}

bool prepare(Mode mode) {
  return process.numbers.prepare() && (mode != Mode::kExact || process.tags.prepare(log2_between_blocks()));
}

[[gnu::noinline, gnu::cold]] bool connect() {
  const os::KeepErrno keep;
  int state = process.connecting.load(std::memory_order_acquire);
  if (state == 3 || environ == nullptr) return false;
  if (state != 0 || !process.connecting.compare_exchange_strong(state, 1)) return false;  // another thread is at it
  const SettingUp setting_up;
  process.session =
      connect_to_collector(process.wish[0] != '\0' ? process.wish : secure_getenv("HEAPYARD_TRACE"), prepare);
  if (!process.session) {
    process.connecting.store(3);
    give_calls_back();
    return false;
  }
  process.session.header().activity.be_of_session(process.sessions.fetch_add(1));
  static bool once = false;
  if (!once) {
    once = true;
    process.has_key = pthread_key_create(&process.at_thread_end, give_ring_back) == 0;
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
  }
  tables.rules.forget();  // after a fork they are known, and the new session's modules are not
  process.samples = SampleSet(process.session);
  watch_early_blocks_in(process.session.filter());
  const bool exact = process.session.header().mode.load() == Mode::kExact;
  process.activity = &process.session.header().activity;
  process.start = process.session.header().start_stamp;
  if (process.tagging) process.tags.forget();  // those of an earlier session
  process.tagging = exact;
  const bool sampled = process.session.header().mode.load() == Mode::kSampled;
  process.first_log2_interval = sampled ? process.session.header().log2_interval.load() : 0;
  if (exact) every_free[0].store(1);
  watch(exact ? every_free : process.session.filter());
  if (process.session.header().mode.load() == Mode::kPages) observe("heapyard_observe_pages", &kPageEvents);
  if (sampled && told_by_heap()) observe("heapyard_observe_samples", &kSampleEvents);
  process.connecting.store(2, std::memory_order_release);
  return true;
}

// True once there is a session.
bool connected() { return process.connecting.load(std::memory_order_acquire) == 2 || connect(); }

// A ring that nobody has: the first with half of it empty, else the first with room. Threads in quick succession share
// one, so they need neither wait for the collector nor touch other pages. O(rings).
bool take_ring(ThreadState& self) {
  Header& header = process.session.header();
  const auto id = static_cast<std::uint32_t>(syscall(SYS_gettid));
  const std::uint64_t words = process.session.ring_bytes() / 8;
  for (const std::uint64_t most : {words / 2, words}) {
    bool fuller = false;
    for (std::uint32_t index = 0; index < header.rings; ++index) {
      Ring& ring = process.session.ring(index);
      if (ring.owner.load(std::memory_order_relaxed) != 0) continue;
      if (ring.head.load() - ring.tail.load() >= most) {
        fuller = true;
        continue;
      }
      std::uint64_t nobody = 0;
      if (!ring.owner.compare_exchange_strong(nobody, id, std::memory_order_acquire)) continue;
      RingWriter writer(ring, process.session.words(index), process.session.ring_bytes(), header.bell);
      std::uint64_t* at = writer.reserve(1);
      if (at == nullptr) {  // another thread has had it meanwhile
        ring.owner.store(0, std::memory_order_release);
        continue;
      }
      self.number = std::min(header.threads.fetch_add(1, std::memory_order_relaxed), Owner::kThreads - 1);
      const std::uint64_t owner = std::uint64_t{self.number} << 32 | id;
      ring.owner.store(owner, std::memory_order_relaxed);
      at[0] = first_word(Kind::kThread, owner);
      writer.publish(1);
      std::uint32_t highest = header.highest_ring.load();
      while (highest < index + 1 && !header.highest_ring.compare_exchange_weak(highest, index + 1)) {
      }
      self.ring = writer;
      self.chains->walker.forget_told();
      if (loaded_late()) tables.recorders.enter(index, &self);
      return true;
    }
    if (!fuller) break;
  }
  return false;
}

void seed(ThreadState& self) {
  if (self.random == 0) self.random = stamp() ^ reinterpret_cast<std::uintptr_t>(&self) ^ 0x9e3779b97f4a7c15u;
}

std::uint64_t since_start() { return stamp() - process.start; }

[[gnu::noinline, gnu::cold]] bool make_ready(ThreadState& self) {
  const os::KeepErrno keep;
  const SettingUp setting_up;
  self.activity = Activity::kNone;
  redirect_newcomers();
  if (const std::uint32_t session = process.sessions.load(); self.session != session) {
    self.ring = RingWriter{};
    self.session = session;
  }
  if (self.chains == nullptr && (self.chains = tables.spare_chains.take()) == nullptr) return false;
  if (!self.ring) {
    if (!take_ring(self)) {
      process.session.header().lost.no_ring.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    seed(self);
    if (process.has_key) pthread_setspecific(process.at_thread_end, &self);
  }
  Header& header = process.session.header();
  const std::uint64_t activity = header.activity.take(self.number);
  self.since = 0;
  self.mode = header.mode.load();
  if (self.mode == Mode::kOff) return false;
  if (self.mode == Mode::kExact && Activity::alone(activity)) {
    if (std::uint64_t* at = self.ring.reserve(1)) {
      self.since = since_start();
      at[0] = first_word(Kind::kSince, self.since);
      self.ring.publish(1);
    }
  }
  if (const std::uint32_t generation = process.generation.load(); self.generation != generation) {
    self.chains->told.forget();
    self.chains->walker.forget();
    self.generation = generation;
  }
  self.activity = activity;
  return true;
}

bool as_left(const ThreadState& self) { return process.activity->word() == self.activity; }

// The thread has a ring of the present session, and knows its mode and modules. O(1) but for the first time.
bool ready(ThreadState& self) { return as_left(self) || make_ready(self); }

// Room in the ring, waiting for the collector if need be; nullptr if that is in vain. Sampled: it looks every 10 ms, so
// a burst waits for one look, once, and else is dropped and counted: a program is not held up. Exact: as long as the
// collector makes progress; it counts the naps and may step down to sampling.
[[gnu::noinline, gnu::cold]] std::uint64_t* wait_for_room(ThreadState& self, std::size_t words) {
  const os::KeepErrno keep;
  Header& header = process.session.header();
  header.waits.fetch_add(1, std::memory_order_relaxed);
  const timespec nap{0, 50'000};
  std::uint64_t tail = self.ring.ring()->tail.load(std::memory_order_relaxed);
  std::uint64_t* at = nullptr;
  for (int naps = 0, still = 0; (at = self.ring.reserve(words)) == nullptr && mode() != Mode::kOff; ++naps) {
    const bool sampled = mode() == Mode::kSampled;
    if (sampled && naps == (self.gave_up ? 0 : kNapsSampled)) break;
    nanosleep(&nap, nullptr);
    header.naps.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t now = self.ring.ring()->tail.load(std::memory_order_relaxed);
    still = now == tail ? still + 1 : 0;
    tail = now;
    if (still == kNapsUntilGone) stop();
  }
  self.gave_up = at == nullptr;
  if (at == nullptr) header.lost.ring_full.fetch_add(1, std::memory_order_relaxed);
  return at;
}

[[gnu::always_inline]] inline std::uint64_t* room(ThreadState& self, std::size_t words) {
  std::uint64_t* at = self.ring.reserve(words);
  return at != nullptr ? at : wait_for_room(self, words);
}

void send_module(ThreadState& self, const dl_find_object& object) {
  const os::KeepErrno keep;
  const auto begin = reinterpret_cast<std::uintptr_t>(object.dlfo_map_start);
  const std::uint32_t known = process.modules_known.load(std::memory_order_acquire);
  for (std::uint32_t index = 0; index < known && index < 512; ++index) {
    if (tables.modules[index].load(std::memory_order_relaxed) == begin) return;
  }
  const link_map* map = object.dlfo_link_map;
  char path[1024];
  std::size_t length = std::strlen(map->l_name);
  if (length == 0) {  // the program itself
    const ssize_t read = readlink("/proc/self/exe", path, sizeof path);
    length = read > 0 ? static_cast<std::size_t>(read) : 0;
  } else {
    length = length < sizeof path ? length : sizeof path;
    std::memcpy(path, map->l_name, length);
  }
  // The build-id, from the notes of the mapped program headers.
  const auto* header = static_cast<const ElfW(Ehdr)*>(object.dlfo_map_start);
  std::uint8_t id[24] = {};
  std::size_t id_length = 0;
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0) {
    const auto* program = reinterpret_cast<const ElfW(Phdr)*>(begin + header->e_phoff);
    for (unsigned index = 0; index < header->e_phnum && id_length == 0; ++index) {
      if (program[index].p_type != PT_NOTE) continue;
      const char* note = reinterpret_cast<const char*>(map->l_addr + program[index].p_vaddr);
      const char* end = note + program[index].p_memsz;
      while (note + sizeof(ElfW(Nhdr)) <= end) {
        ElfW(Nhdr) fields;
        std::memcpy(&fields, note, sizeof fields);
        const char* name = note + sizeof fields;
        const char* description = name + ((fields.n_namesz + 3) & ~3u);
        if (fields.n_type == NT_GNU_BUILD_ID && fields.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0 &&
            fields.n_descsz <= 20) {
          id_length = fields.n_descsz;
          std::memcpy(id, description, id_length);
          break;
        }
        note = description + ((fields.n_descsz + 3) & ~3u);
      }
    }
  }
  id[20] = static_cast<std::uint8_t>(id_length);
  const std::size_t words = 4 + 3 + (length + 7) / 8;
  std::uint64_t* at = room(self, words);
  if (at == nullptr) return;  // told again with the next address of it
  at[0] = first_word(Kind::kModule, length);
  at[1] = begin;
  at[2] = reinterpret_cast<std::uintptr_t>(object.dlfo_map_end);
  at[3] = map->l_addr;
  std::memcpy(at + 4, id, 24);
  at[words - 1] = 0;
  std::memcpy(at + 7, path, length);
  self.ring.publish(words);
  process.session.header().modules_sent.fetch_add(1, std::memory_order_release);
  const std::uint32_t place = process.modules_known.fetch_add(1, std::memory_order_acq_rel);
  if (place < 512) tables.modules[place].store(begin, std::memory_order_relaxed);
}

// A generation is part of the hash: after modules have gone, the same addresses are other chains.
std::uint64_t seed_of(const ThreadState& self) { return 0x9e3779b97f4a7c15u + self.generation; }

// The chain of callers of the function with this frame.
ChainWalker::Chain walk(ThreadState& self, const Registers& at) {
  Header& header = process.session.header();
  // Where there are samples only, the next one finds little as it was.
  const unsigned most = self.mode == Mode::kSampled ? header.depth : ChainWalker::kMost;
  const ChainWalker::Chain chain =
      self.chains->walker.walk(tables.rules, at, self.stack.end_above(at.sp - 16), header.depth, most, seed_of(self),
                               [&](const dl_find_object& object) { send_module(self, object); });
  if (chain.end == ChainEnd::kTorn) header.lost.chains_torn.fetch_add(1, std::memory_order_relaxed);
  return chain;
}

// Sends the collector the chain just walked, which is new to this thread. False: there was no room.
[[gnu::noinline]] bool tell_chain(ThreadState& self, std::uint64_t number, ChainEnd end) {
  ChainWalker& walker = self.chains->walker;
  const unsigned told = walker.told_frames(), count = walker.frames() - told;
  std::uint64_t* words = room(self, 2 + count);
  if (words == nullptr) return false;
  words[0] = first_word(Kind::kChain, count | static_cast<std::uint64_t>(end) << 32);
  words[1] = static_cast<std::uint64_t>(told) << 32 | number;
  for (unsigned index = 0; index < count; ++index) words[2 + index] = walker.frame(index);
  self.ring.publish(2 + count);
  walker.note_told();
  self.chains->told.add(number);
  return true;
}

// The number of the chain just walked, which the collector has been sent; 0 if there was no room to send or to number
// it.
std::uint64_t number_of(ThreadState& self, const ChainWalker::Chain& chain) {
  const std::uint64_t number = process.numbers.of(chain.hash);
  if (number == 0) [[unlikely]] {
    process.session.header().lost.set_full.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  return self.chains->told.has(number) || tell_chain(self, number, chain.end) ? number : 0;
}

std::uint64_t chain_of(ThreadState& self, void* frame) { return number_of(self, walk(self, caller_of(frame))); }

// A stamp by which the thread's next event is put in order, counted from the session's. It is ready().
std::uint64_t when(const ThreadState& self) { return self.since != 0 ? self.since : since_start(); }

// An event of a block of fewer than 1 << kBriefSizeBits bytes, into two words that were reserved.
[[gnu::always_inline]] inline void write_small(ThreadState& self, std::uint64_t* at, Kind kind, const Owned& owned) {
  if (self.since != 0) [[likely]] {
    at[0] = brief(kind, owned);
    self.ring.publish(1);
  } else {
    at[0] = first_word(kind, since_start());
    at[1] = owned.size << Owner::kBits | owned.owner.word;
    self.ring.publish(2);
  }
}

// False: there was no room.
[[gnu::always_inline]] inline bool write_owned(ThreadState& self, Kind kind, const Owned& owned, std::uint64_t stamp) {
  const std::uint64_t more = owned.size >> Owner::kSizeBits;
  const std::size_t words = more == 0 ? 2 : 3;
  std::uint64_t* at = room(self, words);
  if (at == nullptr) return false;
  if (more != 0) [[unlikely]]
    *at++ = first_word(Kind::kMore, more);
  at[0] = first_word(kind, stamp);
  at[1] = owned.size << Owner::kBits | owned.owner.word;
  self.ring.publish(words);
  return true;
}

// By a signal handler: what is in the middle of a recording is followed by it.
void pend(ThreadState& self, Kind kind, const Owned& owned) {
  if (self.chains == nullptr || self.pended == ChainMemory::kPended) {
    process.session.header().lost.nested.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  self.chains->pended[self.pended++] = {kind, owned, since_start()};
}
[[gnu::noinline, gnu::cold]] void write_pended(ThreadState& self) {
  for (std::uint8_t count; (count = self.pended) != 0;) {
    const ChainMemory::Pended last = self.chains->pended[count - 1];
    // Another one may have come meanwhile.
    if (!__atomic_compare_exchange_n(&self.pended, &count, count - 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      continue;
    if (!self.ring || !write_owned(self, last.kind, last.owned, last.stamp))
      process.session.header().lost.nested.fetch_add(1, std::memory_order_relaxed);
  }
}

// Holds the thread's recording against signals that allocate.
class Recording {
 public:
  explicit Recording(ThreadState& self) : self_(self), held_(self.busy == Busy::kNo) {
    if (held_) self.busy = Busy::kRecording;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~Recording() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!held_) return;
    if (self_.pended != 0) [[unlikely]]
      write_pended(self_);
    self_.busy = Busy::kNo;
  }
  // False: this came in the middle of another; if of a recording, then by a signal, and it is lost.
  bool held() const {
    if (!held_ && self_.busy == Busy::kRecording && process.session)
      process.session.header().lost.nested.fetch_add(1, std::memory_order_relaxed);
    return held_;
  }

 private:
  ThreadState& self_;
  const bool held_;
};

[[gnu::noinline, gnu::cold]] bool end_recording(ThreadState& self) {
  const Recording recording(self);
  return true;
}

// Also for a thread that has recorded nothing, so without its ring.
os::SampleTurn draw_turn(std::size_t counted) noexcept {
  ThreadState& self = this_thread;
  if (self.busy == Busy::kSettingUp || !connected()) return {until_asked_again() / (counted + 1) + 1, 0};
  if (mode() != Mode::kSampled) return {~std::uint64_t{0}, 0};  // it will not be sampled again
  seed(self);
  const std::uint32_t log2_interval = process.session.header().log2_interval.load(std::memory_order_relaxed);
  return {next_distance(self.random, log2_interval) / (counted + 1), log2_interval};
}

void record_sample(void* block, std::size_t bytes, std::size_t counted, std::uint32_t log2_interval, void* frame) {
  ThreadState& self = this_thread;
  const Recording recording(self);
  if (!recording.held() || !connected() || mode() != Mode::kSampled || !ready(self)) return;
  const std::uint64_t chain = chain_of(self, frame), now = stamp();
  if (chain == 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  if (!process.samples.insert(address, now)) {
    process.session.header().lost.set_full.fetch_add(1, std::memory_order_relaxed);
  } else if (std::uint64_t* at = room(self, 5)) {
    at[0] = first_word(Kind::kSample, address);
    at[1] = now;
    at[2] = std::uint64_t{log2_interval} << 56 | bytes;
    at[3] = chain;
    at[4] = counted;
    self.ring.publish(5);
  } else {
    process.samples.erase(address);
  }
}

[[gnu::always_inline]] inline void write_allocation(ThreadState& self, std::uint64_t* at, std::uintptr_t address,
                                                    std::uint64_t now, std::uint64_t size, std::uint64_t chain) {
  at[0] = first_word(Kind::kAlloc, address);
  at[1] = now;
  at[2] = size;
  at[3] = chain;
  self.ring.publish(4);
}

[[gnu::always_inline]] inline void write_short(ThreadState& self, Kind kind, std::uintptr_t address) {
  if (std::uint64_t* at = room(self, 2)) {
    at[0] = first_word(kind, address);
    at[1] = stamp();
    self.ring.publish(2);
  }
}

// The thread is ready(), and in the middle of no recording.
[[gnu::always_inline]] inline bool at_hand(const ThreadState& self) { return as_left(self) && self.busy == Busy::kNo; }

// The number of the chain if it is known by where it begins, or 0; but for that which is expected.
std::uint64_t other_remembered_chain_of(ThreadState& self, const Registers& at) {
  return self.chains->walker.recall_other(self.chains->memo, at, self.stack.readable_until(at.sp - 8));
}
// chain_of(), to be remembered so. What is needed is fetched from memory before, else each would be waited for in turn.
std::uint64_t walked_chain_of(ThreadState& self, void* frame) {
  ChainMemory& chains = *self.chains;
  const Registers at = caller_of(frame);
  const std::uintptr_t end = self.stack.readable_until(at.sp - 8);
  chains.memo.expect(at, end, [](std::uintptr_t pc) { tables.rules.expect(pc); });
  const ChainWalker::Chain chain = walk(self, at);
  process.numbers.expect(chain.hash);
  ChainMemo::Entry* entry = chains.walker.remember_in(chains.memo, seed_of(self));
  const std::uint64_t number = number_of(self, chain);
  if (entry != nullptr) entry->number = static_cast<std::uint32_t>(number);
  return number;
}

[[gnu::noinline, gnu::cold]] void record_unseen_free(ThreadState& self, const Owned& owned) {
  process.session.header().lost.frees.fetch_add(1, std::memory_order_relaxed);
  write_owned(self, Kind::kGone, owned, when(self));
}

// The block is the thread's own until this returns, so its word may follow its record.
void record_owned(ThreadState& self, void* block, std::size_t size, void* frame) {
  const std::uint64_t chain = walked_chain_of(self, frame);
  if (chain == 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  Header& header = process.session.header();
  std::uint64_t* word = process.tags.place_at_once(address, size);
  if (word == nullptr) [[unlikely]] {
    word = process.tags.place(address, size, header.own_bytes);
    if (word == nullptr) {
      header.lost.set_full.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    if (const Owned unseen = process.tags.take(address); unseen.owner) record_unseen_free(self, unseen);
  }
  const Owned owned{Owner::of(chain, self.number), size};
  if (!write_owned(self, Kind::kOwned, owned, when(self))) return;
  BlockTags::put(word, address, owned);
  self.last = address;
}

void record_page(ThreadState& self, void* memory, std::size_t bytes, void* frame) {
  const Registers at = caller_of(frame);
  std::uint64_t chain =
      self.chains->walker.recall_expected(self.chains->memo, at, self.stack.readable_until(at.sp - 8));
  if (chain == 0) chain = other_remembered_chain_of(self, at);
  if (chain == 0) chain = walked_chain_of(self, frame);
  if (chain == 0) return;
  if (std::uint64_t* words = room(self, 4))
    write_allocation(self, words, reinterpret_cast<std::uintptr_t>(memory), stamp(), bytes, chain);
}

// `page`: from within a heap that is observed; else from malloc.
void record_event(void* block, std::size_t size, void* frame, bool page) {
  ThreadState& self = this_thread;
  const Recording recording(self);
  if (!recording.held()) return;
  if (!connected()) {
    self.to_sample = until_asked_again();
    return;
  }
  Header& header = process.session.header();
  const Mode now = mode();
  if (now == Mode::kOff || (now == Mode::kPages && !page)) {
    self.to_sample = until_asked_again();
    const os::KeepErrno keep;
    if (now == Mode::kOff) give_calls_back();
    return;
  }
  const bool every = now == Mode::kExact || now == Mode::kPages;
  // The interval may have changed since the distance was drawn, and the sample stands for what it was then.
  const unsigned drawn = every ? 0 : self.log2_interval;
  const unsigned log2_interval = every ? 0 : header.log2_interval.load(std::memory_order_relaxed);
  // A thread's first allocation, and its first after exact mode, come here whatever their size: not drawn by chance.
  const bool undrawn = !every && drawn == 0;
  const bool can = ready(self);
  if (now == Mode::kExact) {
    self.to_sample = 0;
  } else if (now != Mode::kPages) {
    self.to_sample = next_distance(self.random, log2_interval);
    self.log2_interval = log2_interval;
    if (undrawn) {  // only now the distances begin
      if (!is_due(size)) {
        count_down(size);
        return;
      }
      self.to_sample = next_distance(self.random, log2_interval);
    }
  }
  if (!can || block == nullptr) return;
  if (now == Mode::kExact) {
    record_owned(self, block, size, frame);
  } else {
    if (const std::uint64_t chain = chain_of(self, frame)) {
      const auto address = reinterpret_cast<std::uintptr_t>(block);
      const std::uint64_t now_stamp = stamp();
      if (!every && !process.samples.insert(address, now_stamp)) {
        header.lost.set_full.fetch_add(1, std::memory_order_relaxed);
      } else if (std::uint64_t* at = room(self, 4)) {
        const std::uint64_t interval = undrawn ? log2_interval : drawn;
        write_allocation(self, at, address, now_stamp, interval << 56 | size, chain);
      } else if (!every) {
        process.samples.erase(address);
      }
    }
  }
}

// Where every event is recorded, the short way for what comes often: a thread at hand, a chain that is remembered,
// memory for the block's word, room in the ring. False: the long way has to be taken.
[[gnu::always_inline]] inline bool record_quickly(ThreadState& self, void* block, std::size_t size,
                                                  std::uint64_t chain) {
  if (chain == 0 || !at_hand(self) || block == nullptr || size >> kBriefSizeBits != 0) return false;
  self.busy = Busy::kRecording;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  std::uint64_t* word = process.tags.place_at_once(address, size);
  std::uint64_t* at = self.ring.reserve_at_once(2);
  const bool quick = word != nullptr && at != nullptr;
  if (quick) [[likely]] {
    const Owned owned{Owner::of(chain, self.number), size};
    write_small(self, at, Kind::kOwned, owned);
    BlockTags::put(word, address, owned);
    self.last = address;
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  self.busy = Busy::kNo;
  return quick;
}

[[gnu::always_inline]] inline void record_one(void* block, std::size_t size, void* frame, bool page) {
  ThreadState& self = this_thread;
  if (at_hand(self) && self.mode == (page ? Mode::kPages : Mode::kExact) && block != nullptr) [[likely]] {
    const Recording recording(self);
    if (page)
      record_page(self, block, size, frame);
    else
      record_owned(self, block, size, frame);
  } else {
    record_event(block, size, frame, page);
  }
}
[[gnu::noinline]] void* record_slowly(void* block, std::size_t size, void* frame) {
  record_one(block, size, frame, false);
  return block;
}

// The free of a block with a word: the short way, and the long one.
[[gnu::always_inline]] inline bool release_quickly(ThreadState& self, Kind kind, const Owned& owned) {
  if (!at_hand(self) || owned.size >> kBriefSizeBits != 0) return false;
  self.busy = Busy::kRecording;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::uint64_t* at = self.ring.reserve_at_once(2);
  const bool quick = at != nullptr;
  if (quick) [[likely]] {
    write_small(self, at, kind, owned);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  self.busy = Busy::kNo;
  return quick;
}
bool release(FreeKind free, Kind kind, const Owned& owned) {
  ThreadState& self = this_thread;
  if (free == FreeKind::kMove) self.moved = owned;
  if (!owned.owner) {
    if (mode() == Mode::kExact) process.session.header().lost.unknown.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  if (self.busy != Busy::kNo) {
    pend(self, kind, owned);
    return true;
  }
  const Recording recording(self);
  return mode() != Mode::kOff && ready(self) && write_owned(self, kind, owned, when(self));
}

// Of a block that may be a sample, or a page record or span.
[[gnu::noinline]] bool free_sampled(void* block, FreeKind kind) {
  if (block == nullptr || !process.session || mode() == Mode::kExact) return false;
  ThreadState& self = this_thread;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  // Before anything else: whoever comes in between, the set must not keep an address that is given back.
  const bool sampled = process.samples.maybe(address) && process.samples.erase(address);
  if (!sampled && mode() != Mode::kPages) return false;
  const Recording recording(self);
  if (!recording.held()) return false;
  if (mode() != Mode::kOff && ready(self))
    write_short(self, kind == FreeKind::kFree ? Kind::kFree : Kind::kMove, address);
  return true;
}

[[gnu::noinline]] bool release_slowly(void* block, FreeKind free, Kind kind, const Owned owned) {
  return release(free, kind, owned) || free_sampled(block, free);
}

// What follows in remembered_chain(), where the chain is not the expected one.
[[gnu::noinline]] std::uint64_t other_remembered_chain(ThreadState& self, void* frame) {
  const std::uint64_t chain = other_remembered_chain_of(self, caller_of(frame));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  self.busy = Busy::kNo;
  return chain;
}

}  // namespace

constinit FreeFilter free_filter{no_free, kSampleCounts - 1};

// A debugger that has loaded this library may take its malloc for the program's and call it. A heap's first pages are
// taken before anything is recorded.
[[gnu::constructor]] void begin() {
  if (dlsym(RTLD_DEFAULT, "dlclose") != reinterpret_cast<void*>(&dlclose)) set_loaded_late();
  const char* wish = environ == nullptr ? nullptr : secure_getenv("HEAPYARD_TRACE");
  if (wish == nullptr) return;
  if (!loaded_late() && defined_by_executable("malloc"))
    tell_of_own_malloc(wish);
  else if (told_by_heap())
    connected();
}

AttachResult attach(const char* wish) {
  if (process.session && mode() != Mode::kOff) {
    const auto collector = static_cast<pid_t>(process.session.header().collector);
    if (collector == 0 || kill(collector, 0) == 0 || errno != ESRCH) return AttachResult::kTracedAlready;
    stop();
  }
  if (std::strlen(wish) >= sizeof process.wish) return AttachResult::kNobodyThere;
  find_next_malloc();
  std::strcpy(process.wish, wish);
  if (process.connecting.load() == 2) forget_modules();  // of a session that has ended
  process.connecting.store(0);
  // A thread of a program that this library was preloaded into may be quicker.
  while (!connected() && process.connecting.load() == 1) sched_yield();
  if (process.connecting.load() != 2) return AttachResult::kNobodyThere;
  tables.recorders.begin_anew();
  redirect_calls();
  return AttachResult::kTraced;
}

void watch_early_blocks() {
  watch_early_blocks_in(no_free);
  watch_early_blocks_in(every_free);
}

// Before the block is there: a chain is the same before and after, and what is remembered comes meanwhile.
[[gnu::noinline]] std::uint64_t remembered_chain(void* frame) {
  ThreadState& self = this_thread;
  if (self.mode != Mode::kExact || self.busy != Busy::kNo) return 0;
  self.busy = Busy::kRecording;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const Registers at = caller_of(frame);
  const std::uint64_t chain =
      self.chains->walker.recall_expected(self.chains->memo, at, self.stack.readable_until(at.sp - 8));
  if (chain == 0) return other_remembered_chain(self, frame);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  self.busy = Busy::kNo;
  return chain;
}

// Both end in a jump to whatever is rare: what often happens saves no registers.
[[gnu::noinline]] void* record_allocation(void* block, std::size_t size, void* frame, std::uint64_t chain) {
  ThreadState& self = this_thread;
  if (!record_quickly(self, block, size, chain)) [[unlikely]]
    return record_slowly(block, size, frame);
  if (self.pended != 0) [[unlikely]]
    end_recording(self);
  return block;
}

[[gnu::noinline]] bool record_free(void* block, FreeKind kind) {
  if (block == nullptr || !process.tagging) return free_sampled(block, kind);
  ThreadState& self = this_thread;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  const Owned owned = process.tags.take(address);
  const bool at_once = self.last == address;
  self.last = 0;
  const Kind record = kind == FreeKind::kMove ? Kind::kGoneMove : at_once ? Kind::kGoneAtOnce : Kind::kGone;
  if (!owned.owner || kind != FreeKind::kFree || !release_quickly(self, record, owned)) [[unlikely]]
    return release_slowly(block, kind, record, owned);
  return self.pended == 0 || end_recording(self);
}

void record_stay(void* block) {
  ThreadState& self = this_thread;
  const Recording recording(self);
  if (!recording.held() || !process.session || mode() == Mode::kOff || !ready(self)) return;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  if (const Owned moved = std::exchange(self.moved, {}); moved.owner) {
    std::uint64_t* word = process.tags.place(address, moved.size, process.session.header().own_bytes);
    if (word == nullptr || !write_owned(self, Kind::kBack, moved, when(self))) return;
    BlockTags::put(word, address, moved);
    return;
  }
  if (mode() == Mode::kSampled) process.samples.insert(address, stamp());
  write_short(self, Kind::kStay, address);
}

void record_mark(const char* name) {
  ThreadState& self = this_thread;
  const Recording recording(self);
  if (!recording.held() || !connected() || mode() == Mode::kOff || !ready(self)) return;
  const std::size_t length = std::strlen(name) < 200 ? std::strlen(name) : 200, words = 2 + (length + 7) / 8;
  if (std::uint64_t* at = room(self, words)) {
    at[words - 1] = 0;
    at[0] = first_word(Kind::kMark, length);
    at[1] = stamp();
    std::memcpy(at + 2, name, length);
    self.ring.publish(words);
  }
}

void forget_modules() {
  if (process.connecting.load() != 2) return;
  tables.rules.forget();
  process.modules_known.store(0);
  process.generation.fetch_add(1);
  process.session.header().activity.begin_anew();
}

}  // namespace heapyard::tracer
