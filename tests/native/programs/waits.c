// SPDX-License-Identifier: Apache-2.0
/* Waits in every way for the kernel while other threads spin: a child, signals, a pipe, time limits. Prints what came
   of each. With an argument it exits while the threads still spin. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SPINNERS = 3 };

static atomic_int over, signals;
static sem_t never;
static int ends[2];

static void count(int signal) {
  (void)signal;
  ++signals;
}
static void* spin(void* unused) {
  while (!over) {
  }
  return unused;
}
static void* sleep_for_good(void* unused) {
  while (sem_wait(&never) != 0) {
  }
  return unused;
}
static void* write_later(void* unused) {
  usleep(1000);
  if (write(ends[1], "x", 1) != 1) abort();
  return unused;
}
static struct timespec soon(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  time.tv_nsec += 200000;
  if (time.tv_nsec >= 1000000000) {
    ++time.tv_sec;
    time.tv_nsec -= 1000000000;
  }
  return time;
}

int main(int argc, char** argv) {
  (void)argv;
  pthread_t spinners[SPINNERS], sleeper, writer;
  sem_init(&never, 0, 0);
  struct sigaction action = {.sa_handler = count};
  sigaction(SIGUSR1, &action, NULL);
  for (int i = 0; i < SPINNERS; ++i) pthread_create(&spinners[i], NULL, spin, NULL);
  pthread_create(&sleeper, NULL, sleep_for_good, NULL);
  usleep(100);

  const pid_t child = fork();
  if (child == 0) _exit(3);
  int status;
  waitpid(child, &status, 0);
  printf("child %d\n", WEXITSTATUS(status));

  pthread_kill(sleeper, SIGUSR1);
  pthread_kill(spinners[0], SIGUSR1);
  usleep(100);
  printf("signals %d\n", signals);

  char byte;
  if (pipe(ends) != 0) abort();
  pthread_create(&writer, NULL, write_later, NULL);
  printf("read %zd\n", read(ends[0], &byte, 1));
  pthread_join(writer, NULL);

  struct timespec limit = soon();
  printf("semaphore %d\n", sem_timedwait(&never, &limit));
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pthread_mutex_lock(&mutex);
  limit = soon();
  printf("condition %d\n", pthread_cond_timedwait(&condition, &mutex, &limit));

  cpu_set_t processors;
  sched_getaffinity(0, sizeof processors, &processors);
  printf("processors %d\n", CPU_COUNT(&processors));
  if (argc > 1) exit(0);
  over = 1;
  for (int i = 0; i < SPINNERS; ++i) pthread_join(spinners[i], NULL);
}
