// SPDX-License-Identifier: Apache-2.0
/* daemonize MILLISECONDS: ends at once and leaves behind a grandchild in its own session that lives for so long. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char** argv) {
  long milliseconds = argc > 1 ? strtol(argv[1], NULL, 10) : 1000;
  pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() > 0) _exit(0);
    int null = open("/dev/null", O_RDWR);
    for (int stream = 0; stream < 3; ++stream) dup2(null, stream);
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
    _exit(0);
  }
  if (child < 0 || waitpid(child, NULL, 0) != child) return 1;
  puts("done");
}
