// SPDX-License-Identifier: Apache-2.0
// A priority queue whose items hold their own links.
//
// A pairing heap (Fredman, Sedgewick, Sleator, Tarjan, 1986): push O(1), pop O(log n) amortised. T has `key`,
// `child` and `sibling`.
#pragma once

namespace heapyard::netbuild {

template <class T>
class PairingHeap {
 public:
  bool empty() const { return root_ == nullptr; }
  const T* top() const { return root_; }

  void push(T* item) {
    item->child = item->sibling = nullptr;
    root_ = root_ ? meld(root_, item) : item;
  }

  // The least key; of equal ones, which depends on the order of pushes alone.
  T* pop() {
    T* const top = root_;
    T* pairs = nullptr;  // melded two by two from the left, in reverse
    for (T* item = top->child; item;) {
      T* const first = item;
      T* const second = first->sibling;
      item = second ? second->sibling : nullptr;
      first->sibling = nullptr;
      if (second) second->sibling = nullptr;
      T* const pair = second ? meld(first, second) : first;
      pair->sibling = pairs;
      pairs = pair;
    }
    T* all = nullptr;
    while (pairs) {
      T* const rest = pairs->sibling;
      pairs->sibling = nullptr;
      all = all ? meld(all, pairs) : pairs;
      pairs = rest;
    }
    root_ = all;
    return top;
  }

 private:
  static T* meld(T* a, T* b) {
    if (b->key < a->key) {
      T* const less = b;
      b = a;
      a = less;
    }
    b->sibling = a->child;
    a->child = b;
    return a;
  }

  T* root_ = nullptr;
};

}  // namespace heapyard::netbuild
