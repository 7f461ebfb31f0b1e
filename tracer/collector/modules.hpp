// SPDX-License-Identifier: Apache-2.0
// Which file was mapped where, and when: turns addresses into (module, offset), which outlive dlclose.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tracer/collector/bytes.hpp"

namespace heapyard::tracer {

struct Module {
  std::uint64_t begin = 0, end = 0, bias = 0;
  std::string path, build_id;  // hexadecimal
  bool mapped = false;
};

class Modules {
 public:
  // Module 0: code of no file; the offset is the address, or says why frames are missing (ChainEnd, CallTree).
  static constexpr std::uint32_t kNone = 0;

  // What lay there before has gone. The same file at the same place is the same module. False: it is not there, for
  // there is no room for another.
  bool add(Module module, bool room = true) {
    for (Module& other : all_) {
      if (!other.mapped || other.end <= module.begin || module.end <= other.begin) continue;
      if (other.begin == module.begin && other.path == module.path && other.build_id == module.build_id) return true;
      other.mapped = false;
    }
    if (!room) return false;
    module.mapped = true;
    all_.push_back(std::move(module));
    last_ = static_cast<std::uint32_t>(all_.size() - 1);
    return true;
  }

  // O(modules) at worst, usually O(1). `offset` is relative to the file's addresses, as its symbols are.
  std::uint32_t locate(std::uint64_t pc, std::uint64_t& offset) {
    const auto holds = [&](const Module& module) { return module.mapped && pc >= module.begin && pc < module.end; };
    if (!holds(all_[last_])) {
      std::uint32_t index = static_cast<std::uint32_t>(all_.size()) - 1;
      while (index > 0 && !holds(all_[index])) --index;
      if (index == 0) {
        offset = pc;
        return kNone;
      }
      last_ = index;
    }
    offset = pc - all_[last_].bias;
    return last_;
  }

  // Modules from `written` on, for the file.
  void write(Bytes& out, std::size_t written) const {
    for (std::size_t index = written; index < all_.size(); ++index) {
      const Module& module = all_[index];
      out.number(index);
      out.number(module.begin);
      out.number(module.end);
      out.number(module.bias);
      out.text(module.build_id);
      out.text(module.path);
    }
  }
  std::size_t size() const { return all_.size(); }

 private:
  std::vector<Module> all_ = std::vector<Module>(1);
  std::uint32_t last_ = 0;
};

}  // namespace heapyard::tracer
