// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/python_runtime.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>

namespace heapyard::tracer {
namespace {

// By the headers of 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0 and 3.14.10 on x86-64.
constexpr PythonLayout kLayouts[] = {
    {8, 24, -1, 24, 32, 104, 0, 104, 112, 40, 0},  {9, 24, -1, 24, 32, 104, 0, 104, 112, 40, 0},
    {10, 24, -1, 24, 32, 96, 0, 104, 112, 40, 0},  {11, 56, 8, 48, 32, 56, 68, 112, 128, 72, 184},
    {12, 56, 0, 8, 0, 56, 70, 112, 128, 68, 192},  {13, 72, -1, 8, 0, 56, 70, 112, 128, 68, 200},
    {14, 72, -1, 8, 0, 56, 74, 112, 128, 68, 208},
};

// Whether it may be there. To look for a function that is not there allocates, and who frees that would be unknown.
bool may_be_loaded(const char* program) {
  const char* const name = std::strrchr(program, '/');
  if (name != nullptr && std::strstr(name, "python") != nullptr) return true;
  const auto is_python = [](dl_phdr_info* info, std::size_t, void*) {
    return static_cast<int>(std::strstr(info->dlpi_name, "/libpython") != nullptr);
  };
  return dl_iterate_phdr(is_python, nullptr) != 0;
}

template <class Function>
bool find_function(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

}  // namespace

void PythonRuntime::find(const char* program) {
  const char* (*version)() = nullptr;
  if (layout_ != nullptr || !may_be_loaded(program) || !find_function(version, "Py_GetVersion")) return;
  const char* const text = version();
  if (std::strncmp(text, "3.", 2) != 0 || std::strstr(text, "free-threading") != nullptr) return;
  const unsigned long minor = std::strtoul(text + 2, nullptr, 10);
  const PythonLayout* found = nullptr;
  for (const PythonLayout& layout : kLayouts) {
    if (layout.minor == minor) found = &layout;
  }
  if (found == nullptr) return;
  void* const evaluation = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
  Dl_info info;
  void* entry = nullptr;
  if (evaluation == nullptr || dladdr1(evaluation, &info, &entry, RTLD_DL_SYMENT) == 0 || entry == nullptr) return;
  evaluation_ = reinterpret_cast<std::uintptr_t>(evaluation);
  evaluation_bytes_ = static_cast<const ElfW(Sym)*>(entry)->st_size;
  code_type_ = reinterpret_cast<std::uintptr_t>(dlsym(RTLD_DEFAULT, "PyCode_Type"));
  if (code_type_ == 0 || !find_function(line_, "PyCode_Addr2Line") || !find_function(length_, "PyUnicode_GetLength") ||
      !find_function(character_, "PyUnicode_ReadChar") || !find_function(own_, "PyGILState_GetThisThreadState") ||
      !find_function(finalizing_, minor >= 13 ? "Py_IsFinalizing" : "_Py_IsFinalizing") ||
      !find_function(running_, minor >= 13 ? "PyThreadState_GetUnchecked" : "_PyThreadState_UncheckedGet"))
    return;
  frames_ = minor <= 10 ? PythonFrames::kOneEach : minor == 11 ? PythonFrames::kMarked : PythonFrames::kShims;
  layout_ = found;
}

const char* PythonRuntime::state() const {
  const void* const running = running_();
  if (running != nullptr && frames_ == PythonFrames::kShims) return static_cast<const char*>(running);
  const void* const own = own_();
  // An interpreter that ends gives the states of other threads back, which those may still think they have.
  return own == running || finalizing_() == 0 ? static_cast<const char*>(own) : nullptr;
}

bool PythonRuntime::is_code(const char* object) const {
  std::uintptr_t type;
  std::memcpy(&type, object + 8, sizeof type);
  return type == code_type_;
}

}  // namespace heapyard::tracer
