// SPDX-License-Identifier: Apache-2.0
// Files that a thread of their own writes: a disk that is slow, or busy with what others write, keeps nobody from the
// rings.
//
// Idea: one queue of what is to be done, in order. Cost: O(1) and a copy of the bytes for who asks. Threads: any may
// ask. Errors: a file that cannot be created is told on standard error; the first refusal ends the writing of a file.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace heapyard::tracer {

class Disk {
 public:
  static constexpr std::size_t kMostWaiting = 64u << 20;  // bytes; who brings more waits

  class File {
   public:
    explicit File(std::string path) : path_(std::move(path)) {}
    // Once it could not be created, or took no more: the bytes after that are not in it.
    bool refused() const { return refused_.load(std::memory_order_relaxed); }

   private:
    friend class Disk;
    std::string path_;
    int descriptor_ = -1;  // the thread's
    std::atomic<bool> refused_{false};
  };
  using Handle = std::shared_ptr<File>;

  Disk() = default;
  // All that was asked for is done then.
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  // Empties a file that is there.
  Handle create(const std::string& path);
  void write(const Handle& file, std::string_view bytes) { ask(file, Job::kWrite, std::string(bytes)); }
  // What was written will outlive the machine's sudden end.
  void sync(const Handle& file) { ask(file, Job::kSync, {}); }
  void close(const Handle& file) { ask(file, Job::kClose, {}); }

 private:
  enum class Job : std::uint8_t { kCreate, kWrite, kSync, kClose };
  struct Asked {
    Handle file;
    Job job;
    std::string bytes;
  };

  void ask(const Handle& file, Job job, std::string bytes);
  void run();
  static void perform(File& file, Job job, std::string_view bytes);

  std::mutex mutex_;
  std::condition_variable asked_, done_;
  std::deque<Asked> queue_;
  std::size_t waiting_ = 0;  // bytes in the queue
  bool ending_ = false;
  std::thread thread_;  // from the first file on
};

}  // namespace heapyard::tracer
