// SPDX-License-Identifier: Apache-2.0
// Ending with one sentence on standard error; writes with write(2), so it works without any heap.
#pragma once

#include <unistd.h>

#include <charconv>
#include <concepts>
#include <cstdlib>
#include <string_view>

namespace heapyard {

// Exit codes: 1 the machine could not do it, 2 bad options, 4 an allocation failed.
inline constexpr int kExitMachine = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNoMemory = 4;

inline const char* program_name = "heapyard";  // set once by main

namespace detail {
inline void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}
template <std::integral T>
void put(T number) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number);
  put(std::string_view(digits, static_cast<std::size_t>(end.ptr - digits)));
}
}  // namespace detail

// One line on standard error: "<program>: <parts>".
template <class... Parts>
void complain(const Parts&... parts) {
  detail::put(std::string_view(program_name));
  detail::put(": ");
  (detail::put(parts), ...);
  detail::put("\n");
}

template <class... Parts>
[[noreturn]] void fatal(int exit_code, const Parts&... parts) {
  complain(parts...);
  _exit(exit_code);
}

}  // namespace heapyard
