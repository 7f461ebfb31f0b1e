// SPDX-License-Identifier: Apache-2.0
// The active rectangles of one layer by their extent in y: a treap, each node with the largest end below it.
//
// insert and erase O(log n) expected, for_each_overlap O(log n + hits) expected; recursion as deep as the tree.
// Priorities are hashes of the rectangle's number, so the tree has the same shape in every run.
#pragma once

#include <cstdint>

#include "base/random.hpp"
#include "objects.hpp"

namespace heapyard::netbuild {

class IntervalTree {
 public:
  void insert(Node* node) {
    node->left = node->right = nullptr;
    node->most = node->y2;
    node->priority = mix(node->index + 1);
    insert(root_, node);
  }

  void erase(const Node* node) { erase(root_, node); }

  // Calls found(node) for every rectangle that overlaps (y1, y2), in order.
  template <class Found>
  void for_each_overlap(std::int32_t y1, std::int32_t y2, Found found) const {
    visit(root_, y1, y2, found);
  }

 private:
  static bool before(const Node* a, const Node* b) { return a->y1 != b->y1 ? a->y1 < b->y1 : a->index < b->index; }

  static void refresh(Node* node) {
    node->most = node->y2;
    if (node->left && node->left->most > node->most) node->most = node->left->most;
    if (node->right && node->right->most > node->most) node->most = node->right->most;
  }

  static void insert(Node*& tree, Node* node) {
    if (!tree) {
      tree = node;
    } else if (before(node, tree)) {
      insert(tree->left, node);
      if (tree->left->priority > tree->priority) {
        Node* const up = tree->left;
        tree->left = up->right;
        up->right = tree;
        refresh(tree);
        tree = up;
      }
    } else {
      insert(tree->right, node);
      if (tree->right->priority > tree->priority) {
        Node* const up = tree->right;
        tree->right = up->left;
        up->left = tree;
        refresh(tree);
        tree = up;
      }
    }
    refresh(tree);
  }

  static void erase(Node*& tree, const Node* node) {
    if (tree == node) {
      tree = joined(tree->left, tree->right);
    } else {
      erase(before(node, tree) ? tree->left : tree->right, node);
    }
    if (tree) refresh(tree);
  }

  // All of `low` lies before all of `high`.
  static Node* joined(Node* low, Node* high) {
    if (!low) return high;
    if (!high) return low;
    Node*& inner = low->priority > high->priority ? low->right : high->left;
    Node* const top = low->priority > high->priority ? low : high;
    inner = top == low ? joined(low->right, high) : joined(low, high->left);
    refresh(top);
    return top;
  }

  template <class Found>
  static void visit(Node* tree, std::int32_t y1, std::int32_t y2, Found& found) {
    if (!tree || tree->most <= y1) return;
    visit(tree->left, y1, y2, found);
    if (tree->y1 >= y2) return;
    if (tree->y2 > y1) found(tree);
    visit(tree->right, y1, y2, found);
  }

  Node* root_ = nullptr;
};

}  // namespace heapyard::netbuild
