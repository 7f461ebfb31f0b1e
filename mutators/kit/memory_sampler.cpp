// SPDX-License-Identifier: Apache-2.0
#include "memory_sampler.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/fatal.hpp"
#include "cycle_clock.hpp"

namespace heapyard::kit {
namespace {

// What the handler looks with; set while the timer is armed.
std::atomic<MemorySampler*> running{nullptr};
// Held while somebody looks. The kernel gives the signal to the main thread unless one is pending there already, so
// that two handlers can run at once; the later one gives way.
std::atomic_flag looking;

void arm(std::int64_t period_ms) {
  itimerval timer{};
  timer.it_interval = {period_ms / 1000, (period_ms % 1000) * 1000};
  timer.it_value = timer.it_interval;
  setitimer(ITIMER_REAL, &timer, nullptr);
}

void set_handler(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigset_t alarm;  // who started us may have blocked it
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  if (sigaction(SIGALRM, &action, nullptr) != 0 || pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr) != 0)
    fatal(kExitMachine, "cannot handle the sampling timer");
}

}  // namespace

void MemorySampler::prepare(Arena& arena, const MemorySource& source) {
  source_ = source;
  resident_.open();
  times_us_ = arena.take<std::uint64_t>(kMost);
  rss_ = arena.take<std::uint64_t>(kMost);
  live_ = arena.take<std::uint64_t>(kMost);
}

std::uint64_t MemorySampler::heap_and_base() const {
  const std::uint64_t all = resident_.bytes(), own = source_.bookkeeping(source_.context);
  return all > own ? all - own : 0;
}

void MemorySampler::look() {
  const std::uint64_t now_ns = monotonic_ns();
  const std::uint64_t rss = heap_and_base(), live = source_.live ? source_.live(source_.context) : 0;
  if (looks() == 0) {
    first_ns_ = now_ns;
  } else {
    const double elapsed = static_cast<double>(now_ns - last_ns_);
    rss_integral_ += elapsed * (static_cast<double>(rss) + static_cast<double>(last_rss_)) / 2;
    live_integral_ += elapsed * (static_cast<double>(live) + static_cast<double>(last_live_)) / 2;
  }
  last_ns_ = now_ns;
  last_rss_ = rss;
  last_live_ = live;
  peak_ = std::max(peak_, rss);
  live_peak_ = std::max(live_peak_, live);
  const bool keep = kept_.keeps_next([this](std::size_t to, std::size_t from) {
    times_us_[to] = times_us_[from];
    rss_[to] = rss_[from];
    live_[to] = live_[from];
  });
  if (!keep) return;
  const std::size_t at = kept_.stored() - 1;
  times_us_[at] = (now_ns - first_ns_) / 1000;
  rss_[at] = rss;
  live_[at] = live;
}

void MemorySampler::on_timer(int) {
  if (looking.test_and_set(std::memory_order_acquire)) return;
  const int error = errno;
  if (MemorySampler* const sampler = running.load(std::memory_order_acquire)) sampler->look();
  errno = error;
  looking.clear(std::memory_order_release);
}

void MemorySampler::begin(std::int64_t period_ms) {
  peak_before_ = peak_resident_bytes();
  look();
  running.store(this, std::memory_order_release);
  set_handler(on_timer);
  arm(period_ms);
}

void MemorySampler::end() {
  arm(0);
  set_handler(SIG_IGN);
  while (looking.test_and_set(std::memory_order_acquire)) sched_yield();  // bound: one look of another thread
  running.store(nullptr, std::memory_order_relaxed);
  look();
  looking.clear(std::memory_order_release);
  const std::uint64_t peak = peak_resident_bytes(), own = source_.bookkeeping(source_.context);
  if (peak > peak_before_ && peak > own) peak_ = std::max(peak_, peak - own);
}

}  // namespace heapyard::kit
