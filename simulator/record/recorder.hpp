// SPDX-License-Identifier: Apache-2.0
// Writes what a simulation found as one JSON object; simulator/FORMAT.md defines it. O(threads + shared lines).
#pragma once

#include "base/json.hpp"
#include "mappings.hpp"
#include "simulator/engine/engine.hpp"

namespace heapyard::simulator {

class Recorder {
 public:
  explicit Recorder(const Engine& engine);

  // False: the file cannot be written, errno says why.
  bool write(const char* path);

 private:
  static constexpr std::size_t kMostLines = 50;

  double seconds(Ticks time) const;
  void machine(Json& json) const;
  void counts(Json& json, const Counts& counts) const;
  void threads(Json& json) const;
  void lines(Json& json) const;
  void line(Json& json, const SharedLine& line) const;
  void owner(Json& json, std::uint64_t address) const;
  void place(Json& json, std::uint64_t address) const;
  void warnings(Json& json) const;

  const Engine& engine_;
  Mappings mappings_;
};

}  // namespace heapyard::simulator
