// SPDX-License-Identifier: Apache-2.0
// Text as a JSON string; bytes that are no UTF-8 become question marks. O(bytes).
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace heapyard::tracer {

inline std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const unsigned more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc2 ? 1 : 0;
    bool whole = more > 0 && at + more < text.size() && byte < 0xf5;
    for (unsigned index = 1; whole && index <= more; ++index)
      whole = (static_cast<unsigned char>(text[at + index]) & 0xc0) == 0x80;
    if (whole) {
      out += text.substr(at, more + 1);
      at += more;
    } else if (byte >= 0x80) {
      out += '?';
    } else if (byte == '"' || byte == '\\') {
      out += '\\';
      out += static_cast<char>(byte);
    } else if (byte < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      out += escaped;
    } else {
      out += static_cast<char>(byte);
    }
  }
  return out + '"';
}

}  // namespace heapyard::tracer
