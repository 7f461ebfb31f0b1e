// SPDX-License-Identifier: Apache-2.0
#include "charge.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "proc_file.hpp"

namespace heapyard::trial {
namespace {

const std::int64_t kPage = sysconf(_SC_PAGESIZE);

// THREAD_SIZE of x86-64 and arm64: four pages of 4 KiB, or one page where pages are larger.
std::int64_t stack_of_a_thread() { return std::max<std::int64_t>(16 << 10, kPage); }

// The least that page tables take for so many resident bytes: an entry of eight bytes for each page.
std::int64_t entries_of(std::int64_t resident) { return resident / kPage * 8; }

// The number behind `name` ("\nVmRSS:"), 0 where the kernel has no such line.
std::int64_t number_after(const char* text, const char* name) {
  const char* const line = std::strstr(text, name);
  return line ? std::atoll(line + std::strlen(name)) : 0;
}

}  // namespace

bool holding_of(pid_t pid, Holding& found) {
  char text[4096];
  if (!read_proc(pid, "status", text, sizeof text)) return false;
  constexpr std::int64_t kKib = 1024;
  found.rss = number_after(text, "\nVmRSS:") * kKib;
  found.highest_rss = std::max(found.rss, number_after(text, "\nVmHWM:") * kKib);
  found.page_tables = number_after(text, "\nVmPTE:") * kKib;
  found.beside = (number_after(text, "\nVmSwap:") + number_after(text, "\nHugetlbPages:")) * kKib +
                 number_after(text, "\nThreads:") * stack_of_a_thread();
  return found.rss > 0;
}

void Charge::add(const Holding& one, const Holding& before) {
  // A new high-water mark was reached between the two looks: with the tables that the growth needed, or with those of
  // this look if they are more.
  const bool higher = one.highest_rss > before.highest_rss;
  const std::int64_t resident = higher ? one.highest_rss : one.rss;
  const std::int64_t needed = before.unmarked() + entries_of(one.highest_rss - before.rss);
  now_.total += resident + (higher ? std::max(one.unmarked(), needed) : one.unmarked());
  now_.page_tables += one.page_tables;
  now_.unmarked += one.unmarked();
  if (one.highest_rss > now_.highest_rss) {
    now_.highest_rss = one.highest_rss;
    now_.largest = resident;
  }
}

void Charge::end_look() {
  if (now_.total == 0) return;  // between two programs, or all are ending
  peak_ = std::max(peak_, now_.total);
  page_tables_ = std::max(page_tables_, now_.page_tables);
  error_ = std::max(error_, now_.unmarked - unmarked_);
  unmarked_ = now_.unmarked;
  if (now_.highest_rss >= highest_rss_) {
    highest_rss_ = now_.highest_rss;
    around_ = now_.total - now_.largest;
  }
}

void Charge::finish(std::int64_t peak_rss) {
  if (error_ < 0) around_ = stack_of_a_thread();  // nobody saw it
  const std::int64_t unseen = peak_rss - highest_rss_;
  if (unseen > 0) peak_ = std::max(peak_, peak_rss + around_ + entries_of(unseen));
}

}  // namespace heapyard::trial
