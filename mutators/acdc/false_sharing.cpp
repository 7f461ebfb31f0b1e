// SPDX-License-Identifier: Apache-2.0
// The false-sharing mode (paper, section 4.6): in every tick one thread allocates one object for each thread, back to
// back; each thread then reads and writes its own object until the quantum of accesses is used up. Objects that an
// allocator placed on one cache line slow each other down. The thread an object was made for deallocates it when its
// lifetime has ended.
#include <cstdlib>

#include "layout.hpp"
#include "run.hpp"

namespace heapyard::acdc {
namespace {

// One access = one read or one write of one byte; a read and a write per turn, over the object's bytes in turn.
void hammer(void* object, std::uint64_t size, std::uint64_t accesses) {
  auto* const bytes = static_cast<volatile std::uint8_t*>(object);
  for (std::uint64_t i = 0, at = 0; i < accesses / 2; ++i) {
    bytes[at] = static_cast<std::uint8_t>(bytes[at] + 1);
    if (++at == size) at = 0;
  }
}

}  // namespace

void mutate_false_sharing(Run& run, std::size_t thread) {
  const Options& o = run.options;
  const std::size_t n = run.threads();
  Counters& counters = run.counters[thread];
  // The same stream in every thread: all agree on who allocates and on the sizes without talking to each other.
  Random common(mix(static_cast<std::uint64_t>(o.seed)) ^ static_cast<std::uint64_t>(o.repetition), ~std::uint64_t{0});
  const auto liveness = static_cast<std::uint64_t>(o.min_liveness);
  const auto lifetime = liveness + static_cast<std::uint64_t>(o.delay);
  const auto duration = static_cast<std::uint64_t>(o.duration);
  auto* const sizes = run.arenas[thread].take<std::uint64_t>(lifetime);  // of this thread's objects, by tick of birth

  run.start_together(thread);
  const kit::Cycles start = kit::now();
  for (std::uint64_t tick = 0; tick < duration + lifetime; ++tick) {
    const std::size_t producer = common.below(n);
    const std::uint64_t size =
        common.between(static_cast<std::uint64_t>(o.min_size), static_cast<std::uint64_t>(o.max_size));
    const auto slot = [&](std::uint64_t born) { return run.objects + born % lifetime * n; };
    if (tick < duration) {
      sizes[tick % lifetime] = size;
      counters.checksum = fold(fold(counters.checksum, producer), size);
      if (thread == producer) {
        void** const objects = slot(tick);
        const kit::Cycles begin = kit::now();
        for (std::size_t i = 0; i < n; ++i) {
          objects[i] = allocate_object(o.placement, size);
          if (!objects[i]) out_of_memory(run, thread, size);
        }
        counters.allocation.add(begin, kit::now());
        counters.objects_allocated += n;
        counters.calls_allocated += n;
        counters.bytes_allocated.add(n * size);
        counters.by_size_exponent[exponent(size)] += n;
        counters.by_liveness[liveness] += n;
        ++counters.classes;
        ++counters.classes_shared;
      }
      run.wait_for_all();
      // The accesses of a tick go to all live objects in equal parts.
      const std::uint64_t oldest = tick + 1 > liveness ? tick + 1 - liveness : 0;
      const std::uint64_t each = static_cast<std::uint64_t>(o.quantum) / (tick - oldest + 1);
      const kit::Cycles begin = kit::now();
      for (std::uint64_t born = oldest; born <= tick; ++born) hammer(slot(born)[thread], sizes[born % lifetime], each);
      counters.access.add(begin, kit::now());
      counters.accesses += each * (tick - oldest + 1);
      counters.objects_accessed += tick - oldest + 1;
      counters.objects_written += tick - oldest + 1;
      if (thread == 0) run.sample_memory(tick);
      counters.clock.add(1);
    } else if (tick == duration) {
      counters.running = kit::now() - start;
      run.end_together(thread);
    }
    if (tick + 1 >= lifetime && tick + 1 - lifetime < duration) {
      void* const object = slot(tick + 1 - lifetime)[thread];
      const kit::Cycles begin = kit::now();
      std::free(object);
      if (tick < duration)
        counters.deallocation.add(begin, kit::now());
      else
        ++counters.objects_drained;
      ++counters.objects_freed;
      ++counters.calls_freed;
      counters.bytes_freed.add(sizes[(tick + 1 - lifetime) % lifetime]);
    }
    run.wait_for_all();
  }
}

}  // namespace heapyard::acdc
