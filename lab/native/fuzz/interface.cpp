// SPDX-License-Identifier: Apache-2.0
#include "interface.hpp"

#include <dlfcn.h>
#include <malloc.h>

#include <cstring>

namespace heapyard::fuzz {
namespace {

struct mallinfo2 (*library_mallinfo2)() = nullptr;

const char* file_of(void* address) {
  Dl_info info{};
  return address != nullptr && dladdr(address, &info) != 0 ? info.dli_fname : "";
}

template <class Function>
void find_own(Function*& function, const char* name, const char* library) {
  void* const address = dlsym(RTLD_DEFAULT, name);
  if (std::strcmp(file_of(address), library) == 0) function = reinterpret_cast<Function*>(address);
}

}  // namespace

Interface Interface::find() {
  Interface own;
  const char* const library = file_of(dlsym(RTLD_DEFAULT, "malloc"));
  find_own(own.aligned_alloc, "aligned_alloc", library);
  find_own(own.posix_memalign, "posix_memalign", library);
  find_own(own.memalign, "memalign", library);
  find_own(own.valloc, "valloc", library);
  find_own(own.pvalloc, "pvalloc", library);
  find_own(own.reallocarray, "reallocarray", library);
  find_own(own.usable_size, "malloc_usable_size", library);
  find_own(own.free_sized, "free_sized", library);
  find_own(own.free_aligned_sized, "free_aligned_sized", library);
  find_own(own.trim, "malloc_trim", library);
  find_own(library_mallinfo2, "mallinfo2", library);
  own.news = std::strcmp(file_of(dlsym(RTLD_DEFAULT, "_ZnwmSt11align_val_t")), library) == 0;
  if (library_mallinfo2 != nullptr) own.ask = [] { library_mallinfo2(); };
  return own;
}

}  // namespace heapyard::fuzz
