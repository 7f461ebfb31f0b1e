// SPDX-License-Identifier: Apache-2.0
// What the library does about a program's mistakes: information, for no standard asks for any of it.
#include <fcntl.h>
#include <sys/wait.h>

#include "support.hpp"

namespace heapyard::check {
namespace {

// Runs the mistake in a child whose heap is used afterwards. In words: "stops: MESSAGE", "stops" (a signal without a
// message), "unnoticed", "gives a block out twice", "hangs".
void tell(Report& report, const char* name, int (*mistake)()) {
  int said[2];
  if (pipe(said) != 0) return;
  const pid_t child = fork();
  if (child == 0) {
    dup2(said[1], 2);
    alarm(5);
    _exit(mistake());
  }
  close(said[1]);
  char text[600] = {};
  std::size_t length = 0;
  for (ssize_t n; length + 1 < sizeof text && (n = read(said[0], text + length, sizeof text - 1 - length)) > 0;) {
    length += static_cast<std::size_t>(n);
  }
  close(said[0]);
  int status = 0;
  waitpid(child, &status, 0);
  // Its first line, without what differs from run to run.
  char* end = std::strpbrk(text, "\r\n");
  if (end) *end = 0;
  char words[96];
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    std::snprintf(words, sizeof words, "hangs");
  else if (WIFSIGNALED(status) && text[0])
    std::snprintf(words, sizeof words, "stops: %.80s", text);
  else if (WIFSIGNALED(status))
    std::snprintf(words, sizeof words, "%s", WTERMSIG(status) == SIGABRT ? "stops" : "crashes");
  else if (WEXITSTATUS(status) == 7)
    std::snprintf(words, sizeof words, "gives a block out twice");
  else if (WEXITSTATUS(status) != 0)
    std::snprintf(words, sizeof words, "ends with exit code %d", WEXITSTATUS(status));
  else if (text[0])
    std::snprintf(words, sizeof words, "warns: %.80s", text);
  else
    std::snprintf(words, sizeof words, "unnoticed");
  report.fact(name, words);
}

// After the mistake: 7 if two live blocks are one.
int aftermath() {
  constexpr std::size_t kBlocks = 400;
  static void* blocks[kBlocks];
  for (std::size_t i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(100);
    for (std::size_t j = 0; j < i; ++j) {
      if (blocks[i] && blocks[i] == blocks[j]) return 7;
    }
  }
  for (void* block : blocks) free(block);
  return 0;
}

int free_twice() {
  void* block = opaque(malloc(100));
  free(block);
  free(block);
  return aftermath();
}
int free_twice_later() {
  void* block = opaque(malloc(100));
  void* others[40];
  for (void*& other : others) other = malloc(100);
  free(block);
  for (void* other : others) free(other);
  free(block);
  return aftermath();
}
int free_inside() {
  char* block = static_cast<char*>(opaque(malloc(100)));
  free(block + 16);
  return aftermath();
}
int free_stack() {
  alignas(64) char here[256] = {};
  free(opaque(here + 64));
  return aftermath();
}
int overflow(std::size_t beyond) {
  const std::size_t bytes = 104;
  char* block = static_cast<char*>(opaque(malloc(bytes)));
  char* next = static_cast<char*>(malloc(bytes));
  std::memset(block + bytes, 0x41, beyond);
  free(block);
  free(next);
  return aftermath();
}
int overflow_1() { return overflow(1); }
int overflow_64() { return overflow(64); }
int write_after_free() {
  char* block = static_cast<char*>(opaque(malloc(100)));
  free(block);
  std::memset(block, 0x41, 100);
  return aftermath();
}

void mistakes(Report& report, Amount) {
  tell(report, "double_free", free_twice);
  tell(report, "double_free_later", free_twice_later);
  tell(report, "free_inside_a_block", free_inside);
  tell(report, "free_of_the_stack", free_stack);
  tell(report, "overflow_by_1", overflow_1);
  tell(report, "overflow_by_64", overflow_64);
  tell(report, "write_after_free", write_after_free);
}

constexpr Case kDetectionCases[] = {
    {"detection", "mistakes", "double frees, wrong pointers, overflows: what happens", mistakes, true},
};

}  // namespace

std::span<const Case> detection_cases() { return kDetectionCases; }

}  // namespace heapyard::check
