// SPDX-License-Identifier: Apache-2.0
// A red-black tree whose nodes lie in memory the caller owns, with a sentinel that is only written.
//
// Idea: Cormen, Leiserson, Rivest with the change of the BFM paper (section 2.2.3). The fix-up after a removal keeps
// what it must know of the terminal node in local variables. So it sets links without asking whether a node is the
// sentinel, and nothing written there is ever read. Trees that share a sentinel may be changed in any interleaving.
// Cost: insert and erase O(log n) with at most 2 and 3 rotations; replace O(1). Threads: the owner's lock.
//
// INVARIANT: the root is black; a red node has black children; every path down has as many black nodes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/os/bound.hpp"

namespace heapyard::core {

template <class Node>
struct TreeLinks {
  Node* child[2];
  std::uintptr_t parent_red;  // the parent, and in bit 0 whether this node is red
};

// `Hook` names the links within a node, so that a node may stand in several trees.
template <class Node, TreeLinks<Node> Node::* Hook>
class RedBlackTree {
 public:
  // No path is longer: twice the logarithm of more nodes than an address space holds. Every loop here and every search
  // walks one path.
  static constexpr std::size_t kHeight = 128;

  // `nil`: the sentinel, all its links zero; it must outlive the tree.
  constexpr explicit RedBlackTree(Node* nil) : nil_(nil), root_(nil) {}

  Node* root() const { return root_; }
  Node* nil() const { return nil_; }
  bool empty() const { return root_ == nil_; }
  Node* child(const Node* node, int side) const { return (node->*Hook).child[side]; }
  Node* parent(const Node* node) const {
    return reinterpret_cast<Node*>((node->*Hook).parent_red & ~std::uintptr_t{1});
  }
  bool red(const Node* node) const { return (node->*Hook).parent_red & 1; }

  // The leftmost (side 0) or rightmost (1) node of a tree that is not empty. O(log n).
  Node* last(int side) const {
    Node* node = root_;
    for (os::Bound bound(kHeight); child(node, side) != nil_; bound.turn()) node = child(node, side);
    return node;
  }

  // The next node in order (side 1) or the one before (0); nil at the end. O(log n).
  Node* neighbour(const Node* node, int side) const {
    os::Bound bound(kHeight);
    if (Node* down = child(node, side); down != nil_) {
      for (; child(down, !side) != nil_; bound.turn()) down = child(down, !side);
      return down;
    }
    Node* up = parent(node);
    for (; up != nil_ && child(up, side) == node; up = parent(up)) {
      bound.turn();
      node = up;
    }
    return up;
  }

  // Hangs `node` where a search has ended: as child `side` of `parent`, which has none there; nil for an empty tree.
  void insert(Node* node, Node* parent, int side) {
    (node->*Hook).child[0] = (node->*Hook).child[1] = nil_;
    (node->*Hook).parent_red = reinterpret_cast<std::uintptr_t>(parent) | 1;
    (parent == nil_ ? root_ : (parent->*Hook).child[side]) = node;
    os::Bound bound(kHeight / 2);
    while (red(parent)) {  // climbs two levels each time
      bound.turn();
      Node* const above = this->parent(parent);
      const int towards = child(above, 1) == parent;
      Node* const uncle = child(above, !towards);
      if (red(uncle)) {
        make_black(parent);
        make_black(uncle);
        make_red(above);
        node = above;
        parent = this->parent(above);
        continue;
      }
      if (child(parent, !towards) == node) {
        rotate(parent, towards);
        parent = node;
      }
      make_black(parent);
      make_red(above);
      rotate(above, !towards);
      break;
    }
    make_black(root_);
  }

  void erase(Node* node) {
    Node *moved, *above;  // the subtree that moved up, and what it hangs on now
    int side;
    bool lost_black;
    if (child(node, 0) == nil_ || child(node, 1) == nil_) {
      moved = child(node, child(node, 0) == nil_);
      above = parent(node);
      side = above != nil_ && child(above, 1) == node;
      lost_black = !red(node);
      hang(node, moved);
    } else {
      Node* next = child(node, 1);
      for (os::Bound bound(kHeight); child(next, 0) != nil_; bound.turn()) next = child(next, 0);
      moved = child(next, 1);
      lost_black = !red(next);
      if (parent(next) == node) {
        above = next;
        side = 1;
      } else {
        above = parent(next);
        side = 0;
        hang(next, moved);
        (next->*Hook).child[1] = child(node, 1);
        set_parent(child(node, 1), next);
      }
      (next->*Hook).child[0] = child(node, 0);
      set_parent(child(node, 0), next);
      hang(node, next);
      if (red(node))
        make_red(next);
      else
        make_black(next);
    }
    if (lost_black) restore(moved, above, side);
  }

  // `other` takes the place of `node`, whose neighbours in order stay the same: no node moves.
  void replace(Node* node, Node* other) {
    other->*Hook = node->*Hook;
    set_parent(child(other, 0), other);
    set_parent(child(other, 1), other);
    Node* const above = parent(other);
    (above == nil_ ? root_ : (above->*Hook).child[child(above, 1) == node]) = other;
  }

 private:
  void make_red(Node* node) { (node->*Hook).parent_red |= 1; }
  void make_black(Node* node) { (node->*Hook).parent_red &= ~std::uintptr_t{1}; }
  // INVARIANT: the sentinel is black, and stays so: its parent may be set, its colour is never made red.
  void set_parent(Node* node, Node* parent) {
    (node->*Hook).parent_red = reinterpret_cast<std::uintptr_t>(parent) | ((node->*Hook).parent_red & 1);
  }

  // `lower` takes the place of `node` below its parent.
  void hang(Node* node, Node* lower) {
    Node* const above = parent(node);
    (above == nil_ ? root_ : (above->*Hook).child[child(above, 1) == node]) = lower;
    set_parent(lower, above);
  }

  // `node` moves down to `side`, its other child takes its place.
  void rotate(Node* node, int side) {
    Node* const up = child(node, !side);
    Node* const across = child(up, side);
    (node->*Hook).child[!side] = across;
    set_parent(across, node);
    hang(node, up);
    (up->*Hook).child[side] = node;
    set_parent(node, up);
  }

  // The paths through `node`, child `side` of `above`, lack one black node. Climbs at most to the root.
  void restore(Node* node, Node* above, int side) {
    os::Bound bound(kHeight);
    while (node != root_ && !red(node)) {
      bound.turn();
      Node* sibling = child(above, !side);
      if (red(sibling)) {
        make_black(sibling);
        make_red(above);
        rotate(above, side);
        sibling = child(above, !side);
      }
      if (!red(child(sibling, 0)) && !red(child(sibling, 1))) {
        make_red(sibling);
        node = above;
        above = parent(node);
        side = above != nil_ && child(above, 1) == node;
        continue;
      }
      if (!red(child(sibling, !side))) {
        make_black(child(sibling, side));
        make_red(sibling);
        rotate(sibling, !side);
        sibling = child(above, !side);
      }
      if (red(above))
        make_red(sibling);
      else
        make_black(sibling);
      make_black(above);
      make_black(child(sibling, !side));
      rotate(above, side);
      return;
    }
    make_black(node);
  }

  Node* nil_;
  Node* root_;
};

}  // namespace heapyard::core
