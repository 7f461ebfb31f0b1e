// SPDX-License-Identifier: Apache-2.0
// JSON into a buffer of the caller's, as snprintf writes: what finds no room is counted only.
#pragma once

#include <cstddef>
#include <cstdio>

namespace heapyard::abi {

class JsonText {
 public:
  JsonText(char* text, std::size_t room) : text_(text), room_(room) {
    if (room_ != 0) *text_ = '\0';
  }

  // `name`: null within a list.
  void open(const char* name, char bracket) {
    put(name, "%c", bracket);
    first_ = true;
  }
  void close(char bracket) {
    first_ = true;
    put(nullptr, "%c", bracket);
  }
  void number(const char* name, std::size_t value) { put(name, "%zu", value); }
  void word(const char* name, const char* value) { put(name, "\"%s\"", value); }
  void null(const char* name) { put(name, "%s", "null"); }

  // Of the whole text, without the null byte at its end.
  std::size_t length() const { return length_; }

 private:
  template <class Value>
  [[gnu::noinline]] void put(const char* name, const char* format, Value value) {
    if (!first_) print("%s", ", ");
    if (name != nullptr) print("\"%s\": ", name);
    print(format, value);
    first_ = false;
  }
  template <class Value>
  [[gnu::noinline]] void print(const char* format, Value value) {
    const std::size_t room = length_ < room_ ? room_ - length_ : 0;
    const int more = std::snprintf(room == 0 ? nullptr : text_ + length_, room, format, value);
    if (more > 0) length_ += static_cast<std::size_t>(more);
  }

  char* const text_;
  const std::size_t room_;
  std::size_t length_ = 0;
  bool first_ = true;
};

}  // namespace heapyard::abi
