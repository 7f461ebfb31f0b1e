// SPDX-License-Identifier: Apache-2.0
#include "finding.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/json.hpp"
#include "base/mapping.hpp"
#include "base/text.hpp"

namespace heapyard::fuzz {

Progress progress[kMostThreads];

namespace {

std::atomic<bool> told{false};
bool child = false;

std::string_view call_of(unsigned thread) { return kCalls[progress[thread].call.load(std::memory_order_relaxed)]; }

[[noreturn]] void tell(unsigned thread, std::string_view kind, std::string_view text) {
  if (told.exchange(true)) {
    for (;;) pause();  // another thread ends the process
  }
  char lent[2048];
  Text out(lent);
  Json json(out);
  json.open('{').field("finding", kind).field("text", text).field("thread", thread);
  json.field("operation", progress[thread].done.load(std::memory_order_relaxed));
  json.field("call", call_of(thread)).field("in_child", child).close('}');
  out << '\n';
  out.write_to(STDOUT_FILENO);
  _exit(1);
}

thread_local unsigned self = 0;

void on_crash(int signal, siginfo_t* info, void*) {
  char text[160];
  std::snprintf(text, sizeof text, "signal %d (%s), address %p, in or after %s", signal, strsignal(signal),
                signal == SIGABRT ? nullptr : info->si_addr, call_of(self).data());
  tell(self, "crash", text);
}

void on_hang(int) {
  char text[400] = "the calls that do not return:";
  for (unsigned thread = 0; thread < kMostThreads; ++thread) {
    if (progress[thread].done.load(std::memory_order_relaxed) == 0) continue;
    const std::size_t used = std::strlen(text);
    std::snprintf(text + used, sizeof text - used, " %s (thread %u)", call_of(thread).data(), thread);
  }
  tell(self, "hang", text);
}

}  // namespace

void found(unsigned thread, const char* kind, const char* format, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  tell(thread, kind, text);
}

void take_signals() {
  struct sigaction action{};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigaction(signal, &action, nullptr);
  action.sa_flags = 0;
  action.sa_handler = on_hang;
  sigaction(SIGTERM, &action, nullptr);
}

void sit_down(unsigned thread) { self = thread; }

void become_child() { child = true; }

}  // namespace heapyard::fuzz
