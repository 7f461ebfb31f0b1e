// SPDX-License-Identifier: Apache-2.0
// Building text without a heap: a buffer in a mapping of its own that doubles when it is full. For tables, JSON and
// help. A caller that may be short of address space lends the first buffer. Cost: amortised O(bytes).
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/fatal.hpp"
#include "base/mapping.hpp"

namespace heapyard {

// "1 thread", "2 threads".
struct Counted {
  std::int64_t number;
  std::string_view noun;
};

class Text {
 public:
  Text() = default;
  // What fits into `lent`, which must outlive this, needs no mapping.
  explicit Text(std::span<char> lent) : data_(lent.data()), capacity_(lent.size()), mapped_(false) {}
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  ~Text() {
    if (data_ && mapped_) munmap(data_, capacity_);
  }

  Text& operator<<(std::string_view piece) {
    room(piece.size());
    if (!piece.empty()) std::memcpy(data_ + size_, piece.data(), piece.size());
    size_ += piece.size();
    return *this;
  }
  Text& operator<<(const char* piece) { return *this << std::string_view(piece); }
  Text& operator<<(char piece) { return *this << std::string_view(&piece, 1); }

  template <std::integral T>
    requires(!std::same_as<T, char> && !std::same_as<T, bool>)
  Text& operator<<(T number) {
    return append([&](char* first, char* last) { return std::to_chars(first, last, number); });
  }
  Text& operator<<(const Counted& counted) {
    *this << counted.number << ' ' << counted.noun;
    return counted.number == 1 ? *this : *this << 's';
  }
  // Shortest text that reads back as the same double.
  Text& operator<<(double number) {
    return append([&](char* first, char* last) { return std::to_chars(first, last, number); });
  }
  Text& fixed(double number, int decimals) {
    return append([&](char* first, char* last) {
      return std::to_chars(first, last, number, std::chars_format::fixed, decimals);
    });
  }
  Text& pad_to(std::size_t column) {  // spaces up to `column` of the current line
    while (size_ - line_start() < column) *this << ' ';
    return *this;
  }

  std::string_view view() const { return {data_, size_}; }

  // All of it to a file descriptor; false when the descriptor does not take it (disk full, closed pipe).
  bool write_to(int descriptor) const {
    std::string_view rest = view();
    while (!rest.empty()) {
      const ssize_t written = write(descriptor, rest.data(), rest.size());
      if (written <= 0) return false;
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }

 private:
  template <class Convert>
  Text& append(Convert convert) {
    room(400);  // longest fixed double: 309 digits and the decimals
    size_ = static_cast<std::size_t>(convert(data_ + size_, data_ + capacity_).ptr - data_);
    return *this;
  }
  std::size_t line_start() const {
    const std::size_t newline = view().rfind('\n');
    return newline == std::string_view::npos ? 0 : newline + 1;
  }
  void room(std::size_t more) {
    if (size_ + more <= capacity_) return;
    std::size_t wanted = capacity_ ? capacity_ * 2 : 1 << 16;
    while (wanted < size_ + more) wanted *= 2;
    void* const grown = data_ && mapped_ ? mremap(data_, capacity_, wanted, MREMAP_MAYMOVE) : map_private(wanted);
    if (grown == nullptr || grown == MAP_FAILED) fatal(kExitMachine, "no memory to write the result");
    if (!mapped_) std::memcpy(grown, data_, size_);
    mapped_ = true;
    data_ = static_cast<char*>(grown);
    capacity_ = wanted;
  }

  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  bool mapped_ = true;
};

// The text as a file, or to standard output for "-". False after a sentence on standard error.
inline bool write_file(const char* path, const Text& text) {
  if (std::string_view(path) == "-") return text.write_to(STDOUT_FILENO);
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const bool written = file >= 0 && text.write_to(file) && close(file) == 0;
  if (!written) complain("cannot write ", std::string_view(path), ": ", std::string_view(strerrordesc_np(errno)));
  return written;
}

}  // namespace heapyard
