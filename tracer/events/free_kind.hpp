// SPDX-License-Identifier: Apache-2.0
// Why a block is given back.
#pragma once

namespace heapyard::tracer {

enum class FreeKind {
  kFree,
  kMove,  // by a realloc, which may yet fail
};

}  // namespace heapyard::tracer
