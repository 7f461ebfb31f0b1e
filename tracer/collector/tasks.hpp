// SPDX-License-Identifier: Apache-2.0
// A traced process and its threads, by the numbers that the kernel has for them here.
//
// Idea: in a PID namespace of its own (a container, a sandbox) a program knows itself and its threads by other numbers
// than the collector outside; which is which, the kernel tells in the status of each task. Looked up for threads as
// they begin, so that one that is missing later has ended.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

namespace heapyard::tracer {

class Tasks {
 public:
  explicit Tasks(std::uint32_t pid) : folder_("/proc/" + std::to_string(pid) + "/"), pid_(pid) {
    elsewhere_ = numbers(folder_ + "status", "NSpid:").size() > 1;
  }

  std::uint32_t pid() const { return pid_; }
  // Of the process, by its number here.
  std::uint32_t parent(std::uint32_t as_it_says) const {
    if (!elsewhere_) return as_it_says;
    const std::vector<std::uint32_t> told = numbers(folder_ + "status", "PPid:");
    return told.empty() ? as_it_says : told[0];
  }

  // A thread has begun that calls itself `id`. O(1); elsewhere O(threads), for a tenth of the time at most.
  void begun(std::uint32_t id) {
    if (!elsewhere_) return;
    here_.erase(id);  // of an earlier thread
    if (const auto now = Clock::now(); now >= next_look_) {
      look();
      const auto then = Clock::now();
      next_look_ = then + 10 * (then - now);
    }
  }
  // Empty if it is not known, or has ended.
  std::string name_of(std::uint32_t id) const {
    std::string name;
    if (const std::uint32_t task = here(id); task != 0) {
      name = contents(folder_ + "task/" + std::to_string(task) + "/comm");
      name.resize(std::min(name.find('\n'), name.size()));
    }
    return name;
  }
  // Whether the thread that calls itself `id` has ended. O(1); elsewhere O(threads) if it is not known.
  bool ended(std::uint32_t id) {
    if (elsewhere_ && here(id) == 0) look();
    const std::uint32_t task = here(id);
    return task == 0 ||
           (syscall(SYS_tgkill, static_cast<pid_t>(pid_), static_cast<pid_t>(task), 0) != 0 && errno == ESRCH);
  }

 private:
  using Clock = std::chrono::steady_clock;

  // The numbers of a line of a status file.
  static std::vector<std::uint32_t> numbers(const std::string& path, const std::string& field) {
    std::vector<std::uint32_t> found;
    const std::string status = "\n" + contents(path);
    const std::size_t line = status.find("\n" + field);
    if (line == std::string::npos) return found;
    const char* at = status.c_str() + line + 1 + field.size();
    for (char* end; *at != '\n' && *at != '\0'; at = end) {  // bound: nested namespaces
      found.push_back(static_cast<std::uint32_t>(std::strtoul(at, &end, 10)));
      if (end == at) break;
    }
    return found;
  }
  // A small file of the kernel; empty if it cannot be read. No stream: the collector stays small without them.
  static std::string contents(const std::string& path) {
    std::string text(4096, '\0');
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t length = file >= 0 ? read(file, text.data(), text.size()) : 0;
    if (file >= 0) close(file);
    text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    return text;
  }

  std::uint32_t here(std::uint32_t id) const {
    if (!elsewhere_) return id;
    const auto found = here_.find(id);
    return found == here_.end() ? 0 : found->second;
  }

  void look() {
    DIR* tasks = opendir((folder_ + "task").c_str());
    if (tasks == nullptr) return;
    here_.clear();
    while (const dirent* task = readdir(tasks)) {
      const std::vector<std::uint32_t> known = numbers(folder_ + "task/" + task->d_name + "/status", "NSpid:");
      if (known.size() > 1) here_[known.back()] = known.front();
    }
    closedir(tasks);
  }

  std::string folder_;  // of the process
  std::uint32_t pid_;
  bool elsewhere_;  // in a PID namespace that is not ours
  std::unordered_map<std::uint32_t, std::uint32_t> here_;
  Clock::time_point next_look_{};
};

}  // namespace heapyard::tracer
