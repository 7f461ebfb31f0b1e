// SPDX-License-Identifier: Apache-2.0
// Whether a sanitizer watches, under which all takes many times as long.
#pragma once

namespace heapyard::test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace heapyard::test
