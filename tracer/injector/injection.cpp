// SPDX-License-Identifier: Apache-2.0
#include "tracer/injector/injection.hpp"

#include <elf.h>
#include <signal.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "tracer/injector/interrupted_call.hpp"
#include "tracer/injector/stub.hpp"
#include "tracer/injector/stub_place.hpp"

namespace heapyard::injector {
namespace {

using namespace std::chrono_literals;
constexpr auto kPatience = 10s;           // for the call
constexpr auto kPatienceAfterwards = 2s;  // for the way back
constexpr int kShadowStack = 0x204;       // NT_X86_SHSTK
constexpr int kSetxid = 33;               // by which glibc has every thread change its user; who does it waits for all

constexpr std::uint64_t bit(int signal) { return std::uint64_t{1} << (signal - 1); }
// What the thread's own instructions raise: to block them is to be killed by them.
constexpr std::uint64_t kOwnFaults =
    bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL) | bit(SIGTRAP) | bit(SIGSYS);
constexpr std::uint64_t kBlockedMeanwhile = ~(kOwnFaults | bit(kSetxid));

// Which bytes of NT_X86_XSTATE, or of its beginning, NT_PRFPREG, are the thread's state. Not: where the last x87
// instruction and its operand were, which processors of some makers do not keep; what the kernel lends to user mode;
// the header.
bool is_state(std::size_t byte) { return (byte >= 24 && byte < 464) || byte < 6 || byte >= 576; }

bool same_state(const std::vector<unsigned char>& one, const std::vector<unsigned char>& other) {
  if (one.size() != other.size()) return false;
  for (std::size_t byte = 0; byte < one.size(); ++byte)
    if (is_state(byte) && one[byte] != other[byte]) return false;
  return true;
}

class Call {
 public:
  Call(const TargetProcess& process, Tracee& tracee, const user_regs_struct& natural, const Request& request,
       Answer& answer)
      : process_(process), tracee_(tracee), natural_(natural), request_(request), answer_(answer) {}

  void make() {
    if (const char* why = prepare()) return refuse(why);
    // From here on the thread is on its way through the stub, and comes back by itself if this process is killed.
    user_regs_struct enter = natural_;
    enter.rip = at(heapyard_stub_enter);
    enter.orig_rax = ~0ul;
    if (!tracee_.set_registers(enter)) return refuse("its registers cannot be set");
    tracee_.set_blocked_signals(mask_ | kBlockedMeanwhile);
    follow();
    put_back();
  }

 private:
  std::uint64_t at(const unsigned char* label) const { return place_.begin + offset_of(label); }

  const char* prepare() {
    extended_ = tracee_.register_set(kind_);
    if (extended_.empty()) extended_ = tracee_.register_set(kind_ = NT_PRFPREG);  // a processor without XSAVE
    shadow_stack_ = tracee_.register_set(kShadowStack);
    const auto mask = tracee_.blocked_signals();
    if (extended_.empty() || !mask) return "its registers cannot be read";
    mask_ = *mask;
    // What cannot be written back as it was must not be changed in the first place.
    if (!tracee_.set_registers(natural_) || !tracee_.set_register_set(kind_, extended_) ||
        !same_state(extended_, tracee_.register_set(kind_)))
      return "the system does not take its registers back as they were";
    const auto place = free_place(process_);
    if (!place) return "there is no room for a few instructions in what it has loaded";
    place_ = *place;
    StubWords words{};
    words.magic = kStubMagic;
    words.owner = static_cast<std::uint64_t>(tracee_.thread());
    set_registers(words, as_in_user_mode(natural_));
    words.signal_mask = mask_;
    state_at_ = (sizeof(CallBlock) + 63) & ~std::uint64_t{63};
    stack_at_ = (state_at_ + process_.extended.bytes + kPage - 1) & ~(kPage - 1);
    words.mapped_bytes = stack_at_ + kStackBytes;
    bytes_ = words.mapped_bytes;
    if (write_stub(tracee_.thread(), place_, words)) return nullptr;
    clear_stub(tracee_.thread(), place_);
    return "its memory cannot be written";
  }

  // The thread is at the exit of its mmap: gives it what to call. False: then it calls nothing.
  bool fill(std::uint64_t block_at) {
    CallBlock block{};
    block.ready = 0;
    block.stack_top = block_at + bytes_;
    block.state_area = block_at + state_at_;
    block.state_mask = process_.extended.mask;
    block.errno_location = process_.errno_location;
    block.dlopen = process_.dlopen, block.dlsym = process_.dlsym, block.dlerror = process_.dlerror;
    block.mxcsr = 0x1f80;  // as a program begins with
    std::size_t used = 0;
    const auto put = [&](const std::string& text) -> std::uint64_t {
      if (used + text.size() + 1 > sizeof block.strings) return 0;
      std::memcpy(block.strings + used, text.c_str(), text.size() + 1);
      const std::uint64_t where = block_at + offsetof(CallBlock, strings) + used;
      used += text.size() + 1;
      return where;
    };
    block.library = put(request_.library), block.entry_name = put(request_.entry);
    block.argument = put(request_.argument);
    constexpr std::uint64_t kReady = 1;
    return block.library != 0 && block.entry_name != 0 && block.argument != 0 &&
           process_.memory.write(block_at, &block, sizeof block) &&
           process_.memory.write(block_at, &kReady, sizeof kReady);
  }

  void fail(std::string text) {
    if (answer_.ending == Ending::kBusy) answer_.ending = Ending::kFailed, answer_.text = std::move(text);
  }

  // Until the thread has given its mapping back, or cannot be followed. Sets the answer.
  void follow() {
    auto until = Clock::now() + kPatience;
    int signal = 0;
    bool abandoned = false;
    for (;;) {
      if (!tracee_.to_next_call(signal)) return gone();
      const Stop stop = tracee_.wait(until);
      signal = 0;
      user_regs_struct now;
      switch (stop) {
        case Stop::kGone:
          return gone();
        case Stop::kLate:
          if (abandoned || block_ == 0) return fail("the call does not come back");
          if (!tracee_.interrupt()) return gone();
          if (tracee_.wait(Clock::now() + kPatienceAfterwards) == Stop::kLate)
            return fail("the call does not come back");
          fail(
              "loading the tracer took longer than 10 s and was given up; the thread is back where it was, but other "
              "libraries may not load any more");
          abandon();
          abandoned = true;
          until = Clock::now() + kPatienceAfterwards;
          continue;
        case Stop::kSignal:
          if ((bit(tracee_.signal()) & kOwnFaults) != 0 && tracee_.has_faulted() && block_ != 0 && !abandoned) {
            fail("the call ended with signal " + std::to_string(tracee_.signal()) + " (" + strsignal(tracee_.signal()) +
                 ")");
            abandon();
            abandoned = true;
          } else {
            signal = tracee_.signal();
          }
          continue;
        case Stop::kCall:
          break;
        default:  // stopped by someone; it goes on to the end of the stub, and is stopped when it is let go
          continue;
      }
      if (!tracee_.registers(now)) return gone();
      const long result = static_cast<long>(now.rax);
      if (result == -ENOSYS) {
        if (now.rip == at(heapyard_stub_unmapped)) read_answer();
      } else if (now.rip == at(heapyard_stub_mapped)) {
        if (result < 0 && result > -4096) return fail("it has no memory left for the call");
        block_ = now.rax;
        if (!fill(block_)) fail("what to call is too long");
      } else if (now.rip == at(heapyard_stub_unmapped)) {
        block_ = 0;
        return;
      }
    }
  }

  // Sends the thread from wherever the call is to the way back.
  void abandon() {
    user_regs_struct now;
    if (!tracee_.registers(now)) return;
    now.rip = at(heapyard_stub_returned);
    now.rbx = block_;
    now.orig_rax = ~0ul;
    if (!shadow_stack_.empty()) tracee_.set_register_set(kShadowStack, shadow_stack_);
    tracee_.set_registers(now);
  }

  void read_answer() {
    CallBlock block;
    if (answer_.ending != Ending::kBusy || !process_.memory.read(block_, block)) return;
    block.text[sizeof block.text - 1] = '\0';
    answer_.text = block.text;
    answer_.result = block.result;
    if (block.outcome == kCalled) answer_.ending = Ending::kCalled;
    if (block.outcome == kNotLoaded || block.outcome == kNoEntry) answer_.ending = Ending::kNotLoaded;
  }

  // The thread is in the stub with its mapping given back, or stuck in the call.
  void put_back() {
    if (answer_.ending == Ending::kGone) return;
    fail("the call was not made");
    if (!tracee_.interrupt() || !tracee_.go_on()) return gone();
    Stop stop = tracee_.wait(Clock::now() + kPatienceAfterwards);
    while (stop == Stop::kSignal && tracee_.go_on(tracee_.signal()))
      stop = tracee_.wait(Clock::now() + kPatienceAfterwards);
    if (stop == Stop::kLate) return;  // the stub brings it back
    user_regs_struct now;
    if (stop == Stop::kGone || !tracee_.registers(now)) return gone();
    if (!place_.holds(now.rip)) return void(tracee_.let_go());  // still in the call, which brings it back later
    tracee_.set_blocked_signals(mask_);
    if (!same_state(extended_, tracee_.register_set(kind_)))
      answer_.mended = tracee_.set_register_set(kind_, extended_);
    tracee_.set_registers(natural_);
    clear_stub(tracee_.thread(), place_);
    tracee_.let_go();
  }

  void refuse(const char* why) {
    answer_.ending = Ending::kRefused;
    answer_.text = why;
    if (place_.begin != 0) clear_stub(tracee_.thread(), place_);
    tracee_.set_registers(natural_);
    if (!tracee_.let_go() || !process_.is_still_it()) gone();  // that is why
  }

  void gone() {
    answer_.ending = Ending::kGone;
    answer_.text = "it has ended, or runs another program now";
  }

  const TargetProcess& process_;
  Tracee& tracee_;
  const user_regs_struct natural_;
  const Request& request_;
  Answer& answer_;
  int kind_ = NT_X86_XSTATE;  // of extended_
  std::vector<unsigned char> extended_, shadow_stack_;
  std::uint64_t mask_ = 0, state_at_ = 0, stack_at_ = 0, bytes_ = 0;
  Range place_;
  std::uint64_t block_ = 0;  // where its mapping is
};

}  // namespace

void call_in(const TargetProcess& process, Tracee& tracee, const user_regs_struct& natural, const Request& request,
             Answer& answer) {
  answer.thread = tracee.thread();
  Call(process, tracee, natural, request, answer).make();
}

}  // namespace heapyard::injector
