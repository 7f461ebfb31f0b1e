// SPDX-License-Identifier: Apache-2.0
/* serves PORT DELAY LEAK [STALL]: answers HTTP requests with "ok", each connection from a thread of its own.
 *
 * Each request waits for DELAY microseconds and keeps LEAK bytes for ever. In the first STALL milliseconds of every
 * second since the first connection nobody is answered: who waits then, waits for their end.
 */
#define _GNU_SOURCE
#include "known_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SECOND = 1000000000, BACKLOG = 1024, STACK_BYTES = 64 << 10 };

static unsigned long delay, leak, stall; /* nanoseconds, bytes, nanoseconds */
static long long began;

static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * (long long)SECOND + t.tv_nsec;
}

/* Never returns early: DELAY is a lower bound of every latency. */
static void wait_until(long long when) {
  const struct timespec t = {when / SECOND, when % SECOND};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
}

static void wait_as_planned(void) {
  if (delay) wait_until(now() + (long long)delay);
  const long long since = now() - began, phase = since % SECOND;
  if (phase < (long long)stall) wait_until(began + since - phase + (long long)stall);
}

static int keep(size_t bytes) {
  char* kept = bytes ? malloc(bytes) : NULL;
  if (kept) memset(kept, 1, bytes);
  return kept || !bytes;
}

/* One answer; false once the client wants no other, or there is no memory. */
static int answer(int peer, const char* request) {
  char* block = malloc(REQUEST_BYTES);
  if (!block || !keep(leak)) return 0;
  wait_as_planned();
  const int more =
      strcasestr(request, "keep-alive") || (strstr(request, "HTTP/1.1") && !strcasestr(request, "connection: close"));
  const int length =
      snprintf(block, REQUEST_BYTES, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: %s\r\n\r\nok\n",
               more ? "keep-alive" : "close");
  const int sent = send(peer, block, (size_t)length, MSG_NOSIGNAL) == length;
  free(block);
  return sent && more;
}

static void* serve_peer(void* given) {
  const int peer = (int)(long)given;
  char request[4096]; /* of one request: these clients do not send the next one before its answer */
  size_t held = 0;
  ssize_t got;
  while (held < sizeof request - 1 && (got = recv(peer, request + held, sizeof request - 1 - held, 0)) > 0) {
    request[held += (size_t)got] = '\0';
    if (!strstr(request, "\r\n\r\n")) continue;
    held = 0;
    if (!answer(peer, request)) break;
  }
  close(peer);
  return NULL;
}

static int listen_at(int port) {
  const int on = 1, server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((unsigned short)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (server < 0 || setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(server, (const struct sockaddr*)&address, sizeof address) != 0 || listen(server, BACKLOG) != 0) {
    perror("serves");
    exit(1);
  }
  return server;
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: serves PORT DELAY LEAK [STALL]\n");
    return 2;
  }
  delay = strtoul(argv[2], NULL, 10) * 1000;
  leak = strtoul(argv[3], NULL, 10);
  stall = (argc > 4 ? strtoul(argv[4], NULL, 10) : 0) * 1000000;
  const int on = 1, server = listen_at(atoi(argv[1]));
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&detached, STACK_BYTES);
  for (;;) {
    const int peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    pthread_t thread;
    if (peer < 0) continue;
    if (!began) began = now();
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (pthread_create(&thread, &detached, serve_peer, (void*)(long)peer) != 0) close(peer);
  }
}
