// SPDX-License-Identifier: Apache-2.0
// Writing JSON without a heap: commas and escapes are kept right, nesting is the caller's.
#pragma once

#include <cmath>
#include <string_view>

#include "text.hpp"

namespace heapyard::kit {

class Json {
 public:
  explicit Json(Text& out) : out_(out) {}

  Json& open(char bracket) {  // '{' or '['
    separate();
    out_ << bracket;
    first_ = true;
    return *this;
  }
  Json& close(char bracket) {
    out_ << bracket;
    first_ = false;
    return *this;
  }
  Json& key(std::string_view name) {
    separate();
    quote(name);
    out_ << ':';
    first_ = true;
    return *this;
  }
  Json& value(std::string_view text) {
    separate();
    quote(text);
    return *this;
  }
  Json& value(const char* text) { return value(std::string_view(text)); }
  Json& value(bool truth) {
    separate();
    out_ << (truth ? "true" : "false");
    return *this;
  }
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Json& value(T number) {
    separate();
    out_ << number;
    return *this;
  }
  Json& value(double number) {  // JSON has no NaN and no infinity
    separate();
    if (std::isfinite(number))
      out_ << number;
    else
      out_ << "null";
    return *this;
  }
  template <class T>
  Json& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

 private:
  void separate() {
    if (!first_) out_ << ',';
    first_ = false;
  }
  void quote(std::string_view text) {
    constexpr char kHex[] = "0123456789abcdef";
    out_ << '"';
    for (const char c : text) {
      if (c == '"' || c == '\\')
        out_ << '\\' << c;
      else if (static_cast<unsigned char>(c) < 0x20)
        out_ << "\\u00" << kHex[c >> 4] << kHex[c & 15];
      else
        out_ << c;
    }
    out_ << '"';
  }

  Text& out_;
  bool first_ = true;
};

}  // namespace heapyard::kit
