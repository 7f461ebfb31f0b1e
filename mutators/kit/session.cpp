// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/fatal.hpp"
#include "base/simulation.hpp"
#include "base/text.hpp"
#include "result.hpp"

namespace heapyard::kit {
namespace {

std::uint64_t bookkeeping_of(const void* session) { return static_cast<const Session*>(session)->bookkeeping_bytes(); }

std::uint64_t live_of(const void* context) {
  const auto& session = *static_cast<const Session*>(context);
  std::uint64_t live = 0;
  for (std::size_t i = 0; i < session.threads(); ++i) live += session.worker(i).live.read();
  // An object that moved between threads while we summed may be missed once and counted never: not below nothing.
  return static_cast<std::int64_t>(live) > 0 ? live : 0;
}

// One line per call: thread, call, object, bytes.
void write_log(const Session& session, const char* path) {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  bool written = file >= 0;
  for (std::size_t i = 0; i < session.threads() && written; ++i) {
    Text text;
    for (const OperationLog::Record& record : session.worker(i).log.records())
      text << i << ' ' << kCallNames[static_cast<std::size_t>(record.call)] << ' ' << record.object << ' '
           << record.size << '\n';
    written = text.write_to(file);
  }
  if (!written || close(file) != 0)
    fatal(kExitMachine, "cannot write ", std::string_view(path), ": ", std::string_view(strerrordesc_np(errno)));
}

}  // namespace

void out_of_memory(const Worker& worker, const Tally& reached, Call call, std::uint64_t size) {
  static std::atomic_flag told;
  while (told.test_and_set()) pause();  // bound: until the first caller ends the process
  fatal(kExitNoMemory, std::string_view(kCallNames[static_cast<std::size_t>(call)]), " of ", size,
        " bytes failed in thread ", worker.index, ", which had made ", reached.allocations, " allocations of ",
        reached.bytes, " bytes, ", reached.reallocations, " reallocations and ", reached.releases,
        " releases in this phase");
}

Session::Session(const CommonOptions& options, std::size_t bytes_per_worker, bool tracks_live) : options_(options) {
  const std::size_t n = threads();
  read_cost_ = read_cost();
  common_.reserve(n * (sizeof(Worker) + 4 * kCacheLine) + Threads::bytes(n) + MemorySampler::kBytes + 4 * kPage);
  workers_ = static_cast<Worker*>(common_.take_bytes(n * sizeof(Worker), alignof(Worker)));
  threads_.prepare(common_, n);
  const std::size_t latencies = options_.latency ? kPage + sizeof(Latencies) : 0;
  for (std::size_t i = 0; i < n; ++i) {
    Worker& worker = *new (&workers_[i]) Worker;
    worker.index = i;
    worker.random = Random(static_cast<std::uint64_t>(options_.seed), i);
    worker.arena.reserve(bytes_per_worker + latencies + 16 * kCacheLine);
    if (options_.latency) worker.latencies = worker.arena.take<Latencies>();
    worker.latency_period = static_cast<std::uint64_t>(options_.latency);
    worker.read_cost = read_cost_;
    if (options_.log) worker.log.reserve();
  }
  memory_.prepare(common_, {bookkeeping_of, tracks_live ? live_of : nullptr, this});
}

std::uint64_t Session::bookkeeping_bytes() const {
  std::uint64_t bytes = common_.resident_bytes();
  for (std::size_t i = 0; i < threads(); ++i)
    bytes += workers_[i].arena.resident_bytes() + workers_[i].log.resident_bytes();
  return bytes;
}

void Session::run_threads(void* workload, void (*body)(Session&, void*, Worker&)) {
  const CycleRate rate;
  Untyped untyped{this, workload, body};
  const auto work = [](void* context, std::size_t index) {
    const Untyped& own = *static_cast<const Untyped*>(context);
    own.session->wait_for_all();
    if (index == 0) own.session->memory_.note_base();
    own.session->wait_for_all();
    own.body(*own.session, own.workload, own.session->workers_[index]);
  };
  threads_.run(work, &untyped);
  cycles_per_second_ = rate.per_second();
}

void Session::start_together(Worker& worker) {
  wait_for_all();
  if (worker.index == 0) {
    memory_.begin(options_.sample_period);
    faults_ = page_faults();
    cpu_ns_ = process_cpu_ns();
    mark_simulation(kSimulationBegin);
  }
  wait_for_all();
  worker.started_ns = monotonic_ns();
}

void Session::end_together(Worker& worker) {
  worker.ended_ns = monotonic_ns();
  wait_for_all();
  if (worker.index == 0) {
    mark_simulation(kSimulationEnd);
    cpu_ns_ = process_cpu_ns() - cpu_ns_;
    const PageFaults end = page_faults();
    faults_ = {end.minor - faults_.minor, end.major - faults_.major};
    memory_.end();
  }
  wait_for_all();
}

void Session::finish() {
  Tally all;
  for (std::size_t phase = 0; phase < kPhases; ++phase) all.add(total(static_cast<Phase>(phase)));
  if (all.allocations != all.releases)
    fatal(kExitMachine, "internal error: ", all.allocations, " objects allocated but ", all.releases, " released");
  if (options_.log) write_log(*this, options_.log);
}

Tally Session::total(Phase phase) const {
  Tally sum;
  for (std::size_t i = 0; i < threads(); ++i) {
    const Tally& tally = workers_[i].tally[static_cast<std::size_t>(phase)];
    sum.add(tally);
    sum.sequence = fold(sum.sequence, tally.sequence);
  }
  return sum;
}

double Session::wall_seconds() const {
  std::uint64_t first = UINT64_MAX, last = 0;
  for (std::size_t i = 0; i < threads(); ++i) {
    first = std::min(first, workers_[i].started_ns);
    last = std::max(last, workers_[i].ended_ns);
  }
  return static_cast<double>(last - first) * 1e-9;
}

double Session::thread_seconds() const {
  double sum = 0;
  for (std::size_t i = 0; i < threads(); ++i)
    sum += static_cast<double>(workers_[i].ended_ns - workers_[i].started_ns) * 1e-9;
  return sum;
}

void Session::report(Result& result, bool fixed_work) const {
  const Tally measured = total(Phase::kMeasured);
  Tally all;
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    const Tally tally = total(static_cast<Phase>(phase));
    all.add(tally);
    all.sequence = fold(all.sequence, tally.sequence);
  }
  const auto operations = static_cast<double>(measured.operations());
  const double wall = wall_seconds(), base = static_cast<double>(memory_.base());
  const auto above_base = [&](double bytes) { return bytes > base ? bytes - base : 0; };
  result.metric("throughput", "operations/s", Better::kHigher, operations / wall);
  result.metric("wall_time", "ms", Better::kLower, wall * 1e3);
  result.metric("time_per_operation", "ns", Better::kLower, static_cast<double>(cpu_ns_) / operations);
  result.metric("cpu_time", "ms", Better::kLower, static_cast<double>(cpu_ns_) * 1e-6);
  result.metric("rss_peak", "B", Better::kLower, static_cast<double>(memory_.peak()));
  result.metric("rss_average", "B", Better::kLower, memory_.average());
  result.metric("heap_peak", "B", Better::kLower, above_base(static_cast<double>(memory_.peak())));
  result.metric("heap_average", "B", Better::kLower, above_base(memory_.average()));
  if (memory_.tracks_live()) {
    result.metric("live_average", "B", Better::kLower, memory_.live_average());
    result.metric("fragmentation", "1", Better::kLower, above_base(memory_.average()) / memory_.live_average());
  }
  result.metric("minor_faults", "1", Better::kLower, static_cast<double>(faults_.minor));
  result.metric("major_faults", "1", Better::kLower, static_cast<double>(faults_.major));
  if (options_.latency) {
    for (std::size_t call = 0; call < kCalls; ++call) {
      LatencyHistogram merged{};
      for (std::size_t i = 0; i < threads(); ++i) merged.merge(workers_[i].latencies->of[call]);
      if (merged.total()) result.latencies(static_cast<Call>(call), merged, 1e9 / cycles_per_second_);
    }
  }

  result.count("operations", measured.operations());
  result.count("allocations", measured.allocations);
  result.count("releases", measured.releases);
  result.count("reallocations", measured.reallocations);
  result.count("bytes", measured.bytes);
  result.count("malloc_calls", all.allocations);
  result.count("free_calls", all.releases);
  result.count("memory_samples", memory_.looks());
  const Tally before = total(Phase::kBefore);
  result.checksum(fixed_work ? fold(fold(all.sequence, all.released), all.contents)
                             : fold(before.sequence, before.released));
  result.bookkeeping(bookkeeping_bytes(), memory_.base());
  result.clock(static_cast<double>(read_cost_) * 1e9 / cycles_per_second_);
  result.workers({workers_, threads()});
  result.series("time_us", memory_.times_us());
  result.series("rss", memory_.rss());
  if (memory_.tracks_live()) result.series("live", memory_.live());
}

}  // namespace heapyard::kit
