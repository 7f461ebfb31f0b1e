// SPDX-License-Identifier: Apache-2.0
// One mutator thread: draws lifetime-size-classes, allocates them, and at each tick of its logical clock shares,
// accesses and deallocates (paper, section 2). Everything between the counter reads is the allocator's; everything else
// is not timed.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/fatal.hpp"
#include "heap_class.hpp"
#include "layout.hpp"
#include "run.hpp"

namespace heapyard::acdc {
namespace {

#ifdef HEAPYARD_CHECKED
constexpr bool kChecked = true;  // the test build asserts the drift bound at every tick
#else
constexpr bool kChecked = false;
#endif

template <class Timing>  // kit::SampledTiming or Untimed
class Mutator {
 public:
  Mutator(Run& run, std::size_t thread)
      : run_(run),
        o_(run.options),
        thread_(thread),
        counters_(run.counters[thread]),
        descriptors_(run.descriptors[thread]),
        group_(o_.model ? &run.model.group_of(static_cast<std::int64_t>(thread), o_.threads) : nullptr),
        random_(mix(static_cast<std::uint64_t>(o_.seed)) ^ static_cast<std::uint64_t>(o_.repetition), thread),
        access_{static_cast<std::uint64_t>(o_.write_ratio), static_cast<std::uint64_t>(o_.write_iterations), o_.reads,
                o_.compat} {
    kit::Arena& arena = run.arenas[thread];
    heap_.start(arena, run.longest_liveness() + static_cast<std::uint64_t>(o_.delay) + 1);
    descriptors_.start(arena, run.layout);
    if (run.layout.receivers) {
      outbox_ = arena.take<LifetimeClass>(run.threads());
      receivers_ = arena.take<std::uint16_t>(run.threads());
      for (std::size_t i = 0; i < run.threads(); ++i) receivers_[i] = static_cast<std::uint16_t>(i);
    }
    if constexpr (!std::is_same_v<Timing, Untimed>) {
      malloc_timing_ = {counters_.malloc_latency, static_cast<std::uint64_t>(o_.latency), run.read_cost};
      free_timing_ = {counters_.free_latency, static_cast<std::uint64_t>(o_.latency), run.read_cost};
    }
  }

  void run() {
    const kit::Cycles start = kit::now();
    while (clock_ < static_cast<std::uint64_t>(o_.duration)) {
      allocate_one();
      // The clock owes nothing: what a class allocates beyond the quantum counts towards the next tick.
      while (bytes_this_tick_ >= static_cast<std::uint64_t>(o_.quantum) &&
             clock_ < static_cast<std::uint64_t>(o_.duration)) {
        bytes_this_tick_ -= static_cast<std::uint64_t>(o_.quantum);
        if (o_.compat) bytes_this_tick_ = 0;  // published code: the rest is forgotten
        advance();
      }
    }
    counters_.running = kit::now() - start;
    counters_.objects_accessed = access_.objects;
    counters_.objects_written = access_.written;
  }

  // After all threads have stopped producing: frees whatever still lives, outside every measurement.
  void drain() {
    if (outbox_) deliver();
    run_.wait_for_all();
    if (outbox_) retrieve();
    for (std::uint64_t i = 0; i < heap_.slots(); ++i) drain(heap_.expiring_at(i));
    drain(heap_.permanent());
  }

 private:
  Draw draw() {
    const Draw d = group_ ? draw_empirical(*group_, o_, random_) : draw_paper(o_, random_);
    const std::uint64_t kind = static_cast<std::uint64_t>(d.shape) | d.shared << 1 | d.permanent << 2;
    counters_.checksum =
        fold(fold(counters_.checksum, d.size), static_cast<std::uint64_t>(d.liveness) << 40 | d.count << 3 | kind);
    return d;
  }

  void allocate_one() {
    const Draw d = draw();
    SizeClass& c = *descriptors_.take();
    c.size = d.size;
    c.count = d.count;
    c.liveness = d.liveness;
    c.owner = static_cast<std::uint16_t>(thread_);
    c.shape = d.shape;
    c.shared = d.shared;
    c.permanent = d.permanent;

    std::uint32_t made = 0;
    const kit::Cycles start = kit::now();
    const bool complete = allocate_class(c, o_.placement, malloc_timing_, made);
    counters_.allocation.add(start, kit::now());
    counters_.objects_allocated += made;
    if (!complete)
      out_of_memory(run_, thread_, o_.placement == Placement::kCompact ? compact_stride(c.size) * c.count : c.size);

    const std::uint64_t bytes = c.size * c.count;
    counters_.bytes_allocated.add(bytes);
    counters_.calls_allocated += o_.placement == Placement::kCompact ? 1 : c.count;
    ++counters_.classes;
    counters_.by_size_exponent[exponent(c.size)] += c.count;
    counters_.by_liveness[c.liveness] += c.count;
    bytes_this_tick_ += bytes;

    if (c.shared) {
      share(c);
    } else {
      c.local.of = &c;
      insert(c.permanent, clock_ + c.liveness).append(&c.local);
    }
    counters_.classes_permanent += c.permanent;
    if (o_.access && o_.access_time == AccessTime::kClass)
      access_live(clock_ + static_cast<std::uint64_t>(o_.delay) + 1);
  }

  LifetimeClass& insert(bool permanent, std::uint64_t dead_at) {
    return permanent ? heap_.permanent() : heap_.expiring_at(dead_at + static_cast<std::uint64_t>(o_.delay));
  }

  // Draws the receivers (a partial shuffle of the thread ids, without replacement) and puts the class into their
  // outboxes.
  void share(SizeClass& c) {
    ++counters_.classes_shared;
    const std::size_t n = run_.threads();
    const auto ratio = static_cast<std::size_t>(group_ ? group_->receiver_ratio : o_.receiver_ratio);
    const std::size_t wanted = o_.compat ? n / (100 / ratio) : (n * ratio + 50) / 100;
    const std::size_t k = std::clamp<std::size_t>(wanted, 1, run_.layout.receivers);
    Sharers sharers = run_.layout.sharers(c);
    Link* const links = run_.layout.links(c);
    sharers.clear();
    for (std::size_t i = 0; i < k; ++i) {
      std::swap(receivers_[i], receivers_[i + random_.below(n - i)]);
      sharers.add(receivers_[i]);
    }
    for (std::size_t i = 0; i < k; ++i) {
      links[i].of = &c;
      outbox_[receivers_[i]].append(&links[i]);
    }
  }

  void deliver() {
    for (std::size_t i = 0; i < run_.threads(); ++i) {
      if (outbox_[i].first) run_.pool.send(i, outbox_[i]);
    }
  }

  // What arrives now counts as allocated in the tick that just ended, by this thread's clock.
  void retrieve() {
    run_.pool.retrieve(thread_, [this](std::uint64_t liveness, LifetimeClass& arrived) {
      if (!o_.permanent_ratio) return insert(false, clock_ - 1 + liveness).splice(arrived);
      for (Link* link = arrived.take_all(); link;) {
        Link* const next = link->next;
        insert(link->of->permanent, clock_ - 1 + liveness).append(link);
        link = next;
      }
    });
  }

  void access_live(std::uint64_t first_slot) {
    const kit::Cycles start = kit::now();
    const std::uint64_t last = clock_ + run_.longest_liveness() + static_cast<std::uint64_t>(o_.delay);
    for (std::uint64_t slot = first_slot; slot <= last; ++slot) visit(heap_.expiring_at(slot));
    visit(heap_.permanent());
    counters_.access.add(start, kit::now());
  }
  void visit(const LifetimeClass& lifetime_class) {
    for (const Link* link = lifetime_class.first; link; link = link->next) access_.visit(*link->of);
  }

  // One tick: sample, advance, share, access, deallocate, and wait for the others every `drift` ticks.
  void advance() {
    if (thread_ == 0) run_.sample_memory(clock_);
    ++clock_;
    counters_.clock.add(1);
    if (outbox_) {
      deliver();
      retrieve();
    }
    if (o_.access && o_.access_time == AccessTime::kTick) access_live(clock_ + static_cast<std::uint64_t>(o_.delay));
    expire(heap_.expiring_at(clock_).take_all());
    if constexpr (kChecked) check_drift();
    // Full barriers every `drift` ticks: between two of them no clock can be further ahead.
    if (o_.drift == 0 || clock_ % static_cast<std::uint64_t>(o_.drift) == 0) run_.wait_for_all();
  }

  // The bound of section 2.1: no clock is more than `drift` ticks ahead of any other. O(threads).
  void check_drift() const {
    const std::uint64_t bound = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(o_.drift));
    for (std::size_t i = 0; i < run_.threads(); ++i) {
      const std::uint64_t other = run_.counters[i].clock.read();
      if (clock_ > other + bound)
        fatal(kExitMachine, "clock of thread ", thread_, " drifted ", clock_ - other, " ticks ahead of thread ", i);
    }
  }

  void expire(Link* link) {
    while (link) {
      Link* const next = link->next;  // the descriptor may be gone once we have left it
      SizeClass& c = *link->of;
      if (!c.shared || run_.layout.sharers(c).leave(thread_)) {
        const kit::Cycles start = kit::now();
        free_class(c, o_.placement, free_timing_, o_.compat);
        counters_.deallocation.add(start, kit::now());
        freed(c);
      }
      link = next;
    }
  }

  void drain(LifetimeClass& lifetime_class) {
    Untimed none;
    for (Link* link = lifetime_class.take_all(); link;) {
      Link* const next = link->next;
      SizeClass& c = *link->of;
      if (!c.shared || run_.layout.sharers(c).leave(thread_)) {
        free_class(c, o_.placement, none, o_.compat);
        counters_.objects_drained += c.count;
        counters_.bytes_drained += c.size * c.count;
        freed(c);
      }
      link = next;
    }
  }

  void freed(SizeClass& c) {
    counters_.objects_freed += c.count;
    counters_.calls_freed += o_.placement == Placement::kCompact ? 1 : c.count;
    counters_.bytes_freed.add(c.size * c.count);
    if (c.owner == thread_)
      descriptors_.give_back_own(&c);
    else
      run_.descriptors[c.owner].give_back(&c);
  }

  Run& run_;
  const Options& o_;
  const std::size_t thread_;
  Counters& counters_;
  Descriptors& descriptors_;
  const Group* const group_;
  Random random_;
  Access access_;
  HeapClass heap_;
  LifetimeClass* outbox_ = nullptr;
  std::uint16_t* receivers_ = nullptr;
  [[no_unique_address]] Timing malloc_timing_{};
  [[no_unique_address]] Timing free_timing_{};
  std::uint64_t clock_ = 0;
  std::uint64_t bytes_this_tick_ = 0;
};

template <class Timing>
void mutate_one(Run& run, std::size_t thread) {
  Mutator<Timing> mutator(run, thread);
  run.start_together(thread);
  mutator.run();
  run.end_together(thread);
  mutator.drain();
}

}  // namespace

void mutate(Run& run, std::size_t thread) {
  if (run.options.latency)
    mutate_one<kit::SampledTiming>(run, thread);
  else
    mutate_one<Untimed>(run, thread);
}

}  // namespace heapyard::acdc
