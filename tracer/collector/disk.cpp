// SPDX-License-Identifier: Apache-2.0
#include "tracer/collector/disk.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace heapyard::tracer {
namespace {

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Disk::~Disk() {
  {
    const std::lock_guard held(mutex_);
    ending_ = true;
  }
  asked_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Disk::Handle Disk::create(const std::string& path) {
  auto file = std::make_shared<File>(path);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  ask(file, Job::kCreate, {});
  return file;
}

void Disk::ask(const Handle& file, Job job, std::string bytes) {
  std::unique_lock held(mutex_);
  done_.wait(held, [this] { return waiting_ < kMostWaiting; });
  waiting_ += bytes.size();
  queue_.push_back({file, job, std::move(bytes)});
  held.unlock();
  asked_.notify_one();
}

void Disk::run() {
  std::unique_lock held(mutex_);
  while (true) {
    asked_.wait(held, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const Asked asked = std::move(queue_.front());
    queue_.pop_front();
    held.unlock();
    perform(*asked.file, asked.job, asked.bytes);
    held.lock();
    waiting_ -= asked.bytes.size();
    done_.notify_all();
  }
}

void Disk::perform(File& file, Job job, std::string_view bytes) {
  switch (job) {
    case Job::kCreate:
      file.descriptor_ = open(file.path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
      if (file.descriptor_ >= 0) return;
      std::fprintf(stderr, "collector: %s: %s\n", file.path_.c_str(), std::strerror(errno));
      file.refused_ = true;
      return;
    case Job::kWrite:
      if (!file.refused() && !write_all(file.descriptor_, bytes)) file.refused_ = true;
      return;
    case Job::kSync:
      if (!file.refused()) fsync(file.descriptor_);
      return;
    case Job::kClose:
      if (file.descriptor_ >= 0) ::close(std::exchange(file.descriptor_, -1));
  }
}

}  // namespace heapyard::tracer
