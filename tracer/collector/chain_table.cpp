// SPDX-License-Identifier: Apache-2.0
#include "tracer/collector/chain_table.hpp"

#include "tracer/session/layout.hpp"
#include "tracer/session/owner.hpp"

namespace heapyard::tracer {

void ChainTable::add(std::uint32_t ring, const std::uint64_t* words, Modules& modules, Accounts& accounts) {
  std::vector<std::uint32_t>& nodes = told_[ring];
  const auto count = static_cast<std::uint32_t>(words[0] & 0xffffffff);
  const std::uint64_t end = words[0] >> 32 & 0xffffff, number = words[1] & 0xffffffff, told = words[1] >> 32;
  if (told > nodes.size() || told + count > kFrames) return;  // the program has written over its ring
  nodes.resize(told);
  std::uint32_t node = told == 0 ? CallTree::kRoot : nodes.back();
  if (told == 0 && end != 0)
    node = accounts.tree.child(node, Modules::kNone, end);  // where it hangs, for it has no root
  for (std::uint32_t index = count; index-- > 0;) {
    std::uint64_t offset;
    const std::uint32_t in = modules.locate(words[2 + index] - 1, offset);  // of the call, not of what follows it
    node = accounts.tree.child(node, in, offset);
    nodes.push_back(node);
  }
  if (number >= Owner::kChains || of(number) != kNone) return;
  const auto [found, fresh] = by_node_.try_emplace(node, static_cast<std::uint32_t>(accounts.chains.size()));
  if (fresh) {
    Chain chain{node};
    chain.cut = end != 0;
    cut_ += end == 1;
    accounts.chains.push_back(chain);
  }
  if (number >= by_number_.size()) by_number_.resize(number + 1, kNone);
  by_number_[number] = found->second;
}

}  // namespace heapyard::tracer
