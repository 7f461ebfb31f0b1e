// SPDX-License-Identifier: Apache-2.0
// Finds the rule of one address of code in its ELF object's .eh_frame.
//
// Idea: the C library finds the object without a lock (_dl_find_object, glibc 2.35), its .eh_frame_hdr is a sorted
// table of functions, and a function's instructions are run up to the address (call_frame_program.hpp). Source: Linux
// Standard Base 5.0, chapter 10 (exception frames); DWARF 5, section 6.4. Cost: O(log functions of the object +
// instructions of the function). Threads: any, also in signal handlers; allocates nothing, takes no lock. Errors: what
// a table says in forms that compilers do not use for callers is kTorn, never a guess; so is what points out of the
// object, as in a damaged file.
#pragma once

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstdint>
#include <cstring>

#include "tracer/events/call_frame_program.hpp"
#include "tracer/events/frame_rule.hpp"
#include "tracer/events/readable_parts.hpp"
#include "tracer/events/table_reader.hpp"

namespace heapyard::tracer {

class UnwindTable {
 public:
  // The rule for code at `pc`, and in `object` what the C library says of the object around it (dlfo_link_map null:
  // none).
  static FrameRule find(std::uintptr_t pc, dl_find_object& object) {
    object.dlfo_link_map = nullptr;
    if (_dl_find_object(reinterpret_cast<void*>(pc), &object) != 0 || object.dlfo_eh_frame == nullptr) return kTorn;
    const ReadableParts parts(object);
    return rule_at(pc, reinterpret_cast<std::uintptr_t>(object.dlfo_eh_frame), parts, is_loader(object));
  }

  // The same by the sorted table at `header` of an object that is the dynamic loader, or is not.
  static FrameRule rule_at(std::uintptr_t pc, std::uintptr_t header, const ReadableParts& parts, bool loader) {
    const Function found = function_of(pc, header, parts);
    // What begins right behind code of no function follows no call: who made the stack put it there, as makecontext
    // does.
    const bool made = found.next == pc + 1;
    const FrameRule outside = made || loader ? FrameRule{FrameRule::kEnd, 0, 0} : kTorn;
    return found.fde == 0 ? outside : rule_in(pc, found.fde, parts, outside);
  }

 private:
  static constexpr FrameRule kTorn{FrameRule::kTorn, 0, 0};
  static constexpr std::uint64_t kLeastEntry = 16;    // bytes of an entry with anything in it
  static constexpr std::int64_t kFarthest = 1 << 20;  // bytes below its frame's beginning that a register is saved
  // Pairs of 32-bit offsets from the header.
  static constexpr std::uint8_t kSortedPairs = PointerEncoding::kFromData | PointerEncoding::kSigned4;

  static const std::uint8_t* at(std::uintptr_t place) { return reinterpret_cast<const std::uint8_t*>(place); }

  // The dynamic loader's code of no table is its own start, which nobody called.
  static bool is_loader(const dl_find_object& object) {
    return reinterpret_cast<std::uintptr_t>(object.dlfo_map_start) == getauxval(AT_BASE);
  }

  struct Function {
    std::uintptr_t fde = 0;
    std::uintptr_t next = 0;  // where the one after it begins
  };
  // The last function that begins at or below `pc`.
  static Function function_of(std::uintptr_t pc, std::uintptr_t base, const ReadableParts& parts) {
    const std::uintptr_t end = parts.end_from(base);
    TableReader in(at(base), at(end));
    if (in.take<std::uint8_t>() != 1) return {};
    const auto frame_encoding = in.take<std::uint8_t>(), count_encoding = in.take<std::uint8_t>();
    const auto table_encoding = in.take<std::uint8_t>();
    in.pointer(frame_encoding, base);
    const std::uintptr_t count = in.pointer(count_encoding, base);
    const std::uint8_t* table = in.at();
    // What every linker writes.
    if (table_encoding != kSortedPairs || count == 0 || count > static_cast<std::uintptr_t>(at(end) - table) / 8)
      return {};
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
    return {base + static_cast<std::uintptr_t>(static_cast<std::intptr_t>(offset)), high < count ? begin_of(high) : 0};
  }

  // What functions have in common (CIE).
  struct CommonEntry {
    std::uint64_t code_factor;
    std::int64_t data_factor;
    TableReader instructions;
    std::uint8_t code_encoding = PointerEncoding::kAbsolute;
    bool signal = false;     // frames of signals
    bool augmented = false;  // the length of what is added is told in each function's entry
    bool known = false;      // else in a form that is not read
  };
  // `in`: what follows its length.
  static CommonEntry common_entry(TableReader in) {
    in.take<std::uint32_t>();  // that it is one
    const auto version = in.take<std::uint8_t>();
    const char* augmentation = reinterpret_cast<const char*>(in.at());
    while (in.more() && in.take<std::uint8_t>() != 0) {
    }
    if (in.at()[-1] != 0) return {1, 0, in};  // it does not end
    const std::uint64_t code_factor = in.uleb();
    CommonEntry entry{code_factor, in.sleb(), in};
    if (version == 1)  // the register of the return address
      in.take<std::uint8_t>();
    else
      in.uleb();
    entry.augmented = *augmentation == 'z';
    entry.known = entry.augmented || *augmentation == '\0';
    if (entry.augmented) {
      const std::uint64_t bytes = in.uleb();
      TableReader added = in;
      for (const char* letter = augmentation + 1; *letter != '\0'; ++letter) augment(entry, *letter, added);
      in.skip(bytes);
    }
    entry.instructions = in;
    return entry;
  }
  // One letter of the augmentation, and what belongs to it.
  static void augment(CommonEntry& entry, char letter, TableReader& in) {
    switch (letter) {
      case 'R':  // how functions' addresses are encoded
        entry.code_encoding = in.take<std::uint8_t>();
        break;
      case 'P': {  // the personality routine
        const auto encoding = in.take<std::uint8_t>();
        in.pointer(encoding);
        break;
      }
      case 'L':  // how language-specific data is encoded
        in.take<std::uint8_t>();
        break;
      case 'S':
        entry.signal = true;
        break;
      default:
        break;
    }
  }

  // What follows the length of an entry; nothing where that leads out of the object, or stands for another form.
  static TableReader entry_at(std::uintptr_t entry, const ReadableParts& parts) {
    const TableReader nothing(nullptr, nullptr);
    const std::uint64_t there = parts.end_from(entry) - entry;
    if (there < kLeastEntry) return nothing;
    std::uint32_t length;
    std::memcpy(&length, at(entry), sizeof length);
    if (length < kLeastEntry - 4 || length > there - 4) return nothing;
    return {at(entry) + 4, at(entry) + 4 + length};
  }

  // By a function's entry (FDE). `outside`: what holds if it ends before pc.
  static FrameRule rule_in(std::uintptr_t pc, std::uintptr_t fde, const ReadableParts& parts, FrameRule outside) {
    TableReader function = entry_at(fde, parts);
    if (!function.more()) return kTorn;
    TableReader shared = entry_at(fde + 4 - function.take<std::uint32_t>(), parts);
    if (!shared.more()) return kTorn;
    const CommonEntry common = common_entry(shared);
    if (!common.known) return kTorn;
    const std::uintptr_t begin = function.pointer(common.code_encoding);
    const std::uintptr_t size = function.pointer(common.code_encoding & PointerEncoding::kFormat);
    if (pc < begin || pc >= begin + size) return outside;
    if (common.signal) return {FrameRule::kSignal, 0, 0};
    if (common.augmented) {
      const std::uint64_t bytes = function.uleb();
      function.skip(bytes);
    }
    CallFrameProgram program(common.code_factor, common.data_factor);
    FrameRow initial;
    if (!program.run(common.instructions, initial, initial, begin, ~std::uintptr_t{0})) return kTorn;
    FrameRow row = initial;
    if (!program.run(function, row, initial, begin, pc)) return kTorn;
    return rule_of(row);
  }

  static FrameRule rule_of(const FrameRow& row) {
    if (row.return_undefined) return {FrameRule::kEnd, 0, 0};
    if (row.cfa_other || row.fp_other || row.return_other) return kTorn;
    if (row.fp_saved && (row.fp_offset >= 0 || row.fp_offset < -kFarthest || row.fp_offset % 8 != 0)) return kTorn;
    const FrameRule::Kind kind = row.cfa_stored                           ? FrameRule::kStored
                                 : row.cfa_register == DwarfRegister::kSp ? FrameRule::kStack
                                 : row.cfa_register == DwarfRegister::kFp ? FrameRule::kPointer
                                                                          : FrameRule::kTorn;
    const std::uint64_t fp_slot = row.fp_saved ? static_cast<std::uint64_t>(-row.fp_offset / 8) : 0;
    if (kind == FrameRule::kTorn || !FrameRule::fits(kind, row.cfa_offset, fp_slot)) return kTorn;
    return {kind, row.cfa_offset, fp_slot};
  }
};

}  // namespace heapyard::tracer
