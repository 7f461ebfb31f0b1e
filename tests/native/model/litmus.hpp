// SPDX-License-Identifier: Apache-2.0
// Small programs over atomic variables: the classic ones and random ones, run by the checker, or written for herd7.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "checker.hpp"

extern "C" {
std::uint32_t __tsan_atomic32_load(const std::uint32_t*, int);
void __tsan_atomic32_store(std::uint32_t*, std::uint32_t, int);
std::uint32_t __tsan_atomic32_exchange(std::uint32_t*, std::uint32_t, int);
std::uint32_t __tsan_atomic32_fetch_add(std::uint32_t*, std::uint32_t, int);
void __tsan_atomic_thread_fence(int);
}

namespace heapyard::model {

struct Instruction {
  enum What { load, store, exchange, add, fence } what;
  unsigned variable = 0, value = 0;
  std::memory_order order = std::memory_order_relaxed;
};
using Litmus = std::vector<std::vector<Instruction>>;  // by thread

inline Instruction R(unsigned variable, std::memory_order order) { return {Instruction::load, variable, 0, order}; }
inline Instruction W(unsigned variable, unsigned value, std::memory_order order) {
  return {Instruction::store, variable, value, order};
}
inline Instruction F(std::memory_order order) { return {Instruction::fence, 0, 0, order}; }

// 2 or 3 threads of 1 to 3 instructions over 2 variables.
inline Litmus drawn_litmus(std::uint64_t seed) {
  using enum std::memory_order;
  std::mt19937_64 random(seed);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  static constexpr std::memory_order kLoads[] = {relaxed, acquire, seq_cst}, kStores[] = {relaxed, release, seq_cst},
                                     kChanges[] = {relaxed, acquire, release, acq_rel, seq_cst},
                                     kFences[] = {acquire, release, acq_rel, seq_cst, seq_cst};
  Litmus litmus(2 + below(2));
  unsigned value = 0;
  for (auto& thread : litmus) {
    for (unsigned n = (litmus.size() == 2 ? 2 : 1) + below(2); n > 0; --n) {
      const unsigned kind = below(10), variable = below(2);
      if (kind < 4) {
        thread.push_back(R(variable, kLoads[below(3)]));
      } else if (kind < 7) {
        thread.push_back(W(variable, ++value, kStores[below(3)]));
      } else if (kind < 8) {
        thread.push_back({Instruction::exchange, variable, ++value, kChanges[below(5)]});
      } else if (kind < 9) {
        thread.push_back({Instruction::add, variable, 10, kChanges[below(5)]});
      } else {
        thread.push_back(F(kFences[below(5)]));
      }
    }
  }
  return litmus;
}

// Every final state, as herd7 writes them: what each load read, and the variables.
inline std::set<std::string> states_of(const Litmus& litmus, const Options& options, Outcome& outcome) {
  struct State {
    std::array<std::uint32_t, 2> variables{};
    std::array<std::array<std::uint32_t, 8>, kMostThreads> read{};
  };
  std::set<std::string> states;
  const Program program = [&](Bodies& bodies) {
    auto state = std::make_shared<State>();
    for (unsigned t = 0; t < litmus.size(); ++t) {
      bodies.push_back([state, t, &litmus] {
        for (unsigned i = 0; i < litmus[t].size(); ++i) {
          const Instruction& in = litmus[t][i];
          std::uint32_t* const at = &state->variables[in.variable];
          const int order = static_cast<int>(in.order);
          std::uint32_t& read = state->read[t][i];
          switch (in.what) {
            case Instruction::load:
              read = __tsan_atomic32_load(at, order);
              break;
            case Instruction::store:
              __tsan_atomic32_store(at, in.value, order);
              break;
            case Instruction::exchange:
              read = __tsan_atomic32_exchange(at, in.value, order);
              break;
            case Instruction::add:
              read = __tsan_atomic32_fetch_add(at, in.value, order);
              break;
            case Instruction::fence:
              __tsan_atomic_thread_fence(order);
              break;
          }
        }
      });
    }
    return [&states, &litmus, state] {
      std::string text;
      for (unsigned t = 0; t < litmus.size(); ++t) {
        for (unsigned i = 0; i < litmus[t].size(); ++i) {
          if (litmus[t][i].what == Instruction::store || litmus[t][i].what == Instruction::fence) continue;
          text += std::to_string(t) + ":r" + std::to_string(i) + "=" + std::to_string(state->read[t][i]) + "; ";
        }
      }
      text += "[x]=" + std::to_string(state->variables[0]) + "; [y]=" + std::to_string(state->variables[1]) + ";";
      states.insert(text);
      return true;
    };
  };
  outcome = explore(program, options);
  return states;
}

// As a program for herd7 -model rc11.cat.
inline std::string herd_of(const Litmus& litmus, const std::string& name) {
  static constexpr const char* kOrders[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
  std::string text = "C " + name + "\n{ [x]=0; [y]=0; }\n", shown = "locations [";
  for (unsigned t = 0; t < litmus.size(); ++t) {
    text += "P" + std::to_string(t) + " (atomic_int* x, atomic_int* y) {\n";
    for (unsigned i = 0; i < litmus[t].size(); ++i) {
      const Instruction& in = litmus[t][i];
      const std::string order = std::string("memory_order_") + kOrders[static_cast<int>(in.order)] + ");\n";
      const std::string at = in.variable == 0 ? "x, " : "y, ", value = std::to_string(in.value) + ", ";
      const std::string reads = "  int r" + std::to_string(i) + " = atomic_";
      if (in.what != Instruction::store && in.what != Instruction::fence)
        shown += std::to_string(t) + ":r" + std::to_string(i) + "; ";
      switch (in.what) {
        case Instruction::load:
          text += reads + "load_explicit(" + at + order;
          break;
        case Instruction::store:
          text += "  atomic_store_explicit(" + at + value + order;
          break;
        case Instruction::exchange:
          text += reads + "exchange_explicit(" + at + value + order;
          break;
        case Instruction::add:
          text += reads + "fetch_add_explicit(" + at + value + order;
          break;
        case Instruction::fence:
          text += "  atomic_thread_fence(" + order;
          break;
      }
    }
    text += "}\n";
  }
  return text + shown + "x; y;]\nforall (true)\n";
}

}  // namespace heapyard::model
