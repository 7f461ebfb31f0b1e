// SPDX-License-Identifier: Apache-2.0
// Reads a table of .eh_frame or .eh_frame_hdr field by field: fixed numbers, LEB128 and encoded pointers.
//
// Source: Linux Standard Base 5.0, table 10.5 (pointer encodings); DWARF 5, section 7.6 (LEB128). Cost: O(bytes read).
// Threads: a reader is one thread's own; it takes no lock and allocates nothing. Errors: beyond the end it reads zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace heapyard::tracer {

// DW_EH_PE_*: the lower half of the byte is the format, three bits of the upper one say what is to be added.
struct PointerEncoding {
  enum : std::uint8_t {
    kAbsolute = 0x00,  // absptr
    kUnsignedLeb = 0x01,
    kUnsigned2 = 0x02,
    kUnsigned4 = 0x03,
    kUnsigned8 = 0x04,
    kSignedLeb = 0x09,
    kSigned2 = 0x0a,
    kSigned4 = 0x0b,
    kSigned8 = 0x0c,
    kFormat = 0x0f,       // the mask of those above
    kFromHere = 0x10,     // pcrel
    kFromData = 0x30,     // datarel
    kApplication = 0x70,  // the mask of the two above
    kOmitted = 0xff,
  };
};

// A place in a table, read field by field.
class TableReader {
 public:
  TableReader(const std::uint8_t* at, const std::uint8_t* end) : at_(at), end_(end) {}

  const std::uint8_t* at() const { return at_; }
  bool more() const { return at_ < end_; }
  void skip(std::uint64_t bytes) { at_ = bytes > static_cast<std::uint64_t>(end_ - at_) ? end_ : at_ + bytes; }

  template <class T>
  T take() {
    T value{};
    if (static_cast<std::size_t>(end_ - at_) < sizeof value) {
      at_ = end_;
      return value;
    }
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  // Most are of one byte.
  std::uint64_t uleb() { return at_ < end_ && *at_ < 0x80 ? *at_++ : long_uleb(); }
  std::int64_t sleb() {
    std::int64_t value = 0;
    unsigned shift = 0;
    std::uint8_t byte = 0;
    while (at_ < end_) {
      byte = *at_++;
      if (shift < 64) value |= static_cast<std::int64_t>(byte & 0x7f) << shift;
      shift += 7;
      if (!(byte & 0x80)) break;
    }
    if (shift < 64 && (byte & 0x40)) value |= static_cast<std::int64_t>(~std::uint64_t{0} << shift);
    return value;
  }
  // A pointer in an encoding of the standard's table 10.5, without indirection. 0 where it is omitted.
  std::uintptr_t pointer(std::uint8_t encoding, std::uintptr_t data_base = 0) {
    if (encoding == PointerEncoding::kOmitted) return 0;
    const auto place = reinterpret_cast<std::uintptr_t>(at_);
    std::uintptr_t value = 0;
    switch (encoding & PointerEncoding::kFormat) {
      case PointerEncoding::kAbsolute:
      case PointerEncoding::kUnsigned8:
      case PointerEncoding::kSigned8:
        value = take<std::uint64_t>();
        break;
      case PointerEncoding::kUnsignedLeb:
        value = uleb();
        break;
      case PointerEncoding::kUnsigned2:
        value = take<std::uint16_t>();
        break;
      case PointerEncoding::kUnsigned4:
        value = take<std::uint32_t>();
        break;
      case PointerEncoding::kSignedLeb:
        value = static_cast<std::uintptr_t>(sleb());
        break;
      case PointerEncoding::kSigned2:
        value = static_cast<std::uintptr_t>(take<std::int16_t>());
        break;
      case PointerEncoding::kSigned4:
        value = static_cast<std::uintptr_t>(take<std::int32_t>());
        break;
      default:
        at_ = end_;
        return 0;
    }
    switch (encoding & PointerEncoding::kApplication) {
      case PointerEncoding::kFromHere:
        return value + place;
      case PointerEncoding::kFromData:
        return value + data_base;
      default:
        return value;
    }
  }

 private:
  [[gnu::noinline]] std::uint64_t long_uleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; at_ < end_; shift += 7) {
      const std::uint8_t byte = *at_++;
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) break;
    }
    return value;
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

}  // namespace heapyard::tracer
