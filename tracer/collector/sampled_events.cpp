// SPDX-License-Identifier: Apache-2.0
#include "tracer/collector/sampled_events.hpp"

#include <algorithm>

namespace heapyard::tracer {

void SampledEvents::give_up_waiting(bool all, std::uint64_t now, Accounts& accounts) {
  if (!late_.any()) return;
  late_.give_up(
      now, all, [&] { unknown_free(); },
      [&](const LateEvents::Allocation& late) {
        ++lost_frees_;
        if (Block* block = live_.find(late.block.address)) {
          accounts.freed(*block, false);
          live_.erase(block);
        }
        live_on(late.block, late.size, accounts);
      });
}

void SampledEvents::thin(unsigned log2_interval, std::uint64_t random, SampleSet& set, Accounts& accounts) {
  thinned_ = true;
  for (const Block& block : live_.all()) {
    const double size = static_cast<double>(block.bytes) / std::max(1.0f, block.blocks);
    const double wanted = blocks_of_sample(static_cast<std::uint64_t>(size + 0.5), log2_interval);
    if (wanted <= block.blocks) continue;
    const double u = static_cast<double>(next_random(random) >> 11) * 0x1p-53;
    const bool stays = u < block.blocks / wanted;
    Block* here = live_.find(block.address);
    accounts.freed(*here, false);
    accounts.frees -= block.blocks;
    if (!stays) {
      set.erase(block.address, block.stamp);
      live_.erase(here);
      continue;
    }
    here->rounding = static_cast<std::uint64_t>(static_cast<double>(block.rounding) * wanted / block.blocks + 0.5);
    here->blocks = static_cast<float>(wanted);
    here->bytes = static_cast<std::uint64_t>(size * wanted + 0.5);
    accounts.allocated(*here, 0, false);
  }
}

}  // namespace heapyard::tracer
