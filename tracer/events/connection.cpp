// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/connection.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/clock.hpp"
#include "base/mapping.hpp"
#include "tracer/events/next_symbol.hpp"
#include "tracer/session/peer.hpp"
#include "tracer/session/untraced.hpp"

namespace heapyard::tracer {
namespace {

struct Wish {
  Mode mode;
  std::uint32_t log2_interval, depth, with_python;
  const char* token;
  std::size_t token_bytes;
  const char* socket;
};

bool parse(const char* text, Wish& wish) {
  char* end = nullptr;
  wish.mode = static_cast<Mode>(std::strtoul(text, &end, 10));
  if (*end != ':') return false;
  wish.log2_interval = static_cast<std::uint32_t>(std::strtoul(end + 1, &end, 10));
  if (*end != ':' || wish.log2_interval < 1 || wish.log2_interval > shared::kMostLog2Interval) return false;
  wish.depth = static_cast<std::uint32_t>(std::strtoul(end + 1, &end, 10));
  if (*end != ':' || wish.depth < 1 || wish.depth > kFrames) return false;
  wish.with_python = static_cast<std::uint32_t>(std::strtoul(end + 1, &end, 10));
  if (*end != ':') return false;
  wish.token = end + 1;
  const char* token_end = std::strchr(wish.token, ':');
  if (token_end == nullptr) return false;
  wish.token_bytes = static_cast<std::size_t>(token_end - wish.token);
  wish.socket = token_end + 1;
  return wish.mode >= Mode::kSampled && wish.mode <= Mode::kPages;
}

// A program that may have little address space keeps most of it: fewer rings, for fewer threads at once, or none.
// Beside the rings sampled takes 34 MiB of addresses, exact some 300.
std::uint32_t rings_of(bool exact, std::uint32_t ring_bytes) {
  constexpr std::uint64_t kLeast = 128u << 20, kLeastExact = 1u << 30, kShare = 8;
  std::uint32_t rings = kRings;
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    if (limit.rlim_cur < (exact ? kLeastExact : kLeast)) return 0;
    while (std::uint64_t{rings} * ring_bytes > limit.rlim_cur / kShare) rings /= 2;
  }
  return rings;
}

// Memory, or -1 and what is said in its place. `collector` becomes the process that listens.
bool send(const Wish& wish, int memory, std::string_view instead = {}, std::uint32_t* collector = nullptr) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(wish.socket) >= sizeof address.sun_path) return false;
  std::strcpy(address.sun_path, wish.socket);
  const int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (connection < 0) return false;
  bool sent = false;
  if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    if (collector != nullptr) *collector = peer_of(connection);  // known even if it dies before it takes this
    iovec data[] = {{const_cast<char*>(wish.token), wish.token_bytes},
                    {const_cast<char*>(instead.data()), instead.size()}};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof memory)] = {};
    msghdr message{};
    message.msg_iov = data;
    message.msg_iovlen = 2;
    if (memory >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof memory);
      std::memcpy(CMSG_DATA(rights), &memory, sizeof memory);
    }
    sent = sendmsg(connection, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(wish.token_bytes + instead.size());
  }
  close(connection);
  return sent;
}

void tell_why_not(const Wish& wish, Untraced reason) {
  char said[1 + kProgramPath] = {static_cast<char>(reason)};
  const ssize_t length = readlink("/proc/self/exe", said + 1, kProgramPath);
  send(wish, -1, {said, 1 + static_cast<std::size_t>(std::max<ssize_t>(length, 0))});
}

}  // namespace

Session connect_to_collector(const char* text, bool (*prepare)(Mode)) {
  Wish wish{};
  if (text == nullptr || !parse(text, wish)) return {};
  const bool exact = wish.mode == Mode::kExact;
  // Where samples are dense, more come before a busy machine lets the collector run.
  const std::uint32_t ring_bytes = exact ? 1u << 19 : wish.log2_interval < 16 ? 1u << 18 : 1u << 16;
  const std::uint32_t rings = rings_of(exact, ring_bytes), buckets = 1u << 15;
  const Layout layout(rings, ring_bytes, buckets);
  const int memory = memfd_create("heapyard-trace", MFD_CLOEXEC);
  const bool sized = memory >= 0 && rings != 0 && ftruncate(memory, static_cast<off_t>(layout.end)) == 0;
  void* const base = sized ? map_file(memory, layout.end, true) : nullptr;
  if (base == nullptr || !prepare(wish.mode)) {
    if (base != nullptr) munmap(base, layout.end);
    if (memory >= 0) close(memory);
    tell_why_not(wish, Untraced::kNoMemory);
    return {};
  }
  const Session session(base, layout);
  Header& header = session.header();
  header.magic = kMagic;
  header.version = kVersion;
  header.pid = static_cast<std::uint32_t>(getpid());
  header.parent = static_cast<std::uint32_t>(getppid());
  header.rings = rings;
  header.ring_bytes = ring_bytes;
  header.buckets = buckets;
  header.buckets_used.store(kFirstBuckets);
  header.depth = wish.depth;
  header.with_python = wish.with_python;
  header.attached = loaded_late();
  header.mode.store(wish.mode);
  header.log2_interval.store(wish.log2_interval);
  header.start_stamp = stamp();
  header.start_nanoseconds = monotonic_ns();
  const ssize_t length = readlink("/proc/self/exe", header.program, sizeof header.program - 1);
  if (length > 0) header.program[length] = '\0';
  if (const int words = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC); words >= 0) {
    const ssize_t read_bytes = read(words, header.command, sizeof header.command);
    header.command_bytes = read_bytes > 0 ? static_cast<std::uint32_t>(read_bytes) : 0;
    close(words);
  }
  if (const link_map* allocator = object_around(next_symbol("malloc"))) {
    const bool in_program = allocator->l_name[0] == '\0';
    const char* name = in_program ? header.program : allocator->l_name;
    std::memcpy(header.allocator, name, std::min(std::strlen(name), sizeof header.allocator - 1));
  }
  const bool sent = send(wish, memory, {}, &header.collector);
  close(memory);
  if (sent) return session;
  munmap(base, layout.end);
  return {};
}

}  // namespace heapyard::tracer
