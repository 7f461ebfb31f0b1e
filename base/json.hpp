// SPDX-License-Identifier: Apache-2.0
// Writing JSON without a heap: commas and escapes are kept right, nesting is the caller's. Bytes that are no UTF-8
// become question marks, for names of files may be anything. Cost: O(bytes).
#pragma once

#include <cmath>
#include <string_view>

#include "base/text.hpp"

namespace heapyard {

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
    for (std::size_t at = 0; at < text.size(); ++at) {
      const auto byte = static_cast<unsigned char>(text[at]);
      if (byte >= 0x80) {
        const std::size_t more = following(text.substr(at));
        out_ << (more == 0 ? "?" : text.substr(at, more + 1));
        at += more;
      } else if (byte == '"' || byte == '\\') {
        out_ << '\\' << text[at];
      } else if (byte < 0x20) {
        out_ << "\\u00" << kHex[byte >> 4] << kHex[byte & 15];
      } else {
        out_ << text[at];
      }
    }
    out_ << '"';
  }

  // Bytes that belong to the first one in UTF-8; 0: they do not.
  static std::size_t following(std::string_view text) {
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t more = first >= 0xf5 ? 0 : first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : 0;
    for (std::size_t index = 1; index <= more; ++index) {
      if (index >= text.size() || (static_cast<unsigned char>(text[index]) & 0xc0) != 0x80) return 0;
    }
    return more;
  }

  Text& out_;
  bool first_ = true;
};

}  // namespace heapyard
