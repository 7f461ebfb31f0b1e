// SPDX-License-Identifier: Apache-2.0
// Runs the call frame instructions of one function up to an address: how its frame is undone there.
//
// Source: DWARF 5, section 6.4.2. Only the frame's beginning (the canonical frame address), the frame pointer and the
// return address are followed. Cost: O(instructions). Threads: one thread's own; no lock, no allocation. Errors: an
// instruction that is not known, or states nested too deeply: run() is false.
#pragma once

#include <cstdint>

#include "tracer/events/call_frame_opcodes.hpp"
#include "tracer/events/table_reader.hpp"

namespace heapyard::tracer {

// A row of the table that the instructions make: what holds at one address.
struct FrameRow {
  unsigned cfa_register = DwarfRegister::kSp;
  std::int64_t cfa_offset = 8;
  bool cfa_stored = false;  // the offset is that of the place where the beginning is stored
  bool cfa_other = false;   // an expression of another form
  bool fp_saved = false, fp_other = false;
  std::int64_t fp_offset = 0;  // from the frame's beginning
  bool return_undefined = false, return_other = false;
};

class CallFrameProgram {
 public:
  // The factors: of the common entry, by which advances and offsets are multiplied.
  CallFrameProgram(std::uint64_t code_factor, std::int64_t data_factor)
      : code_factor_(code_factor), data_factor_(data_factor) {}

  // Changes `row` by the instructions of `in` from `begin` on, until the location passes `pc`. `initial`: what is
  // restored; it may be `row` itself, while the common entry's instructions make it. False: one is not known.
  [[gnu::noinline]] bool run(TableReader in, FrameRow& row, const FrameRow& initial, std::uintptr_t begin,
                             std::uintptr_t pc) {
    in_ = in;
    row_ = &row;
    initial_ = &initial;
    location_ = begin;
    depth_ = 0;
    while (in_.more()) {
      if (!execute(in_.take<std::uint8_t>())) return false;
      if (location_ > pc) return true;
    }
    return true;
  }

 private:
  using Op = CallFrameOpcode;

  [[gnu::always_inline]] inline bool execute(std::uint8_t code) {
    const unsigned operand = code & 0x3f;
    switch (code & Op::kPrimary) {
      case Op::kAdvanceLoc:
        return advance(operand);
      case Op::kOffset:
        return offset(operand, unsigned_offset());
      case Op::kRestore:
        return restore(operand);
      default:
        return execute_extended(code);
    }
  }

  [[gnu::always_inline]] inline bool execute_extended(std::uint8_t code) {
    switch (code) {
      case Op::kNop:
        return true;
      case Op::kSetLoc:
        return set_location();
      case Op::kAdvanceLoc1:
        return advance(in_.take<std::uint8_t>());
      case Op::kAdvanceLoc2:
        return advance(in_.take<std::uint16_t>());
      case Op::kAdvanceLoc4:
        return advance(in_.take<std::uint32_t>());
      case Op::kOffsetExtended:
        return offset_extended();
      case Op::kRestoreExtended:
        return restore(number());
      case Op::kUndefined:
        return undefined();
      case Op::kSameValue:
        return same_value();
      case Op::kRegister:
        return in_register();
      case Op::kRememberState:
        return remember_state();
      case Op::kRestoreState:
        return restore_state();
      case Op::kDefCfa:
        return define_cfa();
      case Op::kDefCfaRegister:
        return define_cfa_register();
      case Op::kDefCfaOffset:
        return define_cfa_offset(static_cast<std::int64_t>(in_.uleb()));
      case Op::kDefCfaExpression:
        return define_cfa_expression();
      case Op::kExpression:
        return at_expression();
      case Op::kOffsetExtendedSf:
        return offset_extended_signed();
      case Op::kDefCfaSf:
        return define_cfa_signed();
      case Op::kDefCfaOffsetSf:
        return define_cfa_offset(signed_offset());
      case Op::kValOffset:
        return is_offset();
      case Op::kValOffsetSf:
        return is_offset_signed();
      case Op::kValExpression:
        return is_expression();
      case Op::kGnuArgsSize:
        return arguments_size();
      case Op::kGnuNegativeOffsetExtended:
        return negative_offset_extended();
      default:
        return false;
    }
  }

  // Operands.
  unsigned number() { return static_cast<unsigned>(in_.uleb()); }
  std::int64_t unsigned_offset() { return scaled(in_.uleb()); }
  std::int64_t signed_offset() { return scaled(static_cast<std::uint64_t>(in_.sleb())); }
  // Without a sign while it may overflow: what a damaged table says is as large as it likes.
  std::int64_t scaled(std::uint64_t number) const {
    return static_cast<std::int64_t>(number * static_cast<std::uint64_t>(data_factor_));
  }
  [[gnu::noinline]] TableReader block() {
    const std::uint64_t bytes = in_.uleb();
    const std::uint8_t* at = in_.at();
    in_.skip(bytes);
    return {at, in_.at()};
  }

  // Where rows begin.
  bool advance(std::uint64_t by) {
    location_ += by * code_factor_;
    return true;
  }
  bool set_location() {
    location_ = in_.take<std::uint64_t>();
    return true;
  }

  // Where the frame begins.
  bool define_cfa() {
    define_cfa_register();
    return define_cfa_offset(static_cast<std::int64_t>(in_.uleb()));
  }
  bool define_cfa_signed() {
    define_cfa_register();
    return define_cfa_offset(signed_offset());
  }
  bool define_cfa_register() {
    row_->cfa_register = number();
    row_->cfa_stored = row_->cfa_other = false;
    return true;
  }
  bool define_cfa_offset(std::int64_t bytes) {
    row_->cfa_offset = bytes;
    return true;
  }
  // Of a function that realigns its stack: FP + offset, dereferenced.
  bool define_cfa_expression() {
    TableReader expression = block();
    const bool by_fp = expression.take<std::uint8_t>() == ExpressionOpcode::kBregFp;
    row_->cfa_offset = expression.sleb();
    row_->cfa_stored = by_fp && expression.take<std::uint8_t>() == ExpressionOpcode::kDeref && !expression.more();
    row_->cfa_other = !row_->cfa_stored;
    return true;
  }

  // Where the caller's registers are.
  bool offset(unsigned register_number, std::int64_t bytes) {
    if (register_number == DwarfRegister::kFp) {
      row_->fp_saved = true;
      row_->fp_other = false;
      row_->fp_offset = bytes;
    } else if (register_number == DwarfRegister::kReturn) {
      row_->return_undefined = false;
      row_->return_other = bytes != -8;
    }
    return true;
  }
  bool offset_extended() {
    const unsigned register_number = number();
    return offset(register_number, unsigned_offset());
  }
  bool offset_extended_signed() {
    const unsigned register_number = number();
    return offset(register_number, signed_offset());
  }
  bool negative_offset_extended() {
    const unsigned register_number = number();
    return offset(register_number, scaled(-in_.uleb()));
  }
  bool restore(unsigned register_number) {
    if (register_number == DwarfRegister::kFp) {
      row_->fp_saved = initial_->fp_saved;
      row_->fp_other = initial_->fp_other;
      row_->fp_offset = initial_->fp_offset;
    } else if (register_number == DwarfRegister::kReturn) {
      row_->return_undefined = initial_->return_undefined;
      row_->return_other = initial_->return_other;
    }
    return true;
  }
  bool undefined() {
    if (number() == DwarfRegister::kReturn) row_->return_undefined = true;
    return true;
  }
  bool same_value() {
    if (number() == DwarfRegister::kFp) row_->fp_saved = row_->fp_other = false;
    return true;
  }
  bool in_register() {
    const unsigned register_number = number();
    in_.uleb();
    return other(register_number);
  }
  bool is_offset() {
    const unsigned register_number = number();
    in_.uleb();
    return other(register_number);
  }
  bool is_offset_signed() {
    const unsigned register_number = number();
    in_.sleb();
    return other(register_number);
  }
  bool is_expression() {
    const unsigned register_number = number();
    block();
    return other(register_number);
  }
  // A realigned frame saves FP where FP points to (breg6 0): then the caller's FP is read there.
  bool at_expression() {
    const unsigned register_number = number();
    TableReader expression = block();
    if (register_number != DwarfRegister::kFp || expression.take<std::uint8_t>() != ExpressionOpcode::kBregFp ||
        expression.sleb() != 0 || expression.more())
      return other(register_number);
    row_->fp_saved = row_->fp_other = false;
    return true;
  }
  // In a form that is not followed.
  bool other(unsigned register_number) {
    if (register_number == DwarfRegister::kFp) row_->fp_other = true;
    if (register_number == DwarfRegister::kReturn) row_->return_other = true;
    return true;
  }

  // The stack of rows.
  bool remember_state() {
    if (depth_ == kMostStates) return false;
    states_[depth_++] = *row_;
    return true;
  }
  bool restore_state() {
    if (depth_ == 0) return false;
    *row_ = states_[--depth_];
    return true;
  }

  // Of the arguments pushed, which a caller's frame does not depend on.
  bool arguments_size() {
    in_.uleb();
    return true;
  }

  static constexpr unsigned kMostStates = 8;

  const std::uint64_t code_factor_;
  const std::int64_t data_factor_;
  TableReader in_{nullptr, nullptr};
  FrameRow* row_ = nullptr;
  const FrameRow* initial_ = nullptr;
  std::uintptr_t location_ = 0;
  unsigned depth_ = 0;
  FrameRow states_[kMostStates];
};

}  // namespace heapyard::tracer
