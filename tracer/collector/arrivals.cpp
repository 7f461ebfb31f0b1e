// SPDX-License-Identifier: Apache-2.0
#include "tracer/collector/arrivals.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

namespace heapyard::tracer {

int listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return -1;
  std::strcpy(address.sun_path, path.c_str());
  const int listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listening < 0 || bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      (geteuid() == 0 && chmod(path.c_str(), 0666) != 0) || listen(listening, kQueue) != 0)
    return -1;
  return listening;
}

Sent receive(int connection, const std::string& token) {
  const timeval patience{1, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char said[64 + kProgramPath];
  iovec data{said, sizeof said};
  Sent sent;
  int& memory = sent.memory;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof memory)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof memory);  // room for one file, where there might be two
  const ssize_t bytes = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  if (bytes <= 0) return {};
  const cmsghdr* rights = CMSG_FIRSTHDR(&message);
  if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS) std::memcpy(&memory, CMSG_DATA(rights), sizeof memory);
  std::string_view text(said, static_cast<std::size_t>(bytes));
  if (!text.starts_with(token)) {
    if (memory >= 0) close(memory);
    return {};
  }
  text.remove_prefix(token.size());
  if (memory < 0 && !text.empty()) {
    sent.untraced = static_cast<Untraced>(text.front());
    sent.program = text.size() > 1 ? text.substr(text.rfind('/') + 1) : "a program";
  }
  return sent;
}

}  // namespace heapyard::tracer
