// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/python_frames.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "heap/os/pages.hpp"
#include "tracer/events/current_session.hpp"
#include "tracer/events/python_runtime.hpp"
#include "tracer/events/readable.hpp"
#include "tracer/events/ring_room.hpp"
#include "tracer/events/script_places.hpp"

namespace heapyard::tracer {
namespace {

constinit ScriptPlaces places;
constinit std::atomic<unsigned> to_probe{256};  // so many reads of structures are tried first
constinit std::atomic<bool> misread{false};

template <class Value>
Value field(const char* object, std::size_t offset) {
  Value value;
  std::memcpy(&value, object + offset, sizeof value);
  return value;
}
const char* pointer(const char* object, std::size_t offset) { return field<const char*>(object, offset); }

// An object by a reference, in whose lowest bits 3.14 keeps marks; objects lie at multiples of eight.
const char* untagged(const char* reference) { return reference - (reinterpret_cast<std::uintptr_t>(reference) & 7); }

// Whether eight bytes there may be read. Asked at first only: what is where it was expected will be there again.
bool may_read(const char* object, std::size_t offset) {
  if (to_probe.load(std::memory_order_relaxed) == 0) return true;
  const os::KeepErrno keep;
  return object != nullptr && readable(reinterpret_cast<std::uintptr_t>(object) + offset);
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0xd6e8feb86659fd93u;
  return hash ^ hash >> 32;
}

// What tells one function from another: strings that were freed may lie where others were, with another hash.
std::uint64_t identity(const char* code) {
  constexpr std::size_t kLength = 16, kHash = 24;  // of a string, in all versions
  const PythonLayout& at = python.layout();
  const char* const name = pointer(code, at.name);
  const char* const filename = pointer(code, at.filename);
  std::uint64_t hash = mixed(reinterpret_cast<std::uintptr_t>(name), field<std::uint64_t>(name, kHash));
  hash = mixed(hash, reinterpret_cast<std::uintptr_t>(filename) ^ field<std::uint64_t>(filename, kLength) << 48);
  return mixed(hash, field<std::uint32_t>(code, at.first_line));
}

// As UTF-8, at most `most` bytes.
std::size_t write_text(const char* string, char* out, std::size_t most) {
  const std::ptrdiff_t length = python.length(string);
  std::size_t size = 0;
  for (std::ptrdiff_t index = 0; index < length && size + 4 <= most; ++index) {
    const std::uint32_t character = python.character(string, index);
    if (character < 0x80) {
      out[size++] = static_cast<char>(character);
      continue;
    }
    const unsigned more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    constexpr unsigned kLead[] = {0, 0xc0, 0xe0, 0xf0};
    out[size++] = static_cast<char>(kLead[more] | character >> 6 * more);
    for (unsigned rest = more; rest-- > 0;) out[size++] = static_cast<char>(0x80 | (character >> 6 * rest & 0x3f));
  }
  return size;
}

// False: there was no room.
bool tell_place(ThreadState& self, std::uint32_t number, const char* code, int line) {
  constexpr std::size_t kMostName = 256, kMostFile = 768;
  char text[kMostName + 1 + kMostFile];
  const PythonLayout& at = python.layout();
  std::size_t size = write_text(pointer(code, at.name), text, kMostName);
  text[size++] = '\0';
  size += write_text(pointer(code, at.filename), text + size, kMostFile);
  const std::size_t words = 2 + (size + 7) / 8;
  std::uint64_t* const record = room(self, words);
  if (record == nullptr) return false;
  record[words - 1] = 0;
  record[0] = first_word(Kind::kScript, size);
  record[1] = static_cast<std::uint64_t>(number) << 32 | static_cast<std::uint32_t>(line);
  std::memcpy(record + 2, text, size);
  self.ring.publish(words);
  return true;
}

int line_of(const char* code, int offset) {
  const int line = offset < 0 ? -1 : python.line(code, offset);
  return line > 0 ? line : field<int>(code, python.layout().first_line);
}

// The number of a place, of which the collector knows; 0 if there was no room for it. `offset`: of its instruction, in
// bytes.
std::uint32_t place_of(ThreadState& self, const char* code, int offset) {
  const std::uint64_t function = identity(code);
  const auto session = self.session + 1;
  ScriptPlaces::Place* const instruction =
      places.at(mixed(function, reinterpret_cast<std::uintptr_t>(code) ^ static_cast<std::uint64_t>(offset) << 48) | 1);
  if (instruction == nullptr) return 0;
  const std::uint32_t known = instruction->place.load(std::memory_order_relaxed);
  if (known != 0 && instruction->session.load(std::memory_order_relaxed) == session) return known;
  const int line = line_of(code, offset);
  ScriptPlaces::Place* const place =
      places.at((mixed(function, static_cast<std::uint64_t>(line)) & ~std::uint64_t{1}) | 2);
  if (place == nullptr) return 0;
  const std::uint32_t number = places.number_of(place);
  if (place->session.load(std::memory_order_relaxed) != session) {
    if (!tell_place(self, number, code, line)) return 0;
    place->session.store(session, std::memory_order_relaxed);
  }
  instruction->place.store(number, std::memory_order_relaxed);
  instruction->session.store(session, std::memory_order_relaxed);
  return number;
}

// Of a frame's instruction from the function's first, in bytes.
int offset_of(const char* frame, const char* code) {
  const PythonLayout& at = python.layout();
  if (python.frames() == PythonFrames::kOneEach) return field<int>(frame, at.instruction) * (at.minor == 10 ? 2 : 1);
  return static_cast<int>(pointer(frame, at.instruction) - (code + at.instructions));
}

}  // namespace

bool prepare_python(const char* program) {
  python.find(program);
  return python && places.prepare();
}

unsigned python_frames(ThreadState& self, std::uint64_t* words, unsigned most, bool& cut) {
  constexpr char kShim = 3;  // the owner of a frame that is no function's, at least
  if (!python || misread.load(std::memory_order_relaxed)) return 0;
  const char* const state = python.state();
  if (state == nullptr) return 0;
  const PythonLayout& at = python.layout();
  const char* frame = may_read(state, at.thread_frame) ? pointer(state, at.thread_frame) : nullptr;
  if (frame != nullptr && at.frame_in_that >= 0) {
    const auto further = static_cast<std::size_t>(at.frame_in_that);
    frame = may_read(frame, further) ? pointer(frame, further) : nullptr;
  }
  unsigned count = 0;
  while (frame != nullptr && count + 2 <= most) {
    if (!may_read(frame, at.code) || !may_read(frame, at.previous) || !may_read(frame, at.instruction)) {
      misread.store(true);
      return 0;
    }
    const bool shim = python.frames() == PythonFrames::kShims && field<char>(frame, at.entry) >= kShim;
    if (!shim) {
      const char* const code = untagged(pointer(frame, at.code));
      if (!may_read(code, at.instructions) || !may_read(code, at.name) || !python.is_code(code)) {
        misread.store(true);
        return 0;
      }
      words[count++] = kScript + place_of(self, code, offset_of(frame, code)) + 1;
    }
    if (shim || python.frames() == PythonFrames::kOneEach ||
        (python.frames() == PythonFrames::kMarked && field<char>(frame, at.entry) != 0))
      words[count++] = 0;
    frame = pointer(frame, at.previous);
    const unsigned left = to_probe.load(std::memory_order_relaxed);
    if (left > 0) to_probe.store(left - 1, std::memory_order_relaxed);
  }
  cut = frame != nullptr;
  return count;
}

}  // namespace heapyard::tracer
