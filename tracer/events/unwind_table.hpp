// SPDX-License-Identifier: Apache-2.0
// Reads one address's row of an ELF object's .eh_frame.
//
// Idea: the C library finds the object without a lock (_dl_find_object, glibc 2.35), its .eh_frame_hdr is a sorted
// table of functions, and a function's instructions are run up to the address. Source: Linux Standard Base 5.0, chapter
// 10 (exception frames); DWARF 5, section 6.4; System V ABI for x86-64, figure 3.36 (register numbers). Cost: O(log
// functions of the object + instructions of the function); allocates nothing, takes no lock. What a table says in forms
// that compilers do not use for callers is kTorn, never a guess.
#pragma once

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstdint>
#include <cstring>

#include "tracer/events/frame_rule.hpp"

namespace heapyard::tracer {

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
  std::uint64_t uleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; at_ < end_; shift += 7) {
      const std::uint8_t byte = *at_++;
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) break;
    }
    return value;
  }
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
    if (shift < 64 && (byte & 0x40)) value |= -(std::int64_t{1} << shift);
    return value;
  }
  // A pointer in the encoding of the standard's table 10.5, without indirection.
  std::uintptr_t pointer(std::uint8_t encoding, std::uintptr_t data_base = 0) {
    if (encoding == 0xff) return 0;
    const auto place = reinterpret_cast<std::uintptr_t>(at_);
    std::uintptr_t value = 0;
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c:
        value = take<std::uint64_t>();
        break;
      case 0x01:
        value = uleb();
        break;
      case 0x02:
        value = take<std::uint16_t>();
        break;
      case 0x03:
        value = take<std::uint32_t>();
        break;
      case 0x09:
        value = static_cast<std::uintptr_t>(sleb());
        break;
      case 0x0a:
        value = static_cast<std::uintptr_t>(take<std::int16_t>());
        break;
      case 0x0b:
        value = static_cast<std::uintptr_t>(take<std::int32_t>());
        break;
      default:
        at_ = end_;
        return 0;
    }
    switch (encoding & 0x70) {
      case 0x10:
        return value + place;
      case 0x30:
        return value + data_base;
      default:
        return value;
    }
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

class UnwindTable {
 public:
  // The rule for code at `pc`, and in `object` what the C library says of the object around it (dlfo_link_map null:
  // none).
  static FrameRule find(std::uintptr_t pc, dl_find_object& object) {
    object.dlfo_link_map = nullptr;
    constexpr FrameRule torn{FrameRule::kTorn, 0, 0};
    if (_dl_find_object(reinterpret_cast<void*>(pc), &object) != 0 || object.dlfo_eh_frame == nullptr) return torn;
    const Function found = function_of(pc, static_cast<const std::uint8_t*>(object.dlfo_eh_frame));
    // What begins right behind code of no function follows no call: who made the stack put it there, as makecontext
    // does.
    const bool made = found.next == pc + 1;
    const FrameRule outside = made || is_loader(object) ? FrameRule{FrameRule::kEnd, 0, 0} : torn;
    return found.fde == nullptr ? outside : row(pc, found.fde, outside);
  }

 private:
  static constexpr unsigned kFp = 6, kSp = 7, kReturn = 16;  // DWARF's numbers on x86-64

  struct Row {
    unsigned cfa_register = kSp;
    std::int64_t cfa_offset = 8;
    bool cfa_stored = false;  // the offset is that of the place where the beginning is stored
    bool cfa_other = false;   // an expression of another form
    bool fp_saved = false, fp_other = false;
    std::int64_t fp_offset = 0;  // from the frame's beginning
    bool return_undefined = false, return_other = false;
  };

  // The dynamic loader's code of no table is its own start, which nobody called.
  static bool is_loader(const dl_find_object& object) {
    return reinterpret_cast<std::uintptr_t>(object.dlfo_map_start) == getauxval(AT_BASE);
  }

  struct Function {
    const std::uint8_t* fde = nullptr;
    std::uintptr_t next = 0;  // where the one after it begins
  };
  // The last function that begins at or below `pc`.
  static Function function_of(std::uintptr_t pc, const std::uint8_t* header) {
    const auto base = reinterpret_cast<std::uintptr_t>(header);
    TableReader in(header, header + 64);
    if (in.take<std::uint8_t>() != 1) return {};
    const auto frame_encoding = in.take<std::uint8_t>(), count_encoding = in.take<std::uint8_t>();
    const auto table_encoding = in.take<std::uint8_t>();
    in.pointer(frame_encoding, base);
    const std::uintptr_t count = in.pointer(count_encoding, base);
    if (table_encoding != 0x3b || count == 0) return {};  // sorted pairs of 32-bit offsets: what every linker writes
    const std::uint8_t* table = in.at();
    const auto begin_of = [&](std::uintptr_t index) {
      std::int32_t offset;
      std::memcpy(&offset, table + index * 8, 4);
      return base + static_cast<std::uintptr_t>(static_cast<std::intptr_t>(offset));
    };
    std::uintptr_t low = 0, high = count;
    while (high - low > 1) {
      const std::uintptr_t middle = low + (high - low) / 2;
      (begin_of(middle) <= pc ? low : high) = middle;
    }
    if (begin_of(low) > pc) return {};
    std::int32_t offset;
    std::memcpy(&offset, table + low * 8 + 4, 4);
    return {header + offset, high < count ? begin_of(high) : 0};
  }

  // `outside`: what holds if the function of `fde` ends before pc.
  static FrameRule row(std::uintptr_t pc, const std::uint8_t* fde, FrameRule outside) {
    constexpr FrameRule torn{FrameRule::kTorn, 0, 0};
    std::uint32_t length, cie_distance;
    std::memcpy(&length, fde, 4);
    if (length == 0 || length == 0xffffffff) return torn;
    std::memcpy(&cie_distance, fde + 4, 4);
    const std::uint8_t* cie = fde + 4 - cie_distance;
    std::uint32_t cie_length;
    std::memcpy(&cie_length, cie, 4);
    TableReader common(cie + 8, cie + 4 + cie_length);
    const auto version = common.take<std::uint8_t>();
    const char* augmentation = reinterpret_cast<const char*>(common.at());
    common.skip(std::strlen(augmentation) + 1);
    const std::uint64_t code_factor = common.uleb();
    const std::int64_t data_factor = common.sleb();
    if (version == 1)
      common.take<std::uint8_t>();
    else
      common.uleb();
    std::uint8_t code_encoding = 0;
    bool signal = false;
    if (*augmentation == 'z') {
      const std::uint64_t bytes = common.uleb();
      const std::uint8_t* instructions = common.at() + bytes;
      for (const char* letter = augmentation + 1; *letter != '\0'; ++letter) {
        switch (*letter) {
          case 'R':
            code_encoding = common.take<std::uint8_t>();
            break;
          case 'P': {
            const auto encoding = common.take<std::uint8_t>();
            common.pointer(encoding);
            break;
          }
          case 'L':
            common.take<std::uint8_t>();
            break;
          case 'S':
            signal = true;
            break;
          default:
            break;
        }
      }
      common.skip(static_cast<std::uint64_t>(instructions - common.at()));
    } else if (*augmentation != '\0') {
      return torn;
    }
    TableReader function(fde + 8, fde + 4 + length);
    const std::uintptr_t begin = function.pointer(code_encoding);
    const std::uintptr_t size = function.pointer(code_encoding & 0x0f);
    if (pc < begin || pc >= begin + size) return outside;
    if (signal) return {FrameRule::kSignal, 0, 0};
    if (*augmentation == 'z') {
      const std::uint64_t bytes = function.uleb();
      function.skip(bytes);
    }
    Row initial;
    if (!execute(common, initial, initial, begin, ~std::uintptr_t{0}, code_factor, data_factor)) return torn;
    Row row = initial;
    if (!execute(function, row, initial, begin, pc, code_factor, data_factor)) return torn;
    return rule_of(row);
  }

  static FrameRule rule_of(const Row& row) {
    constexpr FrameRule torn{FrameRule::kTorn, 0, 0};
    if (row.return_undefined) return {FrameRule::kEnd, 0, 0};
    if (row.cfa_other || row.fp_other || row.return_other) return torn;
    if (row.fp_saved && (row.fp_offset >= 0 || row.fp_offset % 8 != 0)) return torn;
    const FrameRule::Kind kind = row.cfa_stored            ? FrameRule::kStored
                                 : row.cfa_register == kSp ? FrameRule::kStack
                                 : row.cfa_register == kFp ? FrameRule::kPointer
                                                           : FrameRule::kTorn;
    const std::uint64_t fp_slot = row.fp_saved ? static_cast<std::uint64_t>(-row.fp_offset / 8) : 0;
    if (kind == FrameRule::kTorn || !FrameRule::fits(kind, row.cfa_offset, fp_slot)) return torn;
    return {kind, row.cfa_offset, fp_slot};
  }

  // Runs instructions until the location passes pc. False: one of them is not known.
  static bool execute(TableReader in, Row& row, const Row& initial, std::uintptr_t location, std::uintptr_t pc,
                      std::uint64_t code_factor, std::int64_t data_factor) {
    Row remembered[8];
    unsigned depth = 0;
    const auto offset = [&](unsigned number, std::int64_t bytes) {
      if (number == kFp) {
        row.fp_saved = true;
        row.fp_other = false;
        row.fp_offset = bytes;
      } else if (number == kReturn) {
        row.return_undefined = false;
        row.return_other = bytes != -8;
      }
    };
    const auto other = [&](unsigned number) {
      if (number == kFp) row.fp_other = true;
      if (number == kReturn) row.return_other = true;
    };
    const auto restore = [&](unsigned number) {
      if (number == kFp) {
        row.fp_saved = initial.fp_saved;
        row.fp_other = initial.fp_other;
        row.fp_offset = initial.fp_offset;
      } else if (number == kReturn) {
        row.return_undefined = initial.return_undefined;
        row.return_other = initial.return_other;
      }
    };
    while (in.more()) {
      const auto code = in.take<std::uint8_t>();
      const unsigned low = code & 0x3f;
      std::uintptr_t advance = 0;
      switch (code & 0xc0) {
        case 0x40:
          advance = low;
          break;
        case 0x80:
          offset(low, static_cast<std::int64_t>(in.uleb()) * data_factor);
          continue;
        case 0xc0:
          restore(low);
          continue;
        default:
          break;
      }
      if ((code & 0xc0) == 0) {
        switch (code) {
          case 0x00:
            continue;  // nop
          case 0x01:
            location = in.take<std::uint64_t>();
            if (location > pc) return true;
            continue;  // set_loc
          case 0x02:
            advance = in.take<std::uint8_t>();
            break;  // advance_loc1
          case 0x03:
            advance = in.take<std::uint16_t>();
            break;  // advance_loc2
          case 0x04:
            advance = in.take<std::uint32_t>();
            break;  // advance_loc4
          case 0x05: {
            const auto n = static_cast<unsigned>(in.uleb());
            offset(n, static_cast<std::int64_t>(in.uleb()) * data_factor);
            continue;
          }
          case 0x06:
            restore(static_cast<unsigned>(in.uleb()));
            continue;
          case 0x07: {  // undefined
            const auto n = static_cast<unsigned>(in.uleb());
            if (n == kReturn) row.return_undefined = true;
            continue;
          }
          case 0x08: {  // same_value
            const auto n = static_cast<unsigned>(in.uleb());
            if (n == kFp) row.fp_saved = row.fp_other = false;
            continue;
          }
          case 0x09: {
            const auto n = static_cast<unsigned>(in.uleb());
            in.uleb();
            other(n);
            continue;
          }  // register
          case 0x0a:
            if (depth == 8) return false;
            remembered[depth++] = row;
            continue;  // remember_state
          case 0x0b:
            if (depth == 0) return false;
            row = remembered[--depth];
            continue;  // restore_state
          case 0x0c:
            row.cfa_register = static_cast<unsigned>(in.uleb());
            row.cfa_offset = static_cast<std::int64_t>(in.uleb());
            row.cfa_stored = row.cfa_other = false;
            continue;  // def_cfa
          case 0x0d:
            row.cfa_register = static_cast<unsigned>(in.uleb());
            row.cfa_stored = row.cfa_other = false;
            continue;
          case 0x0e:
            row.cfa_offset = static_cast<std::int64_t>(in.uleb());
            continue;   // def_cfa_offset
          case 0x0f: {  // def_cfa_expression
            const std::uint64_t bytes = in.uleb();
            TableReader expression(in.at(), in.at() + bytes);
            in.skip(bytes);
            const bool based = expression.take<std::uint8_t>() == 0x70 + kFp;  // breg6 offset, deref
            row.cfa_offset = expression.sleb();
            row.cfa_stored = based && expression.take<std::uint8_t>() == 0x06 && !expression.more();
            row.cfa_other = !row.cfa_stored;
            continue;
          }
          case 0x10:
          case 0x16: {  // expression, val_expression
            const auto n = static_cast<unsigned>(in.uleb());
            const std::uint64_t bytes = in.uleb();
            const std::uint8_t* at = in.at();
            TableReader expression(at, at + bytes);
            in.skip(bytes);
            // A realigned frame saves FP where FP points to (breg6 0): then the caller's FP is read there.
            if (n == kFp && code == 0x10 && expression.take<std::uint8_t>() == 0x70 + kFp && expression.sleb() == 0 &&
                !expression.more()) {
              row.fp_saved = false;
              row.fp_other = false;
              continue;
            }
            other(n);
            continue;
          }
          case 0x11: {
            const auto n = static_cast<unsigned>(in.uleb());
            offset(n, in.sleb() * data_factor);
            continue;
          }
          case 0x12:
            row.cfa_register = static_cast<unsigned>(in.uleb());
            row.cfa_offset = in.sleb() * data_factor;
            row.cfa_stored = row.cfa_other = false;
            continue;
          case 0x13:
            row.cfa_offset = in.sleb() * data_factor;
            continue;
          case 0x14: {
            const auto n = static_cast<unsigned>(in.uleb());
            in.uleb();
            other(n);
            continue;
          }
          case 0x15: {
            const auto n = static_cast<unsigned>(in.uleb());
            in.sleb();
            other(n);
            continue;
          }
          case 0x2e:
            in.uleb();
            continue;  // GNU_args_size
          case 0x2f: {
            const auto n = static_cast<unsigned>(in.uleb());
            offset(n, -static_cast<std::int64_t>(in.uleb()) * data_factor);
            continue;
          }
          default:
            return false;
        }
      }
      location += advance * code_factor;
      if (location > pc) return true;
    }
    return true;
  }
};

}  // namespace heapyard::tracer
