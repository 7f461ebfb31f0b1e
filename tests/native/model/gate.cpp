// SPDX-License-Identifier: Apache-2.0
// The gate that a fork closes: while it is closed nobody is inside, nobody waits for ever, and a thread that ends
// meanwhile is stopped once. What is inside is plain memory: whoever meets another there is in a race.
#include "heap/layers/gate.hpp"

#include <array>
#include <memory>

#include "heap/os/asymmetric_fence.hpp"
#include "protocols.hpp"

namespace heapyard::model {
namespace {

using Gate = GateOf<core::Concurrency, 2>;
using Place = Gate::Place;

struct State {
  std::array<std::array<Place, 2>, 3> chunks{};
  std::atomic<std::size_t> used{0};
  Gate gate;
  int inside = 0;  // the heap
  Held front_end;

  // `cheap`: the kernel has the call that lets visits do without a fence.
  explicit State(bool cheap) {
    kernel_has_membarrier(cheap);
    os::AsymmetricFence::begin();
  }
  Place* place() {
    return gate.take_place([this](std::size_t) { return static_cast<void*>(chunks[used++].data()); });
  }
  void work() { ++inside; }
  void fork() {
    gate.close();
    gate.wait_until_empty(nullptr, Gate::kForEver);
    ++inside;  // copies the heap, so no thread may be there
    gate.open();
  }
  void stop_left_behind() {
    while (Place* place = gate.take_left_behind()) {
      static_cast<Held*>(place->front_end)->take();
      gate.give_place_back(place);
    }
  }
};

// Overlapping forks read one heap; each copies it for itself.
struct Forks : State {
  using State::State;
  void fork() {
    gate.close();
    gate.wait_until_empty(nullptr, Gate::kForEver);
    check(inside >= 0, "");
    gate.open();
  }
};

Program visits(bool cheap, int forks, int visits) {
  return [=](Bodies& bodies) {
    auto state = std::make_shared<Forks>(cheap);
    Place* place = state->place();
    bodies.push_back([=] {
      for (int visit = 0; visit < visits; ++visit) {
        if (!state->gate.enter(*place)) continue;
        state->work();
        state->gate.leave(*place);
      }
    });
    for (int i = 0; i < forks; ++i) bodies.push_back([=] { state->fork(); });
    return [=] { return !state->gate.closed(); };
  };
}
// After the fork the heap is changed, by its child or its parent.
Program changes(bool cheap) {
  return [=](Bodies& bodies) {
    auto state = std::make_shared<State>(cheap);
    Place* place = state->place();
    bodies.push_back([=] {
      if (!state->gate.enter(*place)) return;
      state->work();
      state->gate.leave(*place);
    });
    bodies.push_back([=] { state->fork(); });
    return [=] { return !state->gate.closed(); };
  };
}
// Threads without a place, which do not work on the same there.
Program without_place(bool cheap) {
  return [=](Bodies& bodies) {
    struct Two : State {
      using State::State;
      std::array<int, 2> of{};
    };
    auto state = std::make_shared<Two>(cheap);
    for (unsigned t = 0; t < 2; ++t) {
      bodies.push_back([=] {
        if (!state->gate.enter()) return;
        ++state->of[t];
        state->gate.leave();
      });
    }
    bodies.push_back([=] {
      state->gate.close();
      state->gate.wait_until_empty(nullptr, Gate::kForEver);
      for (int& of : state->of) ++of;
      state->gate.open();
    });
    return [=] { return !state->gate.closed(); };
  };
}
Program first_visit(bool cheap) {
  return [=](Bodies& bodies) {
    auto state = std::make_shared<State>(cheap);
    bodies.push_back([=] {
      if (!state->gate.enter()) return;
      Place* place = state->place();
      state->gate.move_to(*place);
      state->work();
      state->gate.leave(*place);
    });
    bodies.push_back([=] { state->fork(); });
    return [=] { return !state->gate.closed(); };
  };
}
Program end(bool cheap) {
  return [=](Bodies& bodies) {
    auto state = std::make_shared<State>(cheap);
    Place* place = state->place();
    bodies.push_back([=] {
      Gate& gate = state->gate;
      if (gate.enter(*place)) {
        state->front_end.take();
        return gate.leave(*place);
      }
      gate.leave_behind(*place, &state->front_end);
      if (!gate.enter()) return;
      state->stop_left_behind();
      gate.leave();
    });
    bodies.push_back([=] {
      state->gate.close();
      state->gate.wait_until_empty(nullptr, Gate::kForEver);
      state->gate.open();
      if (!state->gate.enter()) return;
      state->stop_left_behind();
      state->gate.leave();
    });
    return [=] { return state->front_end.held(); };
  };
}

}  // namespace

void add_gate(Protocols& all) {
  const char* const file = "heap/layers/gate.hpp";
  for (const bool cheap : {true, false}) {
    const std::string fences = cheap ? "" : ", no membarrier";
    all.push_back({"fork: a visit" + fences, file, 2, true, changes(cheap)});
    all.push_back({"fork: two visits" + fences, file, 2, false, visits(cheap, 1, 2)});
    all.push_back({"fork: two forks" + fences, file, 3, false, visits(cheap, 2, 1)});
    all.push_back({"fork: first visit" + fences, file, 2, false, first_visit(cheap)});
    all.push_back({"fork: without a place" + fences, file, 3, false, without_place(cheap)});
    all.push_back({"fork: a thread ends" + fences, file, 2, false, end(cheap)});
  }
}

}  // namespace heapyard::model
