// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/redirect.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tracer/events/next_symbol.hpp"
#include "tracer/session/layout.hpp"

namespace heapyard::tracer {
namespace {

// Those of C++ only where the allocator brings its own: elsewhere they call malloc.
constexpr const char* kNames[] = {"malloc",
                                  "free",
                                  "calloc",
                                  "realloc",
                                  "reallocarray",
                                  "memalign",
                                  "aligned_alloc",
                                  "posix_memalign",
                                  "valloc",
                                  "pvalloc",
                                  "malloc_usable_size",
                                  "free_sized",
                                  "free_aligned_sized",
                                  "dlclose",
                                  "mmap",
                                  "mmap64",
                                  "munmap",
                                  "mremap",
                                  "sbrk",
                                  "brk",
                                  "shmat",
                                  "shmdt",
                                  "_Znwm",
                                  "_Znam",
                                  "_ZnwmRKSt9nothrow_t",
                                  "_ZnamRKSt9nothrow_t",
                                  "_ZnwmSt11align_val_t",
                                  "_ZnamSt11align_val_t",
                                  "_ZnwmSt11align_val_tRKSt9nothrow_t",
                                  "_ZnamSt11align_val_tRKSt9nothrow_t",
                                  "_ZdlPv",
                                  "_ZdaPv",
                                  "_ZdlPvRKSt9nothrow_t",
                                  "_ZdaPvRKSt9nothrow_t",
                                  "_ZdlPvm",
                                  "_ZdaPvm",
                                  "_ZdlPvSt11align_val_t",
                                  "_ZdaPvSt11align_val_t",
                                  "_ZdlPvmSt11align_val_t",
                                  "_ZdaPvmSt11align_val_t",
                                  "_ZdlPvSt11align_val_tRKSt9nothrow_t",
                                  "_ZdaPvSt11align_val_tRKSt9nothrow_t"};
constexpr std::size_t kCount = sizeof kNames / sizeof *kNames;

struct Pair {
  std::uintptr_t real, ours;  // 0: not there, or not to be led here
};
constinit Pair pairs[kCount] = {};
constinit std::uintptr_t own_base = 0;
constinit std::atomic<bool> led_here{false}, busy{false};
constinit std::atomic<std::uint64_t> looked{0};  // stamp
constinit std::atomic<unsigned long long> objects_ever{0};

// One at a time; whoever comes second has nothing to do.
class Turn {
 public:
  Turn() : mine_(!busy.exchange(true, std::memory_order_acquire)) {}
  ~Turn() {
    if (mine_) busy.store(false, std::memory_order_release);
  }
  explicit operator bool() const { return mine_; }

 private:
  const bool mine_;
};

std::uintptr_t base_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 ? reinterpret_cast<std::uintptr_t>(info.dli_fbase) : 0;
}

const Pair* pair_of(const char* name) {
  for (std::size_t index = 0; index < kCount; ++index) {
    if (std::strcmp(name, kNames[index]) == 0) return pairs[index].ours != 0 ? &pairs[index] : nullptr;
  }
  return nullptr;
}

// One loaded object as far as its relocations go.
class Object {
 public:
  explicit Object(const dl_phdr_info& info) : base_(info.dlpi_addr) {
    const ElfW(Dyn)* dynamic = nullptr;
    for (unsigned index = 0; index < info.dlpi_phnum; ++index) {
      const ElfW(Phdr) & part = info.dlpi_phdr[index];
      const std::uintptr_t begin = base_ + part.p_vaddr;
      if (part.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
      if (part.p_type == PT_GNU_RELRO) {
        sealed_ = begin & ~(kPage - 1);
        sealed_end_ = (begin + part.p_memsz) & ~(kPage - 1);
      }
      if (part.p_type == PT_LOAD) {
        begin_ = begin < begin_ ? begin : begin_;
        end_ = begin + part.p_memsz > end_ ? begin + part.p_memsz : end_;
      }
    }
    for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
      const std::uintptr_t value = dynamic->d_un.d_val;
      switch (dynamic->d_tag) {
        case DT_SYMTAB:
          symbols_ = reinterpret_cast<const ElfW(Sym)*>(moved(value));
          break;
        case DT_STRTAB:
          names_ = reinterpret_cast<const char*>(moved(value));
          break;
        case DT_JMPREL:
          tables_[0].begin = moved(value);
          break;
        case DT_PLTRELSZ:
          tables_[0].bytes = value;
          break;
        case DT_RELA:
          tables_[1].begin = moved(value);
          break;
        case DT_RELASZ:
          tables_[1].bytes = value;
          break;
        default:
          break;
      }
    }
  }

  bool is_at(std::uintptr_t base) const { return begin_ == base; }

  // Words that lead to `from` of a pair lead to the other one after it.
  void lead(std::uintptr_t Pair::* from, std::uintptr_t Pair::* to) const {
    if (symbols_ == nullptr || names_ == nullptr) return;
    bool open = false;
    for (const Table& table : tables_) {
      const auto* entries = reinterpret_cast<const ElfW(Rela)*>(table.begin);
      if (entries == nullptr) continue;
      for (std::size_t index = 0; index < table.bytes / sizeof *entries; ++index) {
        const ElfW(Rela) & entry = entries[index];
        const auto kind = ELF64_R_TYPE(entry.r_info);
        if (kind != R_X86_64_JUMP_SLOT && kind != R_X86_64_GLOB_DAT && !(kind == R_X86_64_64 && entry.r_addend == 0))
          continue;
        const ElfW(Sym) & symbol = symbols_[ELF64_R_SYM(entry.r_info)];
        if (symbol.st_name == 0) continue;
        const Pair* pair = pair_of(names_ + symbol.st_name);
        if (pair == nullptr) continue;
        auto* word = reinterpret_cast<std::uintptr_t*>(base_ + entry.r_offset);
        const std::uintptr_t value = __atomic_load_n(word, __ATOMIC_RELAXED);
        const bool waits = kind == R_X86_64_JUMP_SLOT && inside(value) &&
                           (symbol.st_shndx == SHN_UNDEF || inside(pair->real));  // for its first call
        if (value != pair->*from && !waits) continue;
        if (is_sealed(word) && !open) {
          if (mprotect(reinterpret_cast<void*>(sealed_), sealed_end_ - sealed_, PROT_READ | PROT_WRITE) != 0) return;
          open = true;
        }
        __atomic_store_n(word, pair->*to, __ATOMIC_RELEASE);
      }
    }
    if (open) mprotect(reinterpret_cast<void*>(sealed_), sealed_end_ - sealed_, PROT_READ);
  }

 private:
  struct Table {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
  };
  // The dynamic linker has added the base already, but in what it may not write to.
  std::uintptr_t moved(std::uintptr_t value) const { return value < base_ ? value + base_ : value; }
  bool inside(std::uintptr_t address) const { return address >= begin_ && address < end_; }
  bool is_sealed(const void* word) const {
    const auto address = reinterpret_cast<std::uintptr_t>(word);
    return address >= sealed_ && address < sealed_end_;
  }

  std::uintptr_t base_, begin_ = ~std::uintptr_t{0}, end_ = 0, sealed_ = 0, sealed_end_ = 0;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* names_ = nullptr;
  Table tables_[2];
};

template <bool Back>
int lead_object(dl_phdr_info* info, std::size_t, void*) {
  const Object object(*info);
  objects_ever.store(info->dlpi_adds, std::memory_order_relaxed);
  if (object.is_at(own_base)) return 0;
  if (Back)
    object.lead(&Pair::ours, &Pair::real);
  else
    object.lead(&Pair::real, &Pair::ours);
  return 0;
}

int count_objects(dl_phdr_info* info, std::size_t, void* changed) {
  *static_cast<bool*>(changed) = info->dlpi_adds != objects_ever.load(std::memory_order_relaxed);
  return 1;
}

}  // namespace

bool redirect_calls() {
  const Turn turn;
  if (!turn || !loaded_late()) return false;
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&redirect_calls), &self) == 0) return false;
  own_base = reinterpret_cast<std::uintptr_t>(self.dli_fbase);
  void* own = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  const std::uintptr_t allocator = base_of(next_symbol("malloc"));
  if (own == nullptr || allocator == 0) return false;
  for (std::size_t index = 0; index < kCount; ++index) {
    void* real = next_symbol(kNames[index]);
    const bool of_cxx = kNames[index][0] == '_';
    if (real == nullptr || (of_cxx && base_of(real) != allocator)) continue;
    void* ours = dlsym(own, kNames[index]);  // or of a library that this one needs
    if (base_of(ours) == own_base)
      pairs[index] = {reinterpret_cast<std::uintptr_t>(real), reinterpret_cast<std::uintptr_t>(ours)};
  }
  dl_iterate_phdr(lead_object<false>, nullptr);
  looked.store(stamp(), std::memory_order_relaxed);
  led_here.store(true, std::memory_order_release);
  return true;
}

void redirect_newcomers() {
  constexpr std::uint64_t kPause = 1u << 25;  // about 10 ms
  if (!led_here.load(std::memory_order_acquire) || stamp() - looked.load(std::memory_order_relaxed) < kPause) return;
  const Turn turn;
  if (!turn) return;
  looked.store(stamp(), std::memory_order_relaxed);
  bool changed = false;
  dl_iterate_phdr(count_objects, &changed);
  if (changed) dl_iterate_phdr(lead_object<false>, nullptr);
}

void redirect_after_fork() { busy.store(false, std::memory_order_relaxed); }

void give_calls_back() {
  if (!led_here.exchange(false)) return;
  for (;;) {
    if (const Turn turn; turn) {
      dl_iterate_phdr(lead_object<true>, nullptr);
      return;
    }
    sched_yield();  // someone is leading newcomers here
  }
}

}  // namespace heapyard::tracer
