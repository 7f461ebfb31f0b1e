// SPDX-License-Identifier: Apache-2.0
// Fills every register that the processor has with known values, lets some time pass in which it touches none of them,
// and compares: general registers, the red zone below the stack, x87, SSE, AVX, AVX-512 with its masks, AMX tiles.
// Built without a red zone of its own.
//
// `registers_kept itself`: meanwhile it has itself run the injector's stub, from a signal handler, as the injector does
// from outside: the handler returns into the stub. So the stub is tried on processors that only an emulator has.
#include <cpuid.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>

#include <string_view>

#include "beside.h"
#include "tracer/injector/extended_state.hpp"
#include "tracer/injector/stub.hpp"

namespace {

constexpr long kSpins = 1'500'000;

alignas(64) unsigned char in[8192], out[8192];
bool with_avx = false;

void fill(unsigned seed) {
  for (unsigned char& byte : in) byte = static_cast<unsigned char>((seed = seed * 1664525 + 1013904223) >> 24);
  std::memset(out, 0, sizeof out);
}

void same(std::size_t bytes, const char* what) {
  for (std::size_t byte = 0; byte < bytes; ++byte)
    if (in[byte] != out[byte]) wrong(what, static_cast<long>(byte));
}

std::uint64_t enabled() {
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & 1u << 27) == 0) return 0;
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

#define ALL_XMM                                                                                                       \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", \
      "xmm14", "xmm15"
#define SPIN "mov %[spins], %%rcx\n 77: dec %%rcx\n jnz 77b\n"

void general() {
  long bad;
  asm volatile(
      "mov $0x1111111111111111, %%r8\n mov $0x2222222222222222, %%r9\n mov $0x3333333333333333, %%r10\n"
      "mov $0x4444444444444444, %%r11\n mov $0x5555555555555555, %%r12\n mov $0x6666666666666666, %%r13\n"
      "mov $0x7777777777777777, %%r14\n mov $0x1818181818181818, %%r15\n mov $0x1919191919191919, %%rsi\n"
      "mov $0x1a1a1a1a1a1a1a1a, %%rdi\n mov $0x1b1b1b1b1b1b1b1b, %%rbx\n mov %[spins], %%rcx\n"
      "mov %%r8, -8(%%rsp)\n mov %%r9, -64(%%rsp)\n mov %%r10, -128(%%rsp)\n mov %%rsp, %%rdx\n"
      "std\n stc\n 77: lea -1(%%rcx), %%rcx\n jrcxz 78f\n jmp 77b\n 78: \n"
      "pushfq\n pop %%rcx\n cld\n mov $1, %%eax\n and $0x401, %%ecx\n cmp $0x401, %%ecx\n jne 79f\n"
      // the push has overwritten -8(%rsp): the others are looked at
      "mov $2, %%eax\n cmp %%r9, -64(%%rsp)\n jne 79f\n cmp %%r10, -128(%%rsp)\n jne 79f\n cmp %%rdx, %%rsp\n jne 79f\n"
      "mov $3, %%eax\n mov $0x1111111111111111, %%rcx\n cmp %%rcx, %%r8\n jne 79f\n add %%rcx, %%rcx\n cmp %%rcx, "
      "%%r9\n jne 79f\n"
      "mov $0x3333333333333333, %%rcx\n cmp %%rcx, %%r10\n jne 79f\n mov $0x4444444444444444, %%rcx\n cmp %%rcx, "
      "%%r11\n jne 79f\n"
      "mov $4, %%eax\n mov $0x5555555555555555, %%rcx\n cmp %%rcx, %%r12\n jne 79f\n mov $0x6666666666666666, %%rcx\n"
      "cmp %%rcx, %%r13\n jne 79f\n mov $0x7777777777777777, %%rcx\n cmp %%rcx, %%r14\n jne 79f\n"
      "mov $0x1818181818181818, %%rcx\n cmp %%rcx, %%r15\n jne 79f\n"
      "mov $5, %%eax\n mov $0x1919191919191919, %%rcx\n cmp %%rcx, %%rsi\n jne 79f\n mov $0x1a1a1a1a1a1a1a1a, %%rcx\n"
      "cmp %%rcx, %%rdi\n jne 79f\n mov $0x1b1b1b1b1b1b1b1b, %%rcx\n cmp %%rcx, %%rbx\n jne 79f\n xor %%eax, %%eax\n "
      "79:\n"
      : "=&a"(bad)
      : [spins] "i"(kSpins)
      : "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rsi", "rdi", "rbx", "rcx", "rdx", "memory", "cc");
  right(bad == 0, "general registers, group", bad);
}

void x87_and_sse() {
  constexpr unsigned kRounding = 0x1f80 | 3 << 13;  // towards zero
  unsigned mxcsr = kRounding, mxcsr_after = 0;
  unsigned short control = 0x037f | 1 << 10, control_after = 0;
  double numbers[8] = {1.5, -2.25, 3e100, 4e-100, 5.125, 6, 7, 8}, after[8];
  asm volatile(
      "ldmxcsr %[mxcsr]\n fninit\n fldcw %[control]\n"
      ".irp n,0,1,2,3,4,5,6,7\n fldl \\n*8(%[numbers])\n .endr\n"
      ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movdqu \\n*16(%[in]), %%xmm\\n\n .endr\n" SPIN
      ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movdqu %%xmm\\n, \\n*16(%[out])\n .endr\n"
      ".irp n,7,6,5,4,3,2,1,0\n fstpl \\n*8(%[after])\n .endr\n"
      "fnstcw %[control_after]\n stmxcsr %[mxcsr_after]\n fninit\n"
      : [mxcsr_after] "=m"(mxcsr_after), [control_after] "=m"(control_after)
      : [mxcsr] "m"(mxcsr), [control] "m"(control), [in] "r"(in), [out] "r"(out), [numbers] "r"(numbers),
        [after] "r"(after), [spins] "i"(kSpins)
      : "rcx", "memory", "cc", ALL_XMM);
  const unsigned usual = 0x1f80;
  asm volatile("ldmxcsr %0" ::"m"(usual));
  right((mxcsr_after & 0xffc0) == kRounding, "mxcsr", mxcsr_after);
  right(control_after == control, "x87 control word", control_after);
  right(std::memcmp(numbers, after, sizeof numbers) == 0, "x87 stack");
  same(16 * 16, "xmm registers, byte");
}

void avx() {
  asm volatile(".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqu \\n*32(%[in]), %%ymm\\n\n .endr\n" SPIN
               ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqu %%ymm\\n, \\n*32(%[out])\n .endr\n vzeroupper\n"
               :
               : [in] "r"(in), [out] "r"(out), [spins] "i"(kSpins)
               : "rcx", "memory", "cc", ALL_XMM);
  same(16 * 32, "ymm registers, byte");
}

void avx512() {
  asm volatile(
      ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
      "vmovdqu64 \\n*64(%[in]), %%zmm\\n\n .endr\n"
      ".irp n,0,1,2,3,4,5,6,7\n kmovw \\n*2+2048(%[in]), %%k\\n\n .endr\n" SPIN
      ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
      "vmovdqu64 %%zmm\\n, \\n*64(%[out])\n .endr\n"
      ".irp n,0,1,2,3,4,5,6,7\n kmovw %%k\\n, \\n*2+2048(%[out])\n .endr\n vzeroall\n"
      :
      : [in] "r"(in), [out] "r"(out), [spins] "i"(kSpins)
      : "rcx", "memory", "cc", ALL_XMM);
  same(2048 + 16, "zmm and mask registers, byte");
}

bool may_use_tiles() {
  constexpr long kAskForState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return (enabled() >> 17 & 3) == 3 && syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
}

// Eight tiles of 16 rows of 64 bytes.
void amx() {
  alignas(64) unsigned char shape[64] = {1};
  for (int tile = 0; tile < 8; ++tile) shape[16 + 2 * tile] = 64, shape[48 + tile] = 16;
  const long row = 64;
  asm volatile(
      "ldtilecfg %[shape]\n mov %[in], %%rdx\n"
      ".irp n,0,1,2,3,4,5,6,7\n tileloadd (%%rdx,%[row],1), %%tmm\\n\n add $1024, %%rdx\n .endr\n" SPIN
      "mov %[out], %%rdx\n"
      ".irp n,0,1,2,3,4,5,6,7\n tilestored %%tmm\\n, (%%rdx,%[row],1)\n add $1024, %%rdx\n .endr\n tilerelease\n"
      :
      : [shape] "m"(shape), [in] "r"(in), [out] "r"(out), [row] "r"(row), [spins] "i"(kSpins)
      : "rcx", "rdx", "memory", "cc");
  same(8192, "tiles, byte");
}

bool has_avx512() {
  unsigned a, b, c, d;
  return (enabled() & 0xe6) == 0xe6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & 1u << 16) != 0;
}

namespace injector = heapyard::injector;
unsigned char* stub;
volatile std::sig_atomic_t calls = 0;

// Disturbs what it can.
extern "C" int disturb(const char* word) {
  volatile double sum = 1.0;
  for (int i = 1; i < 50; ++i) sum = sum / 3 + static_cast<double>(i);
  if (with_avx) asm volatile("vzeroall" ::: ALL_XMM);
  errno = 99;
  calls = calls + 1;
  return word[0];
}
void* own_dlopen(const char*, int) { return stub; }
void* own_dlsym(void*, const char*) { return reinterpret_cast<void*>(disturb); }

// The kernel aligns the stack and clears the direction flag, QEMU 7.2 neither.
[[gnu::force_align_arg_pointer]] void into_stub(int, siginfo_t*, void* context) {
  asm volatile("cld");
  const auto& state = injector::ExtendedState::of_this_machine();
  auto& at = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const std::uint64_t into = static_cast<std::uint64_t>(at[REG_RIP]) - reinterpret_cast<std::uint64_t>(stub);
  if (into < injector::stub_bytes().size()) return;  // on the way back from the call before, whose words it still reads
  const std::uint64_t stack_at = (sizeof(injector::CallBlock) + 64 + state.bytes + 4095) & ~4095ull;
  const std::uint64_t bytes = stack_at + injector::kStackBytes;
  auto* block = static_cast<injector::CallBlock*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  right(block != MAP_FAILED, "mmap");
  const auto begin = reinterpret_cast<std::uint64_t>(block);
  block->stack_top = begin + bytes;
  block->state_area = (begin + sizeof *block + 63) & ~63ull;
  block->state_mask = state.mask;
  block->errno_location = reinterpret_cast<std::uint64_t>(__errno_location);
  block->dlopen = reinterpret_cast<std::uint64_t>(own_dlopen),
  block->dlsym = reinterpret_cast<std::uint64_t>(own_dlsym);
  block->dlerror = reinterpret_cast<std::uint64_t>(dlerror);
  block->library = block->entry_name = block->argument = begin + offsetof(injector::CallBlock, strings);
  block->mxcsr = 0x1f80;
  block->ready = 1;
  injector::StubWords words{};
  words.r15 = at[REG_R15], words.r14 = at[REG_R14], words.r13 = at[REG_R13], words.r12 = at[REG_R12];
  words.bp = at[REG_RBP], words.bx = at[REG_RBX], words.r11 = at[REG_R11], words.r10 = at[REG_R10];
  words.r9 = at[REG_R9], words.r8 = at[REG_R8], words.ax = at[REG_RAX], words.cx = at[REG_RCX], words.dx = at[REG_RDX];
  words.si = at[REG_RSI], words.di = at[REG_RDI], words.ip = at[REG_RIP], words.sp = at[REG_RSP];
  words.flags = at[REG_EFL];
  words.signal_mask = 0;
  words.mapped_bytes = bytes;
  std::memcpy(stub, injector::stub_bytes().data(), injector::stub_bytes().size());
  std::memcpy(stub, &words, sizeof words);
  at[REG_RIP] = static_cast<greg_t>(reinterpret_cast<std::uint64_t>(stub) + injector::offset_of(heapyard_stub_mapped));
  at[REG_RAX] = static_cast<greg_t>(begin);
  at[REG_EFL] &= ~0x400;
  sigaddset(&static_cast<ucontext_t*>(context)->uc_sigmask, SIGALRM);  // until the stub gives the mask back
}

void disturb_itself() {
  void* room = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) lacking("memory to write code to");
  stub = static_cast<unsigned char*>(room);
  struct sigaction action{};
  action.sa_sigaction = into_stub;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often{{0, 1700}, {0, 1700}};
  setitimer(ITIMER_REAL, &often, nullptr);
}

}  // namespace

int main(int count, char** words) {
  with_avx = (enabled() & 6) == 6;
  const bool itself = count == 2 && std::string_view(words[1]) == "itself";
  const bool with_avx512 = has_avx512(), with_tiles = may_use_tiles();
  std::printf("general, x87, SSE%s%s%s\n", with_avx ? ", AVX" : "", with_avx512 ? ", AVX-512" : "",
              with_tiles ? ", AMX" : "");
  begin();
  if (itself) disturb_itself();
  long answers = 0;
  for (unsigned seed = 1; !asked_to_end(); ++answers) {
    fill(++seed);
    errno = static_cast<int>(answers % 90);
    general();
    right(errno == answers % 90, "errno", errno);
    x87_and_sse();
    if (with_avx) fill(++seed), avx();
    if (with_avx512) fill(++seed), avx512();
    if (with_tiles) fill(++seed), amx();
  }
  if (itself) right(calls > 0, "calls", calls);
  end(answers);
  return 0;
}
