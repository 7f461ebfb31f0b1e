// SPDX-License-Identifier: Apache-2.0
// Net building: which rectangles of a chip's layers are connected? The application of the BFM report.
//
// After Finkler, "Handling and Profiling the Increasingly Large and Complex Memory Allocation Patterns of the 64
// Bit Era" (IBM Research Report, 2004), section 3.2: random rectangles per layer, each layer's list sorted, a
// priority queue that merges the lists, a scanline with one interval tree per layer over the active rectangles,
// union-find over what overlaps in the same or the next layer. The input stays to the end; nets are destroyed last
// but one. The report gives the flow, ten types, their sizes and about ten pairs of new and delete per rectangle;
// docs/mutators.md says what else we fixed. All tasks are identical; task t is done by thread t modulo the threads.
// Cost: O(n log n) per task of n rectangles. Bookkeeping: a few hundred bytes a thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "../kit/session.hpp"
#include "interval_tree.hpp"
#include "objects.hpp"
#include "pairing_heap.hpp"

namespace heapyard::netbuild {

inline constexpr std::int64_t kMostLayers = 64;

struct Options {
  kit::CommonOptions common;
  std::int64_t shapes = 1'000'000;  // of a task
  std::int64_t layers = 7;
  std::int64_t tasks = 1;
  std::int64_t spread = 4;  // the area is so many times the root of the shapes wide: larger, fewer overlaps
};

class Workload {
 public:
  Workload(const Options& options, kit::Session& session) : options_(options), session_(session) {
    for (std::size_t i = 0; i < session.threads(); ++i) session.worker(i).make_table<Own>(1);
  }
  static std::size_t bytes_per_worker(const Options&) { return sizeof(Own); }

  template <class Operations>
  void before(kit::Worker&, Operations&) {}

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    Own& own = *worker.table<Own>();
    const auto threads = static_cast<std::int64_t>(session_.threads());
    for (auto task = static_cast<std::int64_t>(worker.index); task < options_.tasks; task += threads) {
      Task<Operations> work(options_, heap);
      work.run();
      own.nets += work.nets();
      own.squares += work.squares();
      heap.saw(work.nets() * 31 + work.squares());
    }
  }

  template <class Operations>
  void after(kit::Worker&, Operations&) {}

  // Of all tasks together: nets, and the sum of the squares of their sizes.
  std::pair<std::uint64_t, std::uint64_t> answer() const {
    std::pair<std::uint64_t, std::uint64_t> sum{0, 0};
    for (std::size_t i = 0; i < session_.threads(); ++i) {
      const Own& own = *session_.worker(i).table<Own>();
      sum.first += own.nets;
      sum.second += own.squares;
    }
    return sum;
  }

 private:
  struct Own {
    std::uint64_t nets, squares;
  };

  template <class Operations>
  class Task {
   public:
    Task(const Options& options, Operations& heap) : options_(options), heap_(heap) {}

    void run() {
      read();
      for (std::int64_t layer = 0; layer < options_.layers; ++layer) inputs_[layer] = sorted(inputs_[layer]);
      scan();
      destroy_nets();
      for (std::int64_t layer = 0; layer < options_.layers; ++layer) {
        while (Shape* shape = inputs_[layer]) {
          inputs_[layer] = shape->next;
          drop(Kind::kShape, shape);
        }
      }
    }

    std::uint64_t nets() const { return nets_; }
    std::uint64_t squares() const { return squares_; }

   private:
    template <class T>
    T* make(Kind kind, std::uint64_t index) {
      auto* const made = static_cast<T*>(heap_.allocate(sizeof(T), name(kind, index)));
      heap_.hold(sizeof(T));
      return made;
    }
    template <class T>
    void drop(Kind kind, T* object, std::uint64_t index) {
      heap_.drop(sizeof(T));
      heap_.release(object, name(kind, index));
    }
    template <class T>
    void drop(Kind kind, T* object) {
      drop(kind, object, object->index);
    }
    static std::uint64_t name(Kind kind, std::uint64_t index) {
      return index * kKinds + static_cast<std::uint64_t>(kind);
    }

    void read() {
      Random random(static_cast<std::uint64_t>(options_.common.seed));
      const auto side = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(options_.shapes)) *
                                                   static_cast<double>(options_.spread)) +
                        1;
      for (std::int64_t i = 0; i < options_.shapes; ++i) {
        auto* const shape = make<Shape>(Kind::kShape, static_cast<std::uint64_t>(i));
        const auto draw = [&](std::uint64_t low, std::uint64_t high) {
          return static_cast<std::int32_t>(random.between(low, high));
        };
        const std::int32_t x = draw(0, side - 1), y = draw(0, side - 1), width = draw(1, 8), height = draw(1, 8);
        const auto layer = static_cast<std::uint32_t>(i % options_.layers);
        *shape = {x, y, x + width, y + height, static_cast<std::uint32_t>(i), layer, inputs_[layer], nullptr, nullptr};
        inputs_[layer] = shape;
      }
    }

    static bool before(const Shape* a, const Shape* b) { return a->x1 != b->x1 ? a->x1 < b->x1 : a->index < b->index; }

    // Merge sort from the bottom up, in place. O(n log n).
    static Shape* sorted(Shape* list) {
      Shape* runs[64] = {};  // runs[k]: nothing, or 2^k shapes in order
      while (list) {
        Shape* run = std::exchange(list, list->next);
        run->next = nullptr;
        unsigned k = 0;
        for (; runs[k]; ++k) run = merged(std::exchange(runs[k], nullptr), run);
        runs[k] = run;
      }
      Shape* all = nullptr;
      for (Shape* run : runs) all = merged(run, all);
      return all;
    }

    static Shape* merged(Shape* a, Shape* b) {
      Shape* first = nullptr;
      Shape** end = &first;
      while (a && b) {
        Shape*& least = before(b, a) ? b : a;
        *end = least;
        end = &least->next;
        least = least->next;
      }
      *end = a ? a : b;
      return first;
    }

    void scan() {
      PairingHeap<Cursor> streams;
      for (std::int64_t layer = 0; layer < options_.layers; ++layer) follow(streams, inputs_[layer]);
      PairingHeap<Stop> stops;
      while (!streams.empty()) {
        Cursor* const cursor = streams.pop();
        Shape* const shape = cursor->shape;
        drop(Kind::kCursor, cursor, shape->index);
        follow(streams, shape->next);
        while (!stops.empty() && stops.top()->key <= shape->x1) end(stops.pop());
        Element* const element = start_net(shape);
        Probe* const probe = make<Probe>(Kind::kProbe, shape->index);
        const auto layer = static_cast<std::int32_t>(shape->layer);
        *probe = {shape->y1,    shape->y2, layer ? layer - 1 : 0, layer + 1 < options_.layers ? layer + 1 : layer,
                  shape->index, 0};
        join_all(element, search(*probe), shape->index);
        drop(Kind::kProbe, probe);
        begin(stops, *shape, element);
      }
      while (!stops.empty()) end(stops.pop());
    }

    void follow(PairingHeap<Cursor>& streams, Shape* shape) {
      if (!shape) return;
      auto* const cursor = make<Cursor>(Kind::kCursor, shape->index);
      cursor->key = (static_cast<std::int64_t>(shape->x1) << 32) + shape->index;
      cursor->shape = shape;
      streams.push(cursor);
    }

    void begin(PairingHeap<Stop>& stops, const Shape& shape, Element* element) {
      auto* const endpoint = make<Endpoint>(Kind::kEndpoint, shape.index);
      auto* const node = make<Node>(Kind::kNode, shape.index);
      *endpoint = {shape.x1, shape.y1, shape.x2, shape.y2, node, shape.index};
      node->endpoint = endpoint;
      node->y1 = shape.y1;
      node->y2 = shape.y2;
      node->layer = static_cast<std::int32_t>(shape.layer);
      node->index = shape.index;
      node->element = element;
      trees_[shape.layer].insert(node);
      auto* const stop = make<Stop>(Kind::kStop, shape.index);
      stop->key = shape.x2;
      stop->node = node;
      stops.push(stop);
    }

    void end(Stop* stop) {
      Node* const node = stop->node;
      trees_[node->layer].erase(node);
      drop(Kind::kEndpoint, node->endpoint);
      drop(Kind::kStop, stop, node->index);
      drop(Kind::kNode, node);
    }

    Hit* search(Probe& probe) {
      Hit* hits = nullptr;
      for (std::int32_t layer = probe.first_layer; layer <= probe.last_layer; ++layer) {
        trees_[layer].for_each_overlap(probe.y1, probe.y2, [&](const Node* node) {
          auto* const hit = make<Hit>(Kind::kHit, probe.index);
          *hit = {hits, node->element};
          hits = hit;
          ++probe.hits;
        });
      }
      return hits;
    }

    Element* start_net(Shape* shape) {
      auto* const element = make<Element>(Kind::kElement, shape->index);
      auto* const member = make<Member>(Kind::kMember, shape->index);
      auto* const net = make<Net>(Kind::kNet, shape->index);
      *member = {nullptr, shape, shape->index};
      *net = {all_.next, &all_, member, member, 1, shape->index};
      net->next->prev = net;
      all_.next = net;
      *element = {element, net, shape, 0, shape->index};
      shape->element = element;
      shape->member = member;
      return element;
    }

    static Element* root_of(Element* element) {
      Element* root = element;
      while (root->parent != root) root = root->parent;
      while (element != root) element = std::exchange(element->parent, root);
      return root;
    }

    void join_all(Element* element, Hit* hits, std::uint64_t index) {
      while (Hit* const hit = hits) {
        hits = hit->next;
        join(root_of(element), root_of(hit->element));
        drop(Kind::kHit, hit, index);
      }
    }

    void join(Element* a, Element* b) {
      if (a == b) return;
      if (a->rank < b->rank) std::swap(a, b);
      a->rank += a->rank == b->rank;
      b->parent = a;
      Net* const gone = b->net;
      a->net->last->next = gone->first;
      a->net->last = gone->last;
      a->net->size += gone->size;
      unlink(gone);
    }

    void unlink(Net* net) {
      net->prev->next = net->next;
      net->next->prev = net->prev;
      drop(Kind::kNet, net);
    }

    void destroy_nets() {
      while (all_.next != &all_) {
        Net* const net = all_.next;
        ++nets_;
        squares_ += std::uint64_t{net->size} * net->size;
        while (Member* const member = net->first) {
          net->first = member->next;
          drop(Kind::kElement, member->shape->element);
          drop(Kind::kMember, member);
        }
        unlink(net);
      }
    }

    const Options& options_;
    Operations& heap_;
    Shape* inputs_[kMostLayers] = {};
    IntervalTree trees_[kMostLayers];
    Net all_{&all_, &all_, nullptr, nullptr, 0, 0};
    std::uint64_t nets_ = 0, squares_ = 0;
  };

  const Options& options_;
  kit::Session& session_;
};

}  // namespace heapyard::netbuild
