// SPDX-License-Identifier: Apache-2.0
#include "memory_group.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <cerrno>

#include "support.hpp"

namespace heapyard::check {
namespace {

char folder[4096] = "";
bool second_version = false;

bool write_to(const char* name, const char* text) {
  char path[4200];
  std::snprintf(path, sizeof path, "%s/%s", folder, name);
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = write(file, text, std::strlen(text)) > 0;
  close(file);
  return done;
}

// The folder of this process's group that may hold a group with a limit of memory.
bool find_home(char* home, std::size_t room) {
  std::FILE* file = std::fopen("/proc/self/cgroup", "re");
  if (!file) return false;
  char line[4096];
  bool found = false;
  while (!found && std::fgets(line, sizeof line, file)) {
    line[std::strcspn(line, "\n")] = 0;
    char* controllers = std::strchr(line, ':');
    char* path = controllers ? std::strchr(controllers + 1, ':') : nullptr;
    if (!path) continue;
    *path++ = 0;
    second_version = std::strncmp(line, "0:", 2) == 0;
    if (!second_version && std::strcmp(controllers + 1, "memory") != 0) continue;
    if (std::strcmp(path, "/") == 0) path[0] = 0;
    std::snprintf(home, room, "/sys/fs/cgroup%s%s", second_version ? "" : "/memory", path);
    char probe[4200];
    std::snprintf(probe, sizeof probe, "%s/%s", home, second_version ? "cgroup.subtree_control" : "tasks");
    if (access(probe, W_OK) != 0) continue;
    if (second_version) {
      // Only where groups below have the controller already: whoever set the machine up decides that.
      char listed[400] = {};
      const int control = open(probe, O_RDONLY | O_CLOEXEC);
      if (control >= 0 && read(control, listed, sizeof listed - 1) > 0)
        found = std::strstr(listed, "memory") != nullptr;
      if (control >= 0) close(control);
    } else {
      found = true;
    }
  }
  std::fclose(file);
  return found;
}

// Groups of cases that were killed before they could remove theirs: the process that the name tells is gone.
void remove_orphans(const char* home) {
  DIR* open_folder = opendir(home);
  if (!open_folder) return;
  while (const dirent* entry = readdir(open_folder)) {
    int owner = 0;
    char path[4300];
    if (std::sscanf(entry->d_name, "heapyard-check-%d", &owner) != 1 || kill(owner, 0) == 0) continue;
    std::snprintf(path, sizeof path, "%s/%s", home, entry->d_name);
    rmdir(path);  // refused while a process is in it
  }
  closedir(open_folder);
}

}  // namespace

bool MemoryGroup::make(std::size_t bytes, char* reason, std::size_t room) {
  char home[3900];
  if (!find_home(home, sizeof home)) {
    std::snprintf(reason, room, "no control group with a limit of memory may be made here");
    return false;
  }
  remove_orphans(home);
  std::snprintf(folder, sizeof folder, "%s/heapyard-check-%d", home, static_cast<int>(getpid()));
  if (mkdir(folder, 0755) != 0) {
    std::snprintf(reason, room, "no control group may be made here: %s", std::strerror(errno));
    return false;
  }
  char limit[32];
  std::snprintf(limit, sizeof limit, "%zu", bytes);
  if (write_to(second_version ? "memory.max" : "memory.limit_in_bytes", limit)) return true;
  std::snprintf(reason, room, "a control group's limit of memory cannot be set here: %s", std::strerror(errno));
  remove();
  return false;
}

void MemoryGroup::enter() {
  if (!write_to("cgroup.procs", "0")) _exit(127);
}

double MemoryGroup::peak() {
  char path[4200];
  std::snprintf(path, sizeof path, "%s/%s", folder, second_version ? "memory.peak" : "memory.max_usage_in_bytes");
  std::FILE* file = std::fopen(path, "re");
  double bytes = 0;
  if (file && std::fscanf(file, "%lf", &bytes) != 1) bytes = 0;
  if (file) std::fclose(file);
  return bytes;
}

void MemoryGroup::remove() {
  for (int tries = 0; tries < 400 && rmdir(folder) != 0 && errno == EBUSY; ++tries) sleep_ms(5);
}

}  // namespace heapyard::check
