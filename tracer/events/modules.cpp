// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/modules.hpp"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "heap/os/pages.hpp"
#include "tracer/events/build_id.hpp"
#include "tracer/events/current_session.hpp"
#include "tracer/events/readable_parts.hpp"
#include "tracer/events/ring_room.hpp"

namespace heapyard::tracer {
namespace {

constexpr std::uint32_t kMost = 512;                      // beyond it they are told again and again
constinit std::atomic<std::uintptr_t> bases[kMost] = {};  // of the objects the collector knows of
constinit std::atomic<std::uint32_t> known{0};

bool is_known(std::uintptr_t begin) {
  const std::uint32_t count = known.load(std::memory_order_acquire);
  for (std::uint32_t index = 0; index < count && index < kMost; ++index) {
    if (bases[index].load(std::memory_order_relaxed) == begin) return true;
  }
  return false;
}

struct Path {
  char text[1024];
  std::size_t length;
};
void read_path(const link_map& map, Path& path) {
  path.length = std::strlen(map.l_name);
  if (path.length == 0) {  // the program itself
    const ssize_t read = readlink("/proc/self/exe", path.text, sizeof path.text);
    path.length = read > 0 ? static_cast<std::size_t>(read) : 0;
  } else {
    path.length = path.length < sizeof path.text ? path.length : sizeof path.text;
    std::memcpy(path.text, map.l_name, path.length);
  }
}

// From the notes of the mapped program headers; empty if it has none, or the file is damaged.
BuildId build_id_of(const dl_find_object& object) {
  BuildId id;
  const ReadableParts parts(object);
  for (unsigned index = 0; index < parts.headers(); ++index) {
    const ElfW(Phdr) part = parts.header(index);
    const std::uintptr_t notes = object.dlfo_link_map->l_addr + part.p_vaddr;
    if (part.p_type == PT_NOTE && parts.holds(notes, part.p_memsz) && find_build_id(notes, part.p_memsz, id)) break;
  }
  return id;
}

}  // namespace

void send_module(ThreadState& self, const dl_find_object& object) {
  const os::KeepErrno keep;
  const auto begin = reinterpret_cast<std::uintptr_t>(object.dlfo_map_start);
  if (is_known(begin)) return;
  Path path;
  read_path(*object.dlfo_link_map, path);
  const BuildId id = build_id_of(object);
  const std::size_t words = 4 + sizeof id.bytes / 8 + (path.length + 7) / 8;
  std::uint64_t* at = room(self, words);
  if (at == nullptr) return;  // told again with the next address of it
  at[0] = first_word(Kind::kModule, path.length);
  at[1] = begin;
  at[2] = reinterpret_cast<std::uintptr_t>(object.dlfo_map_end);
  at[3] = object.dlfo_link_map->l_addr;
  std::memcpy(at + 4, id.bytes, sizeof id.bytes);
  at[words - 1] = 0;
  std::memcpy(at + 7, path.text, path.length);
  self.ring.publish(words);
  shared().modules_sent.fetch_add(1, std::memory_order_release);
  const std::uint32_t place = known.fetch_add(1, std::memory_order_acq_rel);
  if (place < kMost) bases[place].store(begin, std::memory_order_relaxed);
}

void tell_modules_anew() {
  known.store(0);
  generation.fetch_add(1);
}

void forget_modules() {
  if (current.connection.load() != Connection::kConnected) return;
  rules.forget();
  tell_modules_anew();
  shared().activity.begin_anew();
}

}  // namespace heapyard::tracer
