// SPDX-License-Identifier: Apache-2.0
// Why a program hands no memory to the collector: the byte after the token, and after it the program's path.
#pragma once

#include <cstddef>

namespace heapyard::tracer {

inline constexpr std::size_t kProgramPath = 256;  // bytes of it at most
enum class Untraced : char { kNoMemory = 'm' };

}  // namespace heapyard::tracer
