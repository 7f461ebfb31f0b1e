// SPDX-License-Identifier: Apache-2.0
// What net building keeps on the heap: ten kinds of objects of 16 to 64 bytes, one of most kinds per rectangle.
//
// Their number and sizes are those the BFM report gives for its application (section 3.2): about ten pairs of new
// and delete per rectangle, ten types, 16 to 64 bytes with 64-bit pointers. Every object knows the rectangle it
// belongs to, so that it has the same name under every allocator.
#pragma once

#include <cstdint>

namespace heapyard::netbuild {

enum class Kind : std::uint8_t { kShape, kElement, kNet, kMember, kCursor, kStop, kNode, kEndpoint, kProbe, kHit };
inline constexpr std::uint64_t kKinds = 10;

struct Net;
struct Member;
struct Element;

// A rectangle as it is read, in the list of its layer. Open: rectangles that touch do not overlap.
struct Shape {
  std::int32_t x1, y1, x2, y2;
  std::uint32_t index, layer;
  Shape* next;
  Element* element;
  Member* member;
};

// Union-find.
struct Element {
  Element* parent;
  Net* net;  // of a root
  Shape* shape;
  std::uint32_t rank;
  std::uint32_t index;
};

// A net: its members, in the ring of all nets.
struct Net {
  Net* next;
  Net* prev;
  Member* first;
  Member* last;
  std::uint32_t size;
  std::uint32_t index;
};

struct Member {
  Member* next;
  Shape* shape;
  std::uint64_t index;
};

// The next rectangle of a layer's stream, in the queue that merges the streams.
struct Cursor {
  std::int64_t key;
  Cursor* child;
  Cursor* sibling;
  Shape* shape;
};

struct Node;

// When an active rectangle ends.
struct Stop {
  std::int64_t key;
  Stop* child;
  Stop* sibling;
  Node* node;
};

// A rectangle's geometry, copied next to the tree that searches it.
struct Endpoint {
  std::int32_t x1, y1, x2, y2;
  Node* node;
  std::uint64_t index;
};

// Of a layer's interval tree over y: a treap, each node with the largest end below it.
struct Node {
  Node* left;
  Node* right;
  Endpoint* endpoint;
  std::uint64_t priority;
  std::int32_t y1, y2, most, layer;
  std::uint64_t index;
  Element* element;
};

// The rectangle a search is for.
struct Probe {
  std::int32_t y1, y2, first_layer, last_layer;
  std::uint64_t index;
  std::uint64_t hits;
};

// A search's result.
struct Hit {
  Hit* next;
  Element* element;
};

static_assert(sizeof(Shape) == 48 && sizeof(Element) == 32 && sizeof(Net) == 40 && sizeof(Member) == 24);
static_assert(sizeof(Cursor) == 32 && sizeof(Stop) == 32 && sizeof(Node) == 64 && sizeof(Endpoint) == 32);
static_assert(sizeof(Probe) == 32 && sizeof(Hit) == 16);

}  // namespace heapyard::netbuild
