// SPDX-License-Identifier: Apache-2.0
// The tracer's reader of .eh_frame_hdr and .eh_frame, on tables that say anything: it must not leave them, nor go on
// for ever.
//
// Input: two bytes, the place of the header and of the address in code (of 16 bytes each), then the object's memory.
#include <cstdlib>
#include <memory>

#include "tracer/events/unwind_table.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heapyard::tracer;
  if (size < 2) return 0;
  const std::size_t bytes = size - 2;
  const auto object = std::make_unique<std::uint8_t[]>(bytes + 1);  // a copy with nothing behind it that is its own
  std::memcpy(object.get(), data + 2, bytes);
  const auto begin = reinterpret_cast<std::uintptr_t>(object.get());
  const ReadableParts parts(begin, begin + bytes, begin);
  const FrameRule rule = UnwindTable::rule_at(begin + data[1] * 16u, begin + data[0] * 16u, parts, false);
  if (rule.kind() == FrameRule::kUnknown) std::abort();
  return 0;
}
