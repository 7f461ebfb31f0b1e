// SPDX-License-Identifier: Apache-2.0
#include "checker.hpp"

#include <sys/single_threaded.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "fibers.hpp"
#include "hooks.hpp"
#include "memory.hpp"

namespace heapyard::model {
namespace {

constexpr unsigned kNobody = ~0u;
constexpr std::size_t kMostSteps = 3'000;

struct Choice {
  unsigned thread;
  Memory::Id store;
  bool operator==(const Choice&) const = default;
};

// Where the search chose, and what it has still to choose there.
struct Node {
  Choice current;
  std::vector<Choice> asleep;                   // explored before, here or further up
  std::vector<unsigned> ready;                  // threads that could go on
  std::vector<std::vector<Memory::Id>> stores;  // by thread: what its access can read, the oldest first
  std::vector<bool> wanted;                     // of these threads: to be explored here
  unsigned last = kNobody;                      // who ran before
};

struct Event {
  unsigned thread;
  Operation op;
  Memory::Result result;
  std::vector<unsigned> past;  // by thread: how many of its steps come before, or are this one
  std::size_t number;          // of its thread's steps, from 1
};

struct Thread {
  Fiber fiber;
  std::function<void()> body;
  Operation next;
  Memory::Result result;
  bool done = false, rests = false;
  std::uintptr_t sleeps = 0;   // on this word
  std::vector<unsigned> past;  // by thread: how many of its steps are before this thread's last one
};

class Search {
 public:
  Search(const Program& program, const Options& options) : program_(program), options_(options) {}

  Outcome run() {
    do {
      if (!execute()) {
        ++outcome_.pruned;
      } else {
        ++outcome_.executions;
        if (!outcome_.fault.empty()) return outcome_;
      }
      if (outcome_.executions + outcome_.pruned >= options_.most) return outcome_;
    } while (advance());
    outcome_.complete = true;
    return outcome_;
  }

  // --- what the hooks ask

  bool sees() const { return running_ != kNobody && unseen_ == 0; }
  bool is_own(std::uintptr_t address) const { return threads_[running_].fiber.has(address); }

  Memory::Result step(Operation op) {
    ++unseen_;  // what is called here may be compiled for the checker too
    op.order = effective(op.site, op.kind, false, op.order);
    if (op.kind == Kind::compare) op.failure = effective(op.site, op.kind, true, op.failure);
    if (op.kind == Kind::lock || op.kind == Kind::unlock || op.kind == Kind::remote_fence) {
      if (op.order == std::memory_order_relaxed) return skipped();
      op.order = op.kind == Kind::remote_fence ? std::memory_order_seq_cst : std::memory_order_acq_rel;
    }
    if (op.kind == Kind::fence && op.order != std::memory_order_seq_cst) {
      memory_->local_fence(running_, op.order);
      return skipped();
    }
    if (op.kind == Kind::load || op.kind == Kind::store || op.kind == Kind::change || op.kind == Kind::compare)
      plain(op.address, op.bytes, op.kind != Kind::load, true, op.site);
    Thread& self = threads_[running_];
    self.next = op;
    --unseen_;
    self.fiber.stop();
    return self.result;
  }
  Memory::Result skipped() {
    --unseen_;
    return {};
  }

  void plain(std::uintptr_t address, std::size_t bytes, bool writes, bool atomic, std::uintptr_t site) {
    std::uintptr_t other = 0;
    ++unseen_;
    const bool races = memory_->races(running_, address, bytes, writes, atomic, site, other);
    --unseen_;
    if (races) broken("a data race: " + place_name(site) + ", " + place_name(other));
  }

  void broken(std::string why) {
    ++unseen_;
    if (fault_.empty()) fault_ = std::move(why);
    threads_[running_].fiber.stop();  // for good: what goes on over broken state may do anything
  }

  unsigned running_ = kNobody;
  unsigned unseen_ = 0;
  unsigned count_ = 0;

 private:
  std::memory_order effective(std::uintptr_t at, Kind kind, bool on_failure, std::memory_order asked) {
    if (at == 0) return asked;
    const Site site{at, kind, on_failure};
    if (asked != std::memory_order_relaxed) {
      auto& seen = outcome_.sites[site];
      seen = std::max(seen, asked);
    }
    const auto weak = options_.weakened.find(site);
    return weak == options_.weakened.end() ? asked : weak->second;
  }

  static void start();

  void go_on(unsigned thread) {
    running_ = thread;
    unseen_ = 0;
    threads_[thread].fiber.resume();
    running_ = kNobody;
  }

  // Runs one execution along the nodes that are there, and makes more. Whether it came to its end.
  bool execute() {
    memory_.emplace();
    fault_.clear();
    trace_.clear();
    Bodies bodies;
    const std::function<bool()> last_check = program_(bodies);
    count_ = static_cast<unsigned>(bodies.size());
    for (unsigned t = 0; t < count_; ++t) {
      Thread& thread = threads_[t];
      thread.body = std::move(bodies[t]);
      thread.done = thread.rests = false;
      thread.sleeps = 0;
      thread.next = {};
      thread.past.assign(count_, 0);
      thread.fiber.reset(start);
    }
    for (unsigned t = 0; t < count_ && fault_.empty(); ++t) {
      go_on(t);
      if (fault_.empty()) look_back(t);
    }
    unsigned last = kNobody, preemptions = 0;
    std::size_t depth = 0;
    while (fault_.empty()) {
      std::vector<unsigned> ready;
      for (unsigned t = 0; t < count_; ++t) {
        if (can_go_on(t)) ready.push_back(t);
      }
      if (ready.empty() && !rouse(ready)) break;
      if (depth == nodes_.size()) {
        Node node;
        node.ready = ready;
        node.last = last;
        node.stores.resize(count_);
        for (const unsigned t : ready) memory_->choices(t, threads_[t].next, options_.inserts, node.stores[t]);
        const bool bound = preemptions >= options_.preemptions && has(ready, last);
        node.wanted.assign(count_, false);
        for (const unsigned t : ready) node.wanted[t] = !options_.reduces && (!bound || t == last);
        if (options_.reduces && depth != 0) inherit(nodes_[depth - 1], node);
        if (!first_choice(node)) return false;
        nodes_.push_back(std::move(node));
      }
      Node& node = nodes_[depth++];
      const Choice choice = node.current;
      if (last != kNobody && choice.thread != last && has(ready, last)) ++preemptions;
      last = choice.thread;
      if (depth > kMostSteps) {
        fault_ = "no end";
        break;
      }
      take(choice);
    }
    outcome_.steps = depth;
    bool well = fault_.empty();
    if (well) {
      for (unsigned t = 0; t < count_; ++t) {
        if (!threads_[t].done) fault_ = "threads wait for each other, or for nothing";
      }
      well = fault_.empty() && last_check();
      if (!well && fault_.empty()) fault_ = "the last check";
    }
    if (!well) {
      outcome_.fault = fault_;
      outcome_.schedule.clear();
      for (const Event& event : trace_) outcome_.schedule.push_back(text_of(event));
    }
    return true;
  }

  // Threads that rest until another writes, and none does: what was written before they see at last.
  bool rouse(std::vector<unsigned>& ready) {
    for (unsigned t = 0; t < count_; ++t) {
      if (!std::exchange(threads_[t].rests, false)) continue;
      memory_->catch_up(t);
      ready.push_back(t);
    }
    return !ready.empty();
  }

  bool can_go_on(unsigned t) const {
    const Thread& thread = threads_[t];
    if (thread.done || thread.sleeps != 0 || thread.rests) return false;
    return thread.next.kind != Kind::lock || !held(thread.next.address);
  }
  static bool has(const std::vector<unsigned>& ready, unsigned t) { return std::ranges::find(ready, t) != ready.end(); }
  static bool held(std::uintptr_t lock) { return *reinterpret_cast<const bool*>(lock); }

  // The first choice of a node: of the thread that ran last, if it has one that is awake. Whether there is one.
  bool first_choice(Node& node) {
    std::vector<unsigned> order = node.ready;
    if (const auto at = std::ranges::find(order, node.last); at != order.end()) std::rotate(order.begin(), at, at + 1);
    for (const unsigned t : order) {
      if ((options_.reduces || node.wanted[t]) && choose(node, t)) return true;
    }
    return false;
  }

  // Whether thread t has a choice here that is awake; it is the current one then, and the thread's others are wanted.
  static bool choose(Node& node, unsigned t) {
    auto& stores = node.stores[t];
    while (!stores.empty()) {  // bound: stores of a location
      const Choice choice{t, stores.back()};
      stores.pop_back();
      if (std::ranges::find(node.asleep, choice) != node.asleep.end()) continue;
      node.current = choice;
      node.wanted[t] = true;
      return true;
    }
    return false;
  }

  // What sleeps at a node and does not depend on its current step sleeps behind it.
  void inherit(const Node& node, Node& next) {
    const Event& done = trace_.back();
    for (const Choice& choice : node.asleep) {
      if (choice.thread == done.thread) continue;
      if (!wakes(done.op, done.thread, threads_[choice.thread].next, choice.thread)) next.asleep.push_back(choice);
    }
  }

  // The next execution differs in the last node that has something left. Whether there is one.
  bool advance() {
    for (; !nodes_.empty(); nodes_.pop_back()) {
      Node& node = nodes_.back();
      if (options_.reduces) node.asleep.push_back(node.current);
      if (choose(node, node.current.thread)) return true;
      for (const unsigned t : node.ready) {
        if (node.wanted[t] && choose(node, t)) return true;
      }
    }
    return false;
  }

  void take(const Choice& choice) {
    Thread& thread = threads_[choice.thread];
    Event event{choice.thread, thread.next, {}, thread.past, 0};
    event.number = ++event.past[choice.thread];
    event.result = thread.result = memory_->execute(choice.thread, event.op, choice.store);
    switch (event.op.kind) {
      case Kind::lock:
        *reinterpret_cast<bool*>(event.op.address) = true;
        break;
      case Kind::unlock:
        *reinterpret_cast<bool*>(event.op.address) = false;
        break;
      case Kind::wait:
        thread.sleeps = event.result.done ? event.op.address : 0;
        break;
      case Kind::yield:
        thread.rests = true;
        break;
      default:
        break;
    }
    for (const Event& before : trace_) {
      if (!conflict(before.op, before.thread, event.op, event.thread)) continue;
      join(event.past, before.past);
    }
    if (event.op.kind == Kind::wake) {
      for (unsigned t = 0; t < count_; ++t) {
        if (threads_[t].sleeps != event.op.address) continue;
        threads_[t].sleeps = 0;
        join(threads_[t].past, event.past);
      }
    }
    if (event.op.kind != Kind::yield && !event.op.reads_only()) {
      for (unsigned t = 0; t < count_; ++t) {
        if (t != choice.thread && std::exchange(threads_[t].rests, false)) join(threads_[t].past, event.past);
      }
    }
    join(thread.past, event.past);
    trace_.push_back(event);
    for (unsigned t = 0; t < count_; ++t) {
      if (t != choice.thread) race(trace_.size() - 1, t);
    }
    if (thread.sleeps != 0 || thread.rests) {
      thread.next = {};
      thread.next.kind = Kind::resume;
      return;
    }
    go_on(choice.thread);
    look_back(choice.thread);
  }

  // The last step that thread t's next one depends on, and that does not come before it anyway: t must be tried there.
  void look_back(unsigned t) {
    if (!options_.reduces) return;
    for (std::size_t i = trace_.size(); i-- > 0;) {
      if (race(i, t)) return;
    }
  }
  bool race(std::size_t i, unsigned t) {
    const Event& event = trace_[i];
    const Thread& thread = threads_[t];
    if (!options_.reduces || thread.done || event.thread == t || event.op.kind == Kind::unlock) return false;
    if (!conflict(event.op, event.thread, thread.next, t)) return false;
    if (event.number <= thread.past[event.thread]) return true;
    Node& node = nodes_[i];
    for (const unsigned other : node.ready) {
      if (other == t || !has(node.ready, t)) node.wanted[other] = true;
    }
    return true;
  }

  static void join(std::vector<unsigned>& past, const std::vector<unsigned>& more) {
    for (std::size_t t = 0; t < past.size(); ++t) past[t] = std::max(past[t], more[t]);
  }

  static std::string text_of(const Event& event) {
    static constexpr const char* kNames[] = {
        "load", "store",  "change", "compare", "fence", "fence on another's processor",
        "lock", "unlock", "wait",   "wake",    "yield", "go on"};
    std::string text = "thread " + std::to_string(event.thread) + ": " + kNames[static_cast<unsigned>(event.op.kind)];
    if (event.op.site != 0) text += " at " + place_name(event.op.site);
    char value[64];
    std::snprintf(value, sizeof value, ", word %012lx: %#lx", event.op.address, event.result.value);
    if (event.op.address != 0) text += value;
    if (event.op.kind == Kind::store || event.op.kind == Kind::compare) {
      std::snprintf(value, sizeof value, " %s %#lx", event.op.wrote ? "->" : "not", event.op.operand);
      text += value;
    }
    return text;
  }

  const Program& program_;
  const Options& options_;
  Outcome outcome_;
  std::optional<Memory> memory_;
  std::vector<Node> nodes_;
  std::vector<Event> trace_;
  std::string fault_;
  static inline Thread threads_[kMostThreads];
};

Search* search = nullptr;

void Search::start() {
  Thread& thread = threads_[search->running_];
  thread.body();
  thread.done = true;
  thread.fiber.stop();
}

}  // namespace

Outcome explore(const Program& program, const Options& options) {
  __libc_single_threaded = false;  // else locks are none
  Search own(program, options);
  search = &own;
  Outcome outcome = own.run();
  search = nullptr;
  return outcome;
}

void fail(const char* why) {
  if (search != nullptr && search->running_ != kNobody) search->broken(why);
}
void check(bool well, const char* why) {
  if (!well) fail(why);
}

Unseen::Unseen() {
  if (search != nullptr) ++search->unseen_;
}
Unseen::~Unseen() {
  if (search != nullptr) --search->unseen_;
}

void Lock::lock() {
  if (sees())
    step({.kind = Kind::lock,
          .address = reinterpret_cast<std::uintptr_t>(&held_),
          .order = std::memory_order_acq_rel,
          .site = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0))});
}
void Lock::unlock() {
  if (sees())
    step({.kind = Kind::unlock,
          .address = reinterpret_cast<std::uintptr_t>(&held_),
          .order = std::memory_order_acq_rel,
          .site = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0))});
}

bool sees() { return search != nullptr && search->running_ != kNobody && search->unseen_ == 0; }
bool is_own(std::uintptr_t address) { return search->is_own(address); }
Memory::Result step(const Operation& op) { return search->step(op); }
void plain(std::uintptr_t address, std::size_t bytes, bool writes, std::uintptr_t site) {
  search->plain(address, bytes, writes, false, site);
}
unsigned running() { return search->running_; }
unsigned threads() { return search->count_; }

}  // namespace heapyard::model
