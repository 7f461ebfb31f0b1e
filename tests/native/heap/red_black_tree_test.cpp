// SPDX-License-Identifier: Apache-2.0
// The red-black tree against std::set, ten million random operations, its INVARIANTS checked on the way.
#include "heap/core/red_black_tree.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <set>
#include <vector>

#include "sanitized.hpp"

namespace heapyard::core {
namespace {

struct Node {
  unsigned key;
  TreeLinks<Node> first;
  TreeLinks<Node> second;
};

template <TreeLinks<Node> Node::* Hook>
class Tree : public RedBlackTree<Node, Hook> {
 public:
  using RedBlackTree<Node, Hook>::RedBlackTree;

  void add(Node* node) {
    Node* parent = this->nil();
    int side = 0;
    for (Node* here = this->root(); here != this->nil(); here = this->child(here, side)) {
      parent = here;
      side = here->key < node->key;
    }
    this->insert(node, parent, side);
  }

  // Black nodes on each path below, -1 if a rule is broken.
  int black_height(const Node* node) const {
    if (node == this->nil()) return 0;
    int heights[2];
    for (const int side : {0, 1}) {
      const Node* child = this->child(node, side);
      if (child != this->nil() && (this->parent(child) != node || (child->key < node->key) != (side == 0))) return -1;
      if (this->red(node) && this->red(child)) return -1;
      heights[side] = black_height(child);
    }
    if (heights[0] < 0 || heights[0] != heights[1]) return -1;
    return heights[0] + !this->red(node);
  }

  bool sound() const { return this->empty() || (!this->red(this->root()) && black_height(this->root()) >= 0); }

  std::vector<unsigned> keys() const {
    std::vector<unsigned> found;
    if (this->empty()) return found;
    for (const Node* node = this->last(0); node != this->nil(); node = this->neighbour(node, 1))
      found.push_back(node->key);
    return found;
  }
};

TEST(RedBlackTree, AgreesWithASetOverMillionsOfOperationsOnTwoTreesThatShareASentinel) {
  constexpr unsigned kKeys = 4000;
  constexpr int kOperations = heapyard::test::kSanitized ? 1'000'000 : 10'000'000;
  Node nil{};
  Tree<&Node::first> first{&nil};
  Tree<&Node::second> second{&nil};
  std::vector<Node> nodes(kKeys);
  for (unsigned key = 0; key < kKeys; ++key) nodes[key].key = key;
  std::set<unsigned> in_first, in_second;
  std::mt19937 random(20260504);
  unsigned crowd = kKeys / 2;
  for (int i = 0; i < kOperations; ++i) {
    if (i % 500'000 == 0) crowd = random() % kKeys;  // grows and shrinks, down to nothing
    const unsigned key = random() % kKeys;
    const bool want = random() % kKeys < crowd;
    const auto apply = [&](auto& tree, std::set<unsigned>& model) {
      if (want && model.insert(key).second) tree.add(&nodes[key]);
      if (!want && model.erase(key) == 1) tree.erase(&nodes[key]);
    };
    if (random() % 2)
      apply(first, in_first);
    else
      apply(second, in_second);
    if (i % 20'000 == 0) {
      ASSERT_TRUE(first.sound() && second.sound()) << "after " << i;
      ASSERT_EQ(first.keys(), std::vector<unsigned>(in_first.begin(), in_first.end()));
      ASSERT_EQ(second.keys(), std::vector<unsigned>(in_second.begin(), in_second.end()));
    }
  }
}

TEST(RedBlackTree, EveryTreeOfAFewNodesSurvivesEveryRemoval) {
  for (unsigned count = 1; count <= 9; ++count) {
    for (unsigned seed = 0; seed < 200; ++seed) {
      for (unsigned victim = 0; victim < count; ++victim) {
        Node nil{};
        Tree<&Node::first> tree{&nil};
        std::vector<Node> nodes(count);
        std::vector<unsigned> order(count);
        for (unsigned i = 0; i < count; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), std::mt19937(seed));
        for (const unsigned key : order) {
          nodes[key].key = key;
          tree.add(&nodes[key]);
        }
        tree.erase(&nodes[victim]);
        ASSERT_TRUE(tree.sound());
        ASSERT_EQ(tree.keys().size(), count - 1);
      }
    }
  }
}

TEST(RedBlackTree, AReplacedNodeLeavesTheOrderAndTheColours) {
  Node nil{};
  Tree<&Node::first> tree{&nil};
  std::vector<Node> nodes(100);
  for (unsigned i = 0; i < nodes.size(); ++i) {
    nodes[i].key = 2 * i;
    tree.add(&nodes[i]);
  }
  for (Node& node : nodes) {
    Node other = node;
    other.key += 1;
    tree.replace(&node, &other);
    ASSERT_TRUE(tree.sound());
    tree.replace(&other, &node);
  }
  EXPECT_EQ(tree.keys().size(), nodes.size());
}

}  // namespace
}  // namespace heapyard::core
