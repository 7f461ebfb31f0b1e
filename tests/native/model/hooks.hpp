// SPDX-License-Identifier: Apache-2.0
// What stands between code compiled with -fsanitize=thread and the search (checker.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "memory.hpp"

namespace heapyard::model {

// Whether the running thread's accesses count now.
bool sees();
// Whether the address is on the stack of the running thread, which no other looks at.
bool is_own(std::uintptr_t address);
Memory::Result step(const Operation& op);
void plain(std::uintptr_t address, std::size_t bytes, bool writes, std::uintptr_t site);
unsigned running();
unsigned threads();

// file:line of heap/ or of a test, and more if one of them is inlined there.
std::string place_name(std::uintptr_t site);

}  // namespace heapyard::model
