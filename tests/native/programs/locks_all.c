// SPDX-License-Identifier: Apache-2.0
// Locks all its memory, present and future, with MIB mebibytes in blocks of 16 to 1,000 bytes: half of them before,
// half after. Tells what is locked, in KiB; 1: the system refused. With a second word it crashes instead.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void fill(size_t bytes) {
  for (size_t got = 0, size = 16; got < bytes; got += size, size = size < 1000 ? size + 8 : 16) {
    void* block = malloc(size);
    if (block == NULL) exit(3);
    memset(block, 1, size);
  }
}

int main(int count, char** words) {
  if (count < 2) return 2;
  const size_t bytes = (size_t)atoi(words[1]) << 19;
  fill(bytes);
  if (count > 2) {
    fill(bytes);
    raise(SIGSEGV);
  }
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) return 1;
  fill(bytes);
  char line[256];
  FILE* status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof line, status) != NULL) {
    if (strncmp(line, "VmLck:", 6) == 0) printf("%d\n", atoi(line + 6));
  }
  return 0;
}
