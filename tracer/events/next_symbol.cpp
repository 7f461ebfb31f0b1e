// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/next_symbol.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>

namespace heapyard::tracer {
namespace {

constinit std::atomic<bool> late{false};

// An executable that is not position-independent answers with its own stub for a function whose address it takes.
bool only_a_stub(void* address) {
  Dl_info info;
  void* entry = nullptr;
  return dladdr1(address, &info, &entry, RTLD_DL_SYMENT) != 0 && entry != nullptr &&
         static_cast<const ElfW(Sym)*>(entry)->st_shndx == SHN_UNDEF;
}

// The first object after the executable that defines it itself.
void* beyond_executable(const char* name) {
  link_map* map = nullptr;
  if (dlinfo(dlopen(nullptr, RTLD_LAZY), RTLD_DI_LINKMAP, &map) != 0) return nullptr;
  for (map = map->l_next; map != nullptr; map = map->l_next) {
    void* object = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    void* found = object == nullptr ? nullptr : dlsym(object, name);
    Dl_info info;
    if (found != nullptr && dladdr(found, &info) != 0 &&
        reinterpret_cast<std::uintptr_t>(info.dli_fbase) == map->l_addr)
      return found;
  }
  return nullptr;
}

}  // namespace

bool loaded_late() { return late.load(std::memory_order_relaxed); }

void set_loaded_late() { late.store(true); }

// A library loaded late is last in the search, and out of sight of it (RTLD_LOCAL).
void* next_symbol(const char* name) {
  if (!loaded_late()) return dlsym(RTLD_NEXT, name);
  void* found = dlsym(RTLD_DEFAULT, name);
  return found != nullptr && only_a_stub(found) ? beyond_executable(name) : found;
}

bool defined_by_executable(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  const link_map* object = found == nullptr ? nullptr : object_around(found);
  return object != nullptr && object->l_name[0] == '\0' && !only_a_stub(found);
}

const link_map* object_around(const void* address) {
  dl_find_object object;
  return _dl_find_object(const_cast<void*>(address), &object) == 0 ? object.dlfo_link_map : nullptr;
}

}  // namespace heapyard::tracer
