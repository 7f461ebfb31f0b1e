// SPDX-License-Identifier: Apache-2.0
#include "tracer/injector/unsafe_places.hpp"

#include <algorithm>

namespace heapyard::injector {
namespace {

// Of malloc.c in the C library, whose other functions lie between and beside these; of a malloc in a program too.
constexpr const char* kOfMalloc[] = {"malloc",       "free",          "calloc",      "realloc",
                                     "memalign",     "aligned_alloc", "malloc_trim", "malloc_info",
                                     "malloc_stats", "mallopt",       "mallinfo2",   "posix_memalign"};
constexpr std::uint64_t kAround = 16 << 10;

// In the C library: whoever is in one of these may hold a lock of the dynamic linker, of the list of thread stacks, of
// malloc or of what runs at fork and exit. posix_spawn and its like share the memory with a child for a while.
constexpr const char* kLocking[] = {
    "fork",
    "_Fork",
    "vfork",
    "__libc_fork",
    "posix_spawn",
    "posix_spawnp",
    "system",
    "popen",
    "pclose",
    "wordexp",
    "daemon",
    "forkpty",
    "clone",
    "dlopen",
    "dlmopen",
    "dlclose",
    "dlsym",
    "dlvsym",
    "dladdr",
    "dladdr1",
    "dlinfo",
    "dlerror",
    "dl_iterate_phdr",
    "pthread_create",
    "pthread_exit",
    "pthread_detach",
    "pthread_tryjoin_np",
    "pthread_cancel",
    "pthread_getattr_np",
    "pthread_key_create",
    "pthread_key_delete",
    "__register_atfork",
    "pthread_atfork",
    "thrd_create",
    "thrd_exit",
    "setuid",
    "setgid",
    "seteuid",
    "setegid",
    "setreuid",
    "setregid",
    "setresuid",
    "setresgid",
    "setgroups",
    "initgroups",
    "exit",
    "_exit",
    "quick_exit",
    "atexit",
    "at_quick_exit",
    "on_exit",
    "__cxa_atexit",
    "__cxa_at_quick_exit",
    "__cxa_finalize",
    "__cxa_thread_atexit_impl",
    "abort",
    "setlocale",
    "newlocale",
    "duplocale",
    "freelocale",
    "textdomain",
    "bindtextdomain",
    "bind_textdomain_codeset",
};

const char* why_in_library(const LoadedObject& object, const std::string& program) {
  if (object.is_dynamic_linker()) return "in the dynamic linker";
  if (!object.is_c_library() && object.path != program && object.function("malloc") != nullptr) return "allocating";
  return nullptr;
}

}  // namespace

UnsafePlaces::UnsafePlaces(const std::vector<LoadedObject>& objects, const std::string& program) {
  for (const LoadedObject& object : objects) {
    if (object.is_c_library() || object.is_dynamic_linker())
      system_.insert(system_.end(), object.text.begin(), object.text.end());
    if (const char* why = why_in_library(object, program)) {
      for (const Range& range : object.text) unsafe_.push_back({range, why});
      continue;
    }
    if (!object.is_c_library() && object.path != program) continue;
    for (const char* name : kOfMalloc)
      if (const Range* at = object.function(name))
        unsafe_.push_back({{at->begin - kAround, at->begin + kAround}, "allocating"});
    if (!object.is_c_library()) continue;
    for (const char* name : kLocking)
      if (const Range* at = object.function(name)) unsafe_.push_back({*at, "creating or ending threads or processes"});
  }
}

const char* UnsafePlaces::why_unsafe(const CallChain& chain) const {
  bool outside = false, last_outside = false;  // of the C library and the dynamic linker
  for (const std::uint64_t frame : chain.frames) {
    for (const Place& place : unsafe_)
      if (place.range.holds(frame)) return place.why;
    last_outside = std::none_of(system_.begin(), system_.end(), [&](const Range& r) { return r.holds(frame); });
    outside = outside || last_outside;
  }
  if (!outside) return "beginning or ending";
  return chain.whole || last_outside ? nullptr : "where its callers cannot be told";
}

}  // namespace heapyard::injector
