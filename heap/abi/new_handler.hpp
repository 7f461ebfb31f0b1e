// SPDX-License-Identifier: Apache-2.0
// What operator new does when memory is out: the program's new_handler is called until there is some, or it gives up.
//
// The C++ run-time library is the program's own, if it has one: what we need of it are weak symbols, and a C program
// needs none. Cost: as often as the handler comes back.
#pragma once

#include <cstddef>

namespace heapyard::abi {

// A block, or null. `alignment`: 0 for the usual one.
using Allocate = void* (*)(std::size_t bytes, std::size_t alignment);

// A block; std::bad_alloc, or what the handler throws, where there is none.
[[gnu::cold]] void* ask_handler(Allocate allocate, std::size_t bytes, std::size_t alignment);
// The same, with null in place of what is thrown.
[[gnu::cold]] void* ask_handler_nothrow(Allocate allocate, std::size_t bytes, std::size_t alignment) noexcept;

}  // namespace heapyard::abi
