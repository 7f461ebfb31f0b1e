// SPDX-License-Identifier: Apache-2.0
// The numbers that DWARF's call frame instructions are written in: opcodes, expressions, registers of x86-64.
//
// Source: DWARF 5, sections 7.24 (call frame instructions) and 7.7.1 (expressions); Linux Standard Base 5.0, section
// 10.5 (instructions of GNU); System V ABI for x86-64, figure 3.36 (registers).
#pragma once

#include <cstdint>

namespace heapyard::tracer {

// DWARF's numbers of x86-64's registers.
struct DwarfRegister {
  static constexpr unsigned kFp = 6, kSp = 7, kReturn = 16;
};

// DW_CFA_*. Those of kPrimary have an operand in their lower six bits.
struct CallFrameOpcode {
  enum : std::uint8_t {
    kPrimary = 0xc0,  // the mask of the three below
    kAdvanceLoc = 0x40,
    kOffset = 0x80,
    kRestore = 0xc0,

    kNop = 0x00,
    kSetLoc = 0x01,
    kAdvanceLoc1 = 0x02,
    kAdvanceLoc2 = 0x03,
    kAdvanceLoc4 = 0x04,
    kOffsetExtended = 0x05,
    kRestoreExtended = 0x06,
    kUndefined = 0x07,
    kSameValue = 0x08,
    kRegister = 0x09,
    kRememberState = 0x0a,
    kRestoreState = 0x0b,
    kDefCfa = 0x0c,
    kDefCfaRegister = 0x0d,
    kDefCfaOffset = 0x0e,
    kDefCfaExpression = 0x0f,
    kExpression = 0x10,
    kOffsetExtendedSf = 0x11,
    kDefCfaSf = 0x12,
    kDefCfaOffsetSf = 0x13,
    kValOffset = 0x14,
    kValOffsetSf = 0x15,
    kValExpression = 0x16,
    kGnuArgsSize = 0x2e,
    kGnuNegativeOffsetExtended = 0x2f,
  };
};

// DW_OP_*, as far as compilers use them for frames.
struct ExpressionOpcode {
  enum : std::uint8_t {
    kDeref = 0x06,
    kBregFp = 0x70 + DwarfRegister::kFp,  // breg6: FP + the offset that follows
  };
};

}  // namespace heapyard::tracer
