// SPDX-License-Identifier: Apache-2.0
#include "tracer/collector/process.hpp"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/clock.hpp"
#include "base/json.hpp"

namespace heapyard::tracer {
namespace {

constexpr std::uint64_t kLong = 1'000'000;  // microseconds of a program whose trace is put on the disk at once
constexpr std::uint64_t kCheck = 200'000;   // microseconds between two looks at what seldom changes

std::uint64_t executable(std::uint32_t pid) {
  struct stat facts{};
  if (stat(("/proc/" + std::to_string(pid) + "/exe").c_str(), &facts) != 0) return 0;
  return facts.st_dev * 0x9e3779b97f4a7c15u ^ facts.st_ino;
}

// Words with a NUL after each.
void write_words(Json& json, std::string_view all) {
  json.open('[');
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\0', at), all.size());
    json.value(all.substr(at, end - at));
    at = end + 1;
  }
  json.close(']');
}

const char* name_of(Mode mode) {
  switch (mode) {
    case Mode::kSampled:
      return "sampled";
    case Mode::kExact:
      return "exact";
    case Mode::kPages:
      return "pages";
    default:
      return "off";
  }
}

// Named so that the files sort as the programs began.
std::string path_of_trace(const std::string& folder, const std::string& program, std::uint32_t pid) {
  static unsigned number = 0;
  char order[11];
  std::snprintf(order, sizeof order, "%06u", ++number);
  const std::string name = program.substr(program.rfind('/') + 1);
  return folder + "/" + order + "-" + (name.empty() ? "program" : name) + "-" + std::to_string(pid) +
         shared::kTraceSuffix;
}

// A record of a module (Kind::kModule).
Module module_of(const std::uint64_t* words) {
  Module module;
  module.begin = words[1];
  module.end = words[2];
  module.bias = words[3];
  const auto* id = reinterpret_cast<const std::uint8_t*>(words + 4);
  for (unsigned index = 0; index < id[20] && index < 20; ++index) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", id[index]);
    module.build_id += digits;
  }
  module.path.assign(reinterpret_cast<const char*>(words + 7), words[0] & kAddressBits);
  return module;
}

}  // namespace

Process::Process(int memory, std::uint32_t peer, Disk& disk, const std::string& folder, const Limits& limits)
    : memory_(memory),
      limits_(limits),
      tasks_(peer != 0 ? peer : header().pid),
      clock_(header()),
      control_(memory_.session()),
      set_(memory_.session()),
      accounts_(std::min(limits.nodes, FileBudget(limits.file_bytes).most_nodes())),
      threads_(FileBudget(limits.file_bytes).most_threads()),
      merger_(memory_.session()),
      resident_(pid()),
      writer_(disk, path_of_trace(folder, header().program, pid()), limits.file_bytes, accounts_, modules_) {
  pid_file_ = static_cast<int>(syscall(SYS_pidfd_open, pid(), 0));
  exe_ = executable(pid());
  Text text;
  write_meta(text);
  writer_.begin(text.view());
}

Process::~Process() {
  if (pid_file_ >= 0) close(pid_file_);
}

void Process::use_rings(std::uint32_t count) {
  chains_.use_rings(count);
  threads_.use_rings(count);
  sampled_.use_rings(count);
}

void Process::thread(std::uint32_t ring, std::uint64_t owner) {
  threads_.begin(ring, owner, tasks_, accounts_.threads);
  chains_.begin_thread(ring);
  sampled_.begin_thread(ring);
}

void Process::module(const std::uint64_t* words) {
  lost_modules_ += !modules_.add(module_of(words), writer_.room(FileBudget::kModule));
}

void Process::script(const std::uint64_t* words) {
  const std::string_view text(reinterpret_cast<const char*>(words + 2), words[0] & kAddressBits);
  const std::size_t end = std::min(text.find('\0'), text.size());
  writer_.script(words[1] >> 32, words[1] & 0xffffffff, text.substr(0, end),
                 text.substr(std::min(end + 1, text.size())));
}

void Process::mapping(std::uint64_t address, std::uint64_t bytes, std::uint64_t chain_number) {
  if (chain_number == 0)
    mappings_.add(address, bytes, ProgramMappings::kAllocators);
  else if (const std::uint32_t chain = chains_.of(chain_number); chain != ChainTable::kNone)
    mappings_.add(address, bytes, chain);
}

void Process::mark(const std::uint64_t* words) {
  const std::string name(reinterpret_cast<const char*>(words + 2), words[0] & kAddressBits);
  lost_marks_ += !writer_.snapshot("mark", name, clock_.microseconds(words[1]), clock_.now());
  account_pace_.ask();
}

[[gnu::always_inline]] inline void Process::owned(Kind kind, const Owned& owned, std::uint64_t stamp) {
  exact_.take(kind, owned, stamp, chains_, threads_, accounts_);
}

[[gnu::always_inline]] inline void Process::allocation(std::uint32_t ring, std::uint64_t address, std::uint64_t stamp,
                                                       std::uint64_t size, const Drawn& drawn,
                                                       std::uint64_t chain_number) {
  control_.note_sample();
  Block block;
  block.address = address;
  block.stamp = stamp;
  block.thread = threads_.of_ring(ring);
  block.chain = chains_.of(chain_number);
  sampled_.allocation(ring, block, size, drawn, clock_.now(), accounts_);
}

[[gnu::always_inline]] inline void Process::release(std::uint32_t ring, std::uint64_t address, std::uint64_t stamp,
                                                    bool move) {
  sampled_.release(ring, address, stamp, move, clock_.now(), accounts_);
}

bool Process::drain(std::uint64_t limit) {
  const bool taken_any = merger_.drain(limit, *this);
  exact_.take_waiting(chains_, threads_, accounts_);
  return taken_any;
}

// A thread's very last frees come after its last destructor, and take a ring that nobody gives back.
void Process::take_rings_of_the_dead() {
  const std::uint32_t rings = merger_.in_use();
  const bool scarce = rings > merger_.most() / 4;
  if (!scarce && clock_.now() < last_ring_check_ + kCheck) return;
  last_ring_check_ = clock_.now();
  for (std::uint32_t index = 0; index < rings; ++index) {
    Ring& ring = memory_.session().ring(index);
    std::uint64_t owner = ring.owner.load(std::memory_order_acquire);
    if (owner != 0 && tasks_.ended(static_cast<std::uint32_t>(owner))) ring.owner.compare_exchange_strong(owner, 0);
  }
}

bool Process::runs() {
  if (clock_.now() < last_life_check_ + kCheck) return true;
  last_life_check_ = clock_.now();
  const std::uint64_t now = executable(pid());
  return exe_ == 0 || now == 0 || now == exe_;  // 0: it has ended, which its pid file will tell
}

// The program may have written over them: they are numbers only.
ProgramMappings Process::tracers() const {
  ProgramMappings found;
  for (unsigned index = 0; index < kOwnRanges; ++index) {
    const std::uint64_t begin = header().own_begins[index].load(), end = header().own_ends[index].load();
    if (end > begin) found.add(begin, end - begin, 0);
  }
  return found;
}

// Without what the tracer itself takes. `last`: there is no later look.
void Process::note_resident(bool last) {
  std::int64_t bytes;
  if (!resident_.read(bytes)) return;
  bytes -= static_cast<std::int64_t>(header().own_bytes.load(std::memory_order_relaxed));
  writer_.note_resident(bytes);
  if (last || account_pace_.due(clock_.now(), bytes)) look_closely(bytes);
}

// What is told to have happened until now has been taken before the kernel is asked. What is told meanwhile has a later
// time than the account.
void Process::look_closely(std::int64_t resident) {
  const auto take = [this] {
    clock_.calibrate();
    drain();
  };
  take();
  const std::uint64_t now = clock_.now(), began = thread_cpu_ns();
  account_pace_.begin_look();
  // Where nothing has come by, malloc is part of the program.
  const bool glibc =
      std::string_view(header().allocator).find("/libc.so.") != std::string_view::npos && accounts_.allocations > 0;
  const auto live = static_cast<std::uint64_t>(std::max<std::int64_t>(0, accounts_.bytes));
  const auto rounding = static_cast<std::uint64_t>(std::max<std::int64_t>(0, accounts_.rounding));
  const AccountOf of{pid(), glibc, live, rounding, sampled_.addresses()};
  ResidentAccount account;
  if (read_account(of, mappings_, tracers(), take, account)) writer_.account(account, now);
  clock_.calibrate();
  account_pace_.end_look(now, resident, (thread_cpu_ns() - began) / 1000);
}

void Process::tick() {
  clock_.calibrate();
  const std::uint64_t now = clock_.now();
  header().activity.begin_anew();
  take_rings_of_the_dead();
  sampled_.give_up_waiting(false, now, accounts_);
  if (control_.falls_behind(now) && limits_.may_step && control_.mode() == Mode::kExact) {
    control_.step_down(now);
    writer_.snapshot("step", "the collector could not keep up with every event: sampled from here on", now, now);
  }
  control_.keep_rate(now, accounts_.bytes);
  if (!control_.exact() && sampled_.live() > limits_.live_samples) {
    control_.double_interval();
    drain();  // frees on their way
    sampled_.thin(control_.log2_interval(), clock_.now_stamp() | 1, set_, accounts_);
    writer_.snapshot("step", "sampled at twice the interval from here on", now, now);
  }
  note_resident(false);
  writer_.look(now, control_.interval(), peak_at());
}

void Process::finish(const char* how) {
  clock_.calibrate();
  const std::uint64_t now = clock_.now();
  while (drain()) {
  }
  drain(~std::uint64_t{0});
  sampled_.give_up_waiting(true, now, accounts_);
  note_resident(std::string_view(how) == "tracing stopped");
  writer_.write_end(now, control_.interval(), peak_at());
  Text text;
  write_summary(text, how);
  writer_.finish(text.view(), now, now > kLong);
  header().mode.store(Mode::kOff);
  header().activity.begin_anew();
}

void Process::write_meta(Text& text) const {
  const double began =
      static_cast<double>(real_ns()) * 1e-9 - static_cast<double>(monotonic_ns() - clock_.start_nanoseconds()) * 1e-9;
  Json json(text);
  json.open('{').field("format", 2).field("pid", pid()).field("parent", tasks_.parent(header().parent));
  json.field("attached", header().attached != 0).field("mode", name_of(control_.mode()));
  json.field("interval", control_.interval()).field("depth", header().depth);
  json.field("page_record", LossyRecorder::kFloor).field("rate", Pace::kFirstRate).field("started", began);
  json.field("program", header().program).field("allocator", header().allocator).key("command");
  write_words(json, {header().command, std::min<std::size_t>(header().command_bytes, sizeof header().command)});
  json.field("limit_bytes", limits_.file_bytes).field("time_unit", "microseconds").field("address_bits", 64);
  json.field("byte_order", "little").close('}');
}

void Process::write_summary(Text& text, const char* how) const {
  const Lost& lost = header().lost;
  Json json(text);
  json.open('{').field("how", how).field("microseconds", clock_.now()).field("mode", name_of(control_.mode()));
  json.field("interval", control_.interval()).field("widest_interval", control_.widest_interval());
  json.field("rate", writer_.coarsest_rate()).field("events", merger_.events()).field("records", writer_.records());
  json.field("allocations", static_cast<std::uint64_t>(accounts_.allocations + 0.5));
  json.field("frees", static_cast<std::uint64_t>(std::max(0.0, accounts_.frees) + 0.5));
  json.field("peak_bytes", accounts_.peak_bytes).field("peak_at", peak_at()).field("waits", header().waits.load());
  json.key("lost").open('{').field("nested", lost.nested.load()).field("no_ring", lost.no_ring.load());
  json.field("ring_full", lost.ring_full.load()).field("set_full", lost.set_full.load());
  json.field("frees", sampled_.lost_frees() + lost.frees.load());
  json.field("unknown_frees", sampled_.unknown_frees() + lost.unknown.load());
  json.field("unknown_chains", exact_.unknown_chains() + sampled_.unknown_chains());
  json.field("torn_rings", merger_.torn()).field("nodes", accounts_.tree.refused());
  json.field("marks", lost_marks_).field("modules", lost_modules_).close('}');
  json.field("chains_cut", chains_.cut()).field("chains_torn", lost.chains_torn.load()).close('}');
}

}  // namespace heapyard::tracer
