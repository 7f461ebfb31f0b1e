// SPDX-License-Identifier: Apache-2.0
// Who sleeps on which futex, first in, first out, as the kernel has it. O(sleepers on the address).
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulator/model/turns.hpp"

namespace heapyard::simulator {

class SleepingQueues {
 public:
  void add(std::uint64_t address, ThreadNumber thread, std::uint32_t bits) {
    queues_[address].push_back({thread, bits});
  }

  // Takes out up to `most` sleepers whose bits meet `bits`, in order.
  std::vector<ThreadNumber> take(std::uint64_t address, std::uint64_t most, std::uint32_t bits) {
    std::vector<ThreadNumber> taken;
    const auto found = queues_.find(address);
    if (found == queues_.end()) return taken;
    std::deque<Sleeper>& queue = found->second;
    for (auto at = queue.begin(); at != queue.end() && taken.size() < most;) {
      if (!(at->bits & bits)) {
        ++at;
        continue;
      }
      taken.push_back(at->thread);
      at = queue.erase(at);
    }
    if (queue.empty()) queues_.erase(found);
    return taken;
  }

  void move(std::uint64_t from, std::uint64_t to, std::uint64_t most) {
    const auto found = queues_.find(from);
    if (found == queues_.end() || from == to) return;
    std::deque<Sleeper>& queue = found->second;
    std::deque<Sleeper>& other = queues_[to];  // references stay valid when the table grows
    for (; most > 0 && !queue.empty(); --most) {
      other.push_back(queue.front());
      queue.pop_front();
    }
    if (queue.empty()) queues_.erase(from);
  }

  // The thread sleeps no longer, wherever it did.
  void remove(ThreadNumber thread) {
    for (auto queue = queues_.begin(); queue != queues_.end();) {
      std::erase_if(queue->second, [&](const Sleeper& sleeper) { return sleeper.thread == thread; });
      queue = queue->second.empty() ? queues_.erase(queue) : std::next(queue);
    }
  }

 private:
  struct Sleeper {
    ThreadNumber thread;
    std::uint32_t bits;
  };
  std::unordered_map<std::uint64_t, std::deque<Sleeper>> queues_;
};

}  // namespace heapyard::simulator
