// SPDX-License-Identifier: Apache-2.0
// Explores schedules: runs a few threads' worth of code as fibers on one thread, one step at a time.
//
// Idea: every access to an atomic, and every lock, hands control to a scheduler, which picks who goes on. Exhaustive
// search walks the tree of choices depth first, up to a number of preemptions (Musuvathi and Qadeer, PLDI 2007:
// most faults need two); random search draws them from a seed. Memory is sequentially consistent here: what weaker
// orders allow is ThreadSanitizer's and the hardware's to show. Cost: one context switch per access.
#pragma once

#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace heapyard::test {

class Explorer {
 public:
  struct Outcome {
    std::size_t schedules = 0;
    bool failed = false;            // some schedule broke the scenario's rule, or none could go on
    bool complete = false;          // every schedule within the bound was run
    std::vector<unsigned> choices;  // of the schedule that failed
  };

  // `scenario()` makes fresh state and gives the threads to run over it, and a last check, as `make(bodies)`
  // returning whether all was well.
  using Bodies = std::vector<std::function<void()>>;
  using Scenario = std::function<std::function<bool()>(Bodies&)>;

  // All schedules with at most `preemptions`, or the first `most`.
  static Outcome exhaustive(const Scenario& scenario, unsigned preemptions, std::size_t most) {
    Outcome outcome;
    std::vector<unsigned> path;
    for (;;) {
      Explorer run(path, preemptions, nullptr);
      const bool well = run.carry_out(scenario);
      ++outcome.schedules;
      if (!well) {
        outcome.failed = true;
        outcome.choices = run.taken_;
        return outcome;
      }
      // The last choice that has an alternative left takes it.
      path = run.taken_;
      while (!path.empty() && path.back() + 1 >= run.offered_[path.size() - 1]) path.pop_back();
      if (path.empty()) {
        outcome.complete = true;
        return outcome;
      }
      ++path.back();
      if (outcome.schedules >= most) return outcome;
    }
  }

  static Outcome random(const Scenario& scenario, std::uint64_t seed, std::size_t schedules) {
    Outcome outcome;
    std::mt19937_64 draw(seed);
    while (outcome.schedules < schedules) {
      Explorer run({}, ~0u, &draw);
      const bool well = run.carry_out(scenario);
      ++outcome.schedules;
      if (well) continue;
      outcome.failed = true;
      outcome.choices = run.taken_;
      return outcome;
    }
    return outcome;
  }

  // A point where another thread may go on. `waits`: this one cannot until another has done something.
  static void step(bool waits = false) {
    if (current_ == nullptr || current_->running_ == kScheduler) return;
    Explorer& run = *current_;
    Fiber& fiber = *run.fibers_[run.running_];
    fiber.waits = waits;
    swapcontext(&fiber.context, &run.scheduler_);
  }

  // The number of the thread that runs.
  static unsigned self() { return current_ == nullptr ? kScheduler : current_->running_; }

  // Ends the schedule: the scenario's rule is broken.
  static void fail() {
    if (current_ == nullptr) return;
    current_->broken_ = true;
    step();  // for good: what goes on over broken state may do anything
  }

 private:
  static constexpr unsigned kScheduler = ~0u;
  static constexpr std::size_t kStack = std::size_t{64} << 10, kMostSteps = 20'000;
  struct Fiber {
    std::function<void()> body;
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    bool done = false, waits = false;
  };

  Explorer(std::vector<unsigned> path, unsigned preemptions, std::mt19937_64* draw)
      : path_(std::move(path)), preemptions_(preemptions), draw_(draw) {}

  static void start() {
    Fiber& fiber = *current_->fibers_[current_->running_];
    fiber.body();
    fiber.done = true;
    swapcontext(&fiber.context, &current_->scheduler_);
  }

  bool carry_out(const Scenario& scenario) {
    Bodies bodies;
    current_ = this;
    const std::function<bool()> check = scenario(bodies);
    for (auto& body : bodies) {
      fibers_.push_back(std::make_unique<Fiber>());
      Fiber& fiber = *fibers_.back();
      fiber.body = body;
      fiber.stack = std::make_unique<char[]>(kStack);
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStack;
      fiber.context.uc_link = &scheduler_;
      makecontext(&fiber.context, reinterpret_cast<void (*)()>(start), 0);
    }
    unsigned last = kScheduler;
    for (std::size_t steps = 0; !broken_; ++steps) {
      const unsigned next = choose(last);
      if (next == kScheduler) break;
      if (steps > kMostSteps) broken_ = true;  // no progress
      resume(last = next);
    }
    bool well = !broken_;
    for (auto& fiber : fibers_) well &= fiber->done;  // else they wait for each other
    if (well) well = check();
    current_ = nullptr;
    return well;
  }

  // A thread that was stopped in the middle is simply left there.
  void resume(unsigned fiber) {
    running_ = fiber;
    swapcontext(&scheduler_, &fibers_[fiber]->context);
    running_ = kScheduler;
    if (fibers_[fiber]->waits) return;
    for (auto& other : fibers_) other->waits = false;
  }

  // Who goes on: the one that ran last is offered first; anyone else costs a preemption while that one could go on.
  unsigned choose(unsigned last) {
    std::vector<unsigned> ready;
    const auto can = [&](unsigned i) { return !fibers_[i]->done && !fibers_[i]->waits; };
    const bool could = last != kScheduler && can(last);
    if (could) ready.push_back(last);
    for (unsigned i = 0; (!could || preempted_ < preemptions_) && i < fibers_.size(); ++i) {
      if (i != last && can(i)) ready.push_back(i);
    }
    if (ready.empty()) return kScheduler;
    unsigned choice = 0;
    if (ready.size() > 1) {
      if (draw_ != nullptr)
        choice = static_cast<unsigned>((*draw_)() % ready.size());
      else if (taken_.size() < path_.size())
        choice = path_[taken_.size()];
      taken_.push_back(choice);
      offered_.push_back(static_cast<unsigned>(ready.size()));
    }
    if (could && ready[choice] != last) ++preempted_;
    return ready[choice];
  }

  static inline Explorer* current_ = nullptr;
  std::vector<unsigned> path_, taken_, offered_;
  unsigned preemptions_, preempted_ = 0;
  std::mt19937_64* draw_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  ucontext_t scheduler_;
  unsigned running_ = kScheduler;
  bool broken_ = false;
};

// No fault: atomics as they are.
struct Faultless {
  static constexpr bool kSplits = false;
  template <class T>
  static T kept(T value) {
    return value;
  }
};

// What core::Concurrency is under the explorer: each access is a step. Fault: what is wrong with it, for tests of
// the explorer. kSplits: a read-modify-write is a read, and later a write. kept(): what is stored of a value.
template <class Fault = Faultless>
struct Explored {
  template <class T>
  class Atomic {
   public:
    constexpr Atomic() = default;
    constexpr Atomic(T value) : value_(value) {}
    Atomic(const Atomic&) = delete;
    Atomic& operator=(const Atomic&) = delete;

    T load(std::memory_order = std::memory_order_seq_cst) const {
      Explorer::step();
      return value_;
    }
    void store(T value, std::memory_order = std::memory_order_seq_cst) {
      Explorer::step();
      value_ = Fault::kept(value);
    }
    T operator=(T value) {
      store(value);
      return value;
    }
    operator T() const { return load(); }
    T exchange(T value, std::memory_order = std::memory_order_seq_cst) {
      return change([&](T) { return value; });
    }
    T fetch_add(T more, std::memory_order = std::memory_order_seq_cst) {
      return change([&](T old) { return static_cast<T>(old + more); });
    }
    T fetch_sub(T less, std::memory_order = std::memory_order_seq_cst) {
      return change([&](T old) { return static_cast<T>(old - less); });
    }
    T fetch_or(T bits, std::memory_order = std::memory_order_seq_cst) {
      return change([&](T old) { return static_cast<T>(old | bits); });
    }
    bool compare_exchange_strong(T& seen, T value, std::memory_order = std::memory_order_seq_cst,
                                 std::memory_order = std::memory_order_seq_cst) {
      bool swapped = false;
      const T wanted = seen;
      seen = change([&](T old) {
        swapped = old == wanted;
        return swapped ? value : old;
      });
      return swapped;
    }
    bool compare_exchange_weak(T& seen, T value, std::memory_order = std::memory_order_seq_cst,
                               std::memory_order = std::memory_order_seq_cst) {
      return compare_exchange_strong(seen, value);
    }

   private:
    friend Explored;
    template <class Change>
    T change(Change change) {
      Explorer::step();
      const T old = value_, value = change(old);
      if (value == old) return old;
      if (Fault::kSplits) Explorer::step();
      value_ = Fault::kept(value);
      return old;
    }

    T value_{};
  };

  static bool alone() { return false; }
  static void light_fence() {}
  static void heavy_fence() {}
  static void wait(const Atomic<std::uint32_t>& word, std::uint32_t value, unsigned milliseconds) {
    Explorer::step();
    if (word.value_ != value || milliseconds != 0) return;
    const unsigned before = wakes_[&word];
    while (wakes_[&word] == before) Explorer::step(true);
  }
  static void wake(const Atomic<std::uint32_t>& word) {
    Explorer::step();
    ++wakes_[&word];
  }

  class Lock {
   public:
    void lock() {
      Explorer::step();
      while (held_) Explorer::step(true);
      held_ = true;
    }
    void unlock() { held_ = false; }

   private:
    bool held_ = false;
  };

 private:
  static inline std::map<const void*, unsigned> wakes_;  // of each word: nobody sleeps through one
};

}  // namespace heapyard::test
