// SPDX-License-Identifier: Apache-2.0
#include "tracer/injector/call_chain.hpp"

#include <elfutils/libdwfl.h>

namespace heapyard::injector {
namespace {

constexpr std::size_t kFrames = 256;

// Names and lines are not wanted, and nothing is to be fetched for them.
int no_debug_information(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word, char**) {
  return -1;
}

const Dwfl_Callbacks kFiles{dwfl_linux_proc_find_elf, no_debug_information, dwfl_offline_section_address, nullptr};

}  // namespace

struct Unwinder::State {
  explicit State(const ProcessMemory& of_process) : memory(of_process) {}
  const ProcessMemory& memory;
  Dwfl* dwfl = nullptr;
  bool ready = false;
  const user_regs_struct* registers = nullptr;

  static pid_t next_thread(Dwfl*, void*, void**) { return 0; }
  static bool get_thread(Dwfl*, pid_t, void* state, void** argument) {
    *argument = state;
    return true;
  }
  static bool read_word(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* state) {
    return static_cast<State*>(state)->memory.read(address, *word);
  }
  static bool first_registers(Dwfl_Thread* thread, void* state) {
    const user_regs_struct& r = *static_cast<State*>(state)->registers;
    const Dwarf_Word words[] = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
                                r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip};
    return dwfl_thread_state_registers(thread, 0, sizeof words / sizeof *words, words);
  }
  static int add_frame(Dwfl_Frame* frame, void* to) {
    auto& frames = static_cast<CallChain*>(to)->frames;
    Dwarf_Addr address;
    bool interrupted;  // else the address is where the call returns to
    if (!dwfl_frame_pc(frame, &address, &interrupted)) return DWARF_CB_ABORT;
    frames.push_back(interrupted ? address : address - 1);
    return frames.size() < kFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
  }
};

Unwinder::Unwinder(pid_t pid, const ProcessMemory& memory) : state_(std::make_unique<State>(memory)) {
  static constexpr Dwfl_Thread_Callbacks kThreads{State::next_thread,     State::get_thread, State::read_word,
                                                  State::first_registers, nullptr,           nullptr};
  state_->dwfl = dwfl_begin(&kFiles);
  state_->ready = state_->dwfl != nullptr && dwfl_linux_proc_report(state_->dwfl, pid) == 0 &&
                  dwfl_report_end(state_->dwfl, nullptr, nullptr) == 0 &&
                  dwfl_attach_state(state_->dwfl, nullptr, pid, &kThreads, state_.get());
}

Unwinder::~Unwinder() {
  if (state_->dwfl != nullptr) dwfl_end(state_->dwfl);
}

CallChain Unwinder::chain(pid_t thread, const user_regs_struct& registers) {
  CallChain chain;
  state_->registers = &registers;
  if (state_->ready) chain.whole = dwfl_getthread_frames(state_->dwfl, thread, State::add_frame, &chain) == 0;
  if (chain.frames.empty()) chain.frames.push_back(registers.rip);
  return chain;
}

}  // namespace heapyard::injector
