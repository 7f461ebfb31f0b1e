// SPDX-License-Identifier: Apache-2.0
#include "tracer/injector/whereabouts.hpp"

#include <elf.h>
#include <linux/rseq.h>
#include <sys/ptrace.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tracer/injector/seccomp_filter.hpp"
#include "tracer/injector/status_field.hpp"
#include "tracer/injector/stub_place.hpp"
#include "tracer/injector/thread_sight.hpp"

namespace heapyard::injector {
namespace {

constexpr std::uint64_t kCodeOf64Bits = 0x33;                             // the code segment's selector
constexpr auto kGetRseq = static_cast<__ptrace_request>(0x420f);          // PTRACE_GET_RSEQ_CONFIGURATION, Linux 5.13
constexpr auto kGetUserDispatch = static_cast<__ptrace_request>(0x4211);  // Linux 6.4

// The kernel aborts such a sequence when a thread was stopped in it, which it would not notice after the call.
bool in_restartable_sequence(const TargetProcess& process, pid_t thread, std::uint64_t at) {
  struct {
    std::uint64_t area;
    std::uint32_t size, signature, flags, pad;
  } known{};
  if (ptrace(kGetRseq, thread, sizeof known, &known) <= 0 || known.area == 0) return false;
  std::uint64_t sequence = 0;
  struct {
    std::uint32_t version, flags;
    std::uint64_t begin, bytes, abort;
  } described{};
  if (!process.memory.read(known.area + offsetof(struct rseq, rseq_cs), sequence) || sequence == 0 ||
      !process.memory.read(sequence, described))
    return false;
  return at - described.begin < described.bytes;
}

bool dispatches_its_own_calls(pid_t thread) {
  struct {
    std::uint64_t mode, selector, offset, length;
  } known{};
  return ptrace(kGetUserDispatch, thread, sizeof known, &known) == 0 && known.mode != 0;
}

// Protection keys: most memory has key 0, whose rights are the two lowest bits.
bool may_not_touch_memory(const TargetProcess& process, const Tracee& tracee) {
  if (process.extended.keys_at == 0) return false;
  const std::vector<unsigned char> state = tracee.register_set(NT_X86_XSTATE);
  std::uint32_t rights = 0;
  if (state.size() < process.extended.keys_at + sizeof rights) return false;
  std::memcpy(&rights, state.data() + process.extended.keys_at, sizeof rights);
  return (rights & 3) != 0;
}

// Every thread will record, so none may be under a filter that was not looked at.
bool others_have_other_filters(pid_t process, pid_t thread) {
  const auto mine = status_field(process, thread, "Seccomp_filters:");
  for (const pid_t other : threads_of(process)) {
    const auto theirs = status_field(process, other, "Seccomp_filters:");
    if (theirs && theirs != 0u && theirs != mine) return true;
  }
  return false;
}

Whereabouts never(std::string why) { return {false, true, std::move(why)}; }
Whereabouts not_now(std::string why) { return {false, false, std::move(why)}; }

}  // namespace

bool signal_is_pending(pid_t process, pid_t thread) {
  const auto of = [&](const char* field) { return status_field(process, thread, field, 16).value_or(0); };
  return ((of("SigPnd:") | of("ShdPnd:")) & ~of("SigBlk:")) != 0;
}

Whereabouts whereabouts(TargetProcess& process, const Tracee& tracee, const user_regs_struct& registers) {
  const pid_t thread = tracee.thread();
  if (registers.cs != kCodeOf64Bits) return not_now("running code of 32 bits");
  if (signal_is_pending(process.pid, thread)) return not_now("receiving a signal");
  const CallChain chain = process.unwinder.chain(thread, registers);
  if (!clear_leftovers(process, thread, chain)) return not_now("attaching still");
  if (const char* why = process.unsafe().why_unsafe(chain)) return not_now(why);
  if (in_restartable_sequence(process, thread, registers.rip)) return not_now("in a restartable sequence");
  if (dispatches_its_own_calls(thread)) return never("it handles system calls itself (syscall user dispatch)");
  if (may_not_touch_memory(process, tracee)) return not_now("keeping itself from its own memory (protection keys)");
  if (std::string why = why_seccomp_forbids(process.pid, thread); !why.empty()) return never(std::move(why));
  if (others_have_other_filters(process.pid, thread))
    return never("its threads live under different seccomp filters, and only one's can be looked at");
  return {true, false, {}};
}

}  // namespace heapyard::injector
