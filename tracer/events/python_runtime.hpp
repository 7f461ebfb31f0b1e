// SPDX-License-Identifier: Apache-2.0
// The CPython in this process, if there is one: its functions, and where its structures keep what is read here.
//
// Idea: what CPython has an exported function for is asked of it, as long as that neither allocates nor takes a lock.
// Frames and code objects are read in place, which is what memray and py-spy do too: their layout is the same in all
// releases of a minor version. Of a layout that is not known nothing is read. Cost: a few look-ups of symbols once.
// Threads: found by the one that connects; read by any.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapyard::tracer {

// Offsets in bytes.
struct PythonLayout {
  unsigned minor;                                          // of 3.minor
  std::uint16_t thread_frame;                              // in the state of a thread: its frame; or what has it
  std::int16_t frame_in_that;                              // and where in that; -1: it is the frame itself
  std::uint16_t previous, code;                            // in a frame
  std::uint16_t instruction, entry;                        // where it is; what says that its caller is not Python's
  std::uint16_t filename, name, first_line, instructions;  // in a code object; the last of them where code begins
};

// Which of the ways frames follow each other.
enum class PythonFrames : std::uint8_t {
  kOneEach,  // 3.8 to 3.10: each frame has an evaluation of its own; the instruction is a number
  kMarked,   // 3.11: the first frame of an evaluation is marked
  kShims,    // from 3.12 on: a frame that is no function's lies below it
};

class PythonRuntime {
 public:
  // Looks for it among what is loaded. `program`: the path of what runs. O(loaded objects).
  void find(const char* program);
  explicit operator bool() const { return layout_ != nullptr; }

  // The state of this thread, whether it may run Python code now or is in a call that lets others; null if it has none.
  // O(1).
  const char* state() const;
  // Whether an address lies in the function that evaluates frames.
  bool evaluates(std::uintptr_t pc) const { return pc - evaluation_ < evaluation_bytes_; }

  const PythonLayout& layout() const { return *layout_; }
  PythonFrames frames() const { return frames_; }
  // Whether it is a code object. O(1).
  bool is_code(const char* object) const;
  // The line of an instruction, by its distance from the first in bytes. O(instructions).
  int line(const char* code, int offset) const { return line_(code, offset); }
  // A string's length and characters; both need no memory.
  std::ptrdiff_t length(const char* string) const { return length_(string); }
  std::uint32_t character(const char* string, std::ptrdiff_t at) const { return character_(string, at); }

 private:
  const PythonLayout* layout_ = nullptr;
  PythonFrames frames_ = PythonFrames::kOneEach;
  std::uintptr_t evaluation_ = 0, evaluation_bytes_ = 0, code_type_ = 0;
  void* (*running_)() = nullptr;  // the state of the thread that may run; from 3.12 on of this thread while it may
  void* (*own_)() = nullptr;      // of this thread, in the main interpreter
  int (*finalizing_)() = nullptr;
  int (*line_)(const char*, int) = nullptr;
  std::ptrdiff_t (*length_)(const char*) = nullptr;
  std::uint32_t (*character_)(const char*, std::ptrdiff_t) = nullptr;
};

inline constinit PythonRuntime python;

}  // namespace heapyard::tracer
