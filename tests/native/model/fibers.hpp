// SPDX-License-Identifier: Apache-2.0
// A function on a stack of its own, which stops and goes on.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace heapyard::model {

class Fiber {
 public:
  static constexpr std::size_t kStack = std::size_t{128} << 10;

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Begins anew; `start` must not return.
  void reset(void (*start)()) {
    if (stack_ == nullptr)
      stack_ = static_cast<char*>(mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    getcontext(&own_);
    own_.uc_stack.ss_sp = stack_;
    own_.uc_stack.ss_size = kStack;
    own_.uc_link = nullptr;
    makecontext(&own_, start, 0);
  }
  void resume() { swapcontext(&caller_, &own_); }
  void stop() { swapcontext(&own_, &caller_); }
  bool has(std::uintptr_t address) const { return address - reinterpret_cast<std::uintptr_t>(stack_) < kStack; }

 private:
  ucontext_t own_, caller_;
  char* stack_ = nullptr;  // for good: every execution uses it again
};

}  // namespace heapyard::model
