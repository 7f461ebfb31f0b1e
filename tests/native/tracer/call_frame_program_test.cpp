// SPDX-License-Identifier: Apache-2.0
// What each of DWARF's call frame instructions does to a row, by the standard's own words (DWARF 5, section 6.4.2).
#include "tracer/events/call_frame_program.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using heapyard::tracer::CallFrameProgram;
using heapyard::tracer::FrameRow;
using heapyard::tracer::TableReader;
using Op = heapyard::tracer::CallFrameOpcode;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint8_t kFp = 6, kSp = 7, kOther = 3, kReturn = 16, kBregFp = 0x76, kDeref = 0x06;
constexpr std::uintptr_t kBegin = 0x1000, kEnd = 0x2000;

bool run(const Bytes& code, FrameRow& row, std::uintptr_t pc = kEnd, const FrameRow& initial = {}) {
  return CallFrameProgram(1, -8).run({code.data(), code.data() + code.size()}, row, initial, kBegin, pc);
}
FrameRow after(const Bytes& code, std::uintptr_t pc = kEnd, FrameRow row = {}) {
  EXPECT_TRUE(run(code, row, pc));
  return row;
}
FrameRow saved_at(std::int64_t offset) {
  FrameRow row;
  row.fp_saved = true;
  row.fp_offset = offset;
  return row;
}

TEST(CallFrameProgram, SaysWhereTheFrameBegins) {
  FrameRow row = after({Op::kDefCfa, kFp, 16});
  EXPECT_EQ(row.cfa_register, kFp);
  EXPECT_EQ(row.cfa_offset, 16);
  row = after({Op::kDefCfa, kFp, 16, Op::kDefCfaRegister, kSp});
  EXPECT_EQ(row.cfa_register, kSp);
  EXPECT_EQ(row.cfa_offset, 16);
  row = after({Op::kDefCfa, kFp, 16, Op::kDefCfaOffset, 0x80, 0x01});
  EXPECT_EQ(row.cfa_register, kFp);
  EXPECT_EQ(row.cfa_offset, 128);
  EXPECT_EQ(after({Op::kDefCfaSf, kFp, 0x7d}).cfa_offset, 24);  // -3 * -8
  EXPECT_EQ(after({Op::kDefCfaOffsetSf, 0x7e}).cfa_offset, 16);
}

TEST(CallFrameProgram, KnowsOneFormOfExpressionOfWhereTheFrameBegins) {
  FrameRow row = after({Op::kDefCfaExpression, 3, kBregFp, 0x78, kDeref});
  EXPECT_TRUE(row.cfa_stored);
  EXPECT_FALSE(row.cfa_other);
  EXPECT_EQ(row.cfa_offset, -8);
  for (const Bytes& code :
       {Bytes{Op::kDefCfaExpression, 2, kBregFp, 0x78}, Bytes{Op::kDefCfaExpression, 3, kBregFp + 1, 0x78, kDeref},
        Bytes{Op::kDefCfaExpression, 4, kBregFp, 0x78, kDeref, kDeref}}) {
    row = after(code);
    EXPECT_FALSE(row.cfa_stored);
    EXPECT_TRUE(row.cfa_other);
    Bytes again = code;
    again.insert(again.end(), {Op::kDefCfa, kSp, 8});
    EXPECT_FALSE(after(again).cfa_other);
  }
}

TEST(CallFrameProgram, TakesRowsUpToTheAddress) {
  for (const Bytes& advance : {Bytes{Op::kAdvanceLoc | 4}, Bytes{Op::kAdvanceLoc1, 4}, Bytes{Op::kAdvanceLoc2, 4, 0},
                               Bytes{Op::kAdvanceLoc4, 4, 0, 0, 0}, Bytes{Op::kSetLoc, 4, 0x10, 0, 0, 0, 0, 0, 0}}) {
    Bytes code = advance;
    code.insert(code.end(), {Op::kNop, Op::kDefCfaOffset, 32});
    EXPECT_EQ(after(code, kBegin + 3).cfa_offset, 8);
    EXPECT_EQ(after(code, kBegin + 4).cfa_offset, 32);
  }
}

TEST(CallFrameProgram, SaysWhereTheFramePointerIsSaved) {
  for (const Bytes& code : {Bytes{Op::kOffset | kFp, 2}, Bytes{Op::kOffsetExtended, kFp, 2},
                            Bytes{Op::kOffsetExtendedSf, kFp, 2}, Bytes{Op::kRegister, kFp, 1, Op::kOffset | kFp, 2}}) {
    const FrameRow row = after(code);
    EXPECT_TRUE(row.fp_saved);
    EXPECT_FALSE(row.fp_other);
    EXPECT_EQ(row.fp_offset, -16);
  }
  EXPECT_EQ(after({Op::kGnuNegativeOffsetExtended, kFp, 2}).fp_offset, 16);
  EXPECT_FALSE(after({Op::kOffset | kOther, 2}).fp_saved);
  EXPECT_FALSE(after({Op::kSameValue, kFp}, kEnd, saved_at(-16)).fp_saved);
  EXPECT_TRUE(after({Op::kSameValue, kOther}, kEnd, saved_at(-16)).fp_saved);
  // Where FP points to: it is read there anyway.
  EXPECT_FALSE(after({Op::kExpression, kFp, 2, kBregFp, 0}, kEnd, saved_at(-16)).fp_saved);
}

TEST(CallFrameProgram, SaysWhereTheReturnAddressIs) {
  EXPECT_FALSE(after({Op::kOffset | kReturn, 1}).return_other);
  EXPECT_TRUE(after({Op::kOffset | kReturn, 2}).return_other);
  EXPECT_TRUE(after({Op::kUndefined, kReturn}).return_undefined);
  EXPECT_FALSE(after({Op::kUndefined, kOther}).return_undefined);
  EXPECT_FALSE(after({Op::kUndefined, kReturn, Op::kOffset | kReturn, 1}).return_undefined);
}

TEST(CallFrameProgram, TellsWhatItDoesNotFollow) {
  for (const Bytes& form : {Bytes{Op::kRegister, 0, 1}, Bytes{Op::kValOffset, 0, 1}, Bytes{Op::kValOffsetSf, 0, 0x7f},
                            Bytes{Op::kExpression, 0, 2, kBregFp, 8}, Bytes{Op::kValExpression, 0, 2, kBregFp, 0}}) {
    for (const std::uint8_t number : {kFp, kReturn, kOther}) {
      Bytes code = form;
      code[1] = number;
      code.insert(code.end(), {Op::kDefCfaOffset, 32});  // its operands are read to their end
      const FrameRow row = after(code);
      EXPECT_EQ(row.fp_other, number == kFp);
      EXPECT_EQ(row.return_other, number == kReturn);
      EXPECT_EQ(row.cfa_offset, 32);
    }
  }
  EXPECT_EQ(after({Op::kGnuArgsSize, 0x80, 0x01, Op::kDefCfaOffset, 32}).cfa_offset, 32);
}

TEST(CallFrameProgram, RestoresWhatWas) {
  EXPECT_EQ(after({Op::kRememberState, Op::kDefCfaOffset, 32, Op::kRestoreState}).cfa_offset, 8);
  const FrameRow initial = saved_at(-24);
  for (const Bytes& restore : {Bytes{Op::kRestore | kFp}, Bytes{Op::kRestoreExtended, kFp}}) {
    Bytes code{Op::kOffset | kFp, 2};
    code.insert(code.end(), restore.begin(), restore.end());
    FrameRow row;
    ASSERT_TRUE(run(code, row, kEnd, initial));
    EXPECT_EQ(row.fp_offset, -24);
  }
  FrameRow row;
  ASSERT_TRUE(run({Op::kUndefined, kReturn, Op::kRestoreExtended, kReturn}, row));
  EXPECT_FALSE(row.return_undefined);
}

TEST(CallFrameProgram, RefusesWhatIsNotKnown) {
  FrameRow row;
  EXPECT_FALSE(run({0x3f}, row));
  EXPECT_FALSE(run({Op::kRestoreState}, row));
  EXPECT_TRUE(run(Bytes(8, Op::kRememberState), row));
  EXPECT_FALSE(run(Bytes(9, Op::kRememberState), row));
}

}  // namespace
