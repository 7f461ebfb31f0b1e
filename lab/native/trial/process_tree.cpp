// SPDX-License-Identifier: Apache-2.0
#include "process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace heapyard::trial {
namespace {

// The children that thread `tid` of `pid` has started.
void children_of(pid_t pid, const char* tid, std::vector<pid_t>& found) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task/%s/children", pid, tid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  char text[4096];
  pid_t number = 0;
  for (ssize_t length; (length = read(file, text, sizeof text)) > 0;) {
    for (ssize_t i = 0; i < length; ++i) {
      if (text[i] == ' ') {
        if (number) found.push_back(number);
        number = 0;
      } else {
        number = number * 10 + (text[i] - '0');
      }
    }
  }
  close(file);
}

}  // namespace

void descendants(pid_t root, std::vector<pid_t>& found) {
  const std::size_t first = found.size();
  std::size_t next = first;
  for (pid_t pid = root;; pid = found[next++]) {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/%d/task", pid);
    if (DIR* tasks = opendir(path)) {
      while (const dirent* task = readdir(tasks)) {
        if (task->d_name[0] != '.') children_of(pid, task->d_name, found);
      }
      closedir(tasks);
    }
    if (next == found.size()) return;
  }
}

void signal_descendants(int signal) {
  std::vector<pid_t> found;
  descendants(getpid(), found);
  for (const pid_t pid : found) kill(pid, signal);
}

}  // namespace heapyard::trial
