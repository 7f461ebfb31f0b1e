// SPDX-License-Identifier: Apache-2.0
#include "tracer/collector/process.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <sstream>
#include <system_error>
#include <utility>

#include "tracer/collector/json.hpp"
#include "tracer/session/poisson.hpp"
#include "tracer/session/ring.hpp"

namespace heapyard::tracer {
namespace {

constexpr std::uint64_t kPatience = 2'000'000;    // microseconds until what waits is given up
constexpr std::uint64_t kFlushBytes = 64u << 10;  // of records, before they go to the file
constexpr std::uint64_t kFewBytes = 512;
constexpr std::size_t kUnnumbered = 1u << 14;  // events that wait for their chains
constexpr std::uint64_t kLong = 1'000'000;     // microseconds of a program whose trace is put on the disk at once

std::uint64_t monotonic() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint64_t executable(std::uint32_t pid) {
  struct stat facts{};
  if (stat(("/proc/" + std::to_string(pid) + "/exe").c_str(), &facts) != 0) return 0;
  return facts.st_dev * 0x9e3779b97f4a7c15u ^ facts.st_ino;
}

// Words with a NUL after each, as a JSON array.
std::string words_of(std::string_view all) {
  std::string out = "[";
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\0', at), all.size());
    out += (out.size() > 1 ? ", " : "") + json_text(all.substr(at, end - at));
    at = end + 1;
  }
  return out + "]";
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

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Session map(int memory) {
  struct stat facts{};
  if (fstat(memory, &facts) != 0 || static_cast<std::size_t>(facts.st_size) < sizeof(Header)) {
    close(memory);
    throw std::system_error(EINVAL, std::generic_category(), "shared memory of a traced program");
  }
  void* base = mmap(nullptr, static_cast<std::size_t>(facts.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  close(memory);
  if (base == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "shared memory of a traced program");
  const Header& header = *static_cast<const Header*>(base);
  const bool known = header.magic == kMagic && header.version == kVersion &&
                     Layout(header).end <= static_cast<std::size_t>(facts.st_size);
  if (!known) {
    munmap(base, static_cast<std::size_t>(facts.st_size));
    throw std::system_error(EPROTO, std::generic_category(), "the traced program's library is of another version");
  }
  return {base, Layout(header)};
}

}  // namespace

Process::Process(int memory, std::uint32_t peer, const std::string& folder, const Limits& limits)
    : session_(map(memory)),
      tasks_(peer != 0 ? peer : session_.header().pid),
      start_stamp_(session_.header().start_stamp),
      start_nanoseconds_(session_.header().start_nanoseconds),
      mode_(session_.header().mode.load()),
      log2_interval_(session_.header().log2_interval.load()),
      set_(session_),
      limits_(limits),
      budget_(limits.file_bytes),
      accounts_(std::min(limits.nodes, budget_.most_nodes())),
      most_rings_(session_.header().rings) {
  const Header& header = session_.header();
  pid_file_ = static_cast<int>(syscall(SYS_pidfd_open, pid(), 0));
  statm_ = open(("/proc/" + std::to_string(pid()) + "/statm").c_str(), O_RDONLY | O_CLOEXEC);
  exe_ = executable(pid());
  calibrate();
  const std::string program = base_name(header.program);
  static unsigned number = 0;
  char order[11];  // so that the files sort as the programs began
  std::snprintf(order, sizeof order, "%06u", ++number);
  file_ = std::make_unique<TraceFile>(folder + "/" + order + "-" + (program.empty() ? "program" : program) + "-" +
                                      std::to_string(pid()) + ".hytrace");
  file_->write(Chunk::kMeta, meta(), 0, 0);
}

Process::~Process() {
  if (pid_file_ >= 0) close(pid_file_);
  if (statm_ >= 0) close(statm_);
  munmap(session_.base(), session_.bytes());
}

std::string Process::meta() const {
  const Header& header = session_.header();
  timespec real;
  clock_gettime(CLOCK_REALTIME, &real);
  const double began = static_cast<double>(real.tv_sec) + static_cast<double>(real.tv_nsec) * 1e-9 -
                       static_cast<double>(monotonic() - start_nanoseconds_) * 1e-9;
  std::ostringstream out;
  out.precision(17);
  out << "{\"format\": 1, \"pid\": " << pid() << ", \"parent\": " << tasks_.parent(header.parent)
      << ", \"attached\": " << (header.attached != 0 ? "true" : "false") << ", \"mode\": \"" << name_of(mode_)
      << "\", \"interval\": " << (exact() ? 0 : std::uint64_t{1} << log2_interval_) << ", \"depth\": " << header.depth
      << ", \"page_record\": " << LossyRecorder::kFloor << ", \"rate\": " << Pace::kFirstRate
      << ", \"started\": " << began << ", \"program\": " << json_text(header.program)
      << ", \"allocator\": " << json_text(header.allocator) << ", \"command\": "
      << words_of({header.command, std::min<std::size_t>(header.command_bytes, sizeof header.command)})
      << ", \"limit_bytes\": " << limits_.file_bytes
      << ", \"time_unit\": \"microseconds\", \"address_bits\": 64, \"byte_order\": \"little\"}";
  return out.str();
}

bool Process::exact() const { return mode_ == Mode::kExact || mode_ == Mode::kPages; }

void Process::calibrate() {
  now_stamp_ = stamp();
  const std::uint64_t nanoseconds = monotonic() - start_nanoseconds_;
  now_ = nanoseconds / 1000;
  if (now_stamp_ > start_stamp_ && nanoseconds > 0)
    nanoseconds_per_stamp_ = static_cast<double>(nanoseconds) / static_cast<double>(now_stamp_ - start_stamp_);
}

std::uint64_t Process::microseconds(std::uint64_t stamp) const {
  if (stamp <= start_stamp_) return 0;
  const double nanoseconds = static_cast<double>(stamp - start_stamp_) * nanoseconds_per_stamp_;
  return std::min(now_, static_cast<std::uint64_t>(nanoseconds / 1000));
}

// The stamp of the cursor's next event; what comes before it and has none is taken. 0: nothing is left.
inline std::uint64_t Process::next_stamp(Cursor& cursor) {
  while (const std::uint64_t words = cursor.whole()) {
    const std::uint64_t* at = cursor.record();
    if (is_brief(at[0])) [[likely]] {
      cursor.count = words;
      return (start_stamp_ + rings_[cursor.ring].since) | 1;
    }
    const Kind kind = kind_of(at[0]);
    if (kind >= Kind::kOwned && kind <= Kind::kBack) [[likely]] {
      cursor.count = words;
      return (start_stamp_ + (at[0] & kAddressBits)) | 1;
    }
    switch (kind) {
      case Kind::kPad:
        break;
      case Kind::kMore:
        rings_[cursor.ring].more = at[0] & kAddressBits;
        break;
      case Kind::kSince:
        rings_[cursor.ring].since = at[0] & kAddressBits;
        break;
      case Kind::kChain:
        chain(rings_[cursor.ring], at);
        break;
      case Kind::kThread:
        thread(rings_[cursor.ring], at[0] & kAddressBits);
        break;
      case Kind::kModule:
        if (cursor.at >= rings_[cursor.ring].scanned) module(at);
        break;
      default:
        cursor.count = words;
        return at[1] | 1;
    }
    cursor.at += words;
  }
  torn_rings_ += cursor.at != cursor.head;
  cursor.at = cursor.head;
  return 0;
}

// A chain in one ring may lie in a module whose record is in another ring, published earlier but behind the heads that
// this round has read. The counter tells; then every ring is looked through for modules first.
void Process::look_for_modules() {
  if (session_.header().modules_sent.load(std::memory_order_acquire) == modules_seen_) return;
  for (std::uint32_t index = 0; index < rings_in_use(); ++index) {
    Cursor cursor = cursor_of(index);
    cursor.at = std::min(std::max(cursor.at, rings_[index].scanned), cursor.head);
    for (; const std::uint64_t words = cursor.whole(); cursor.at += words) {
      if (kind_of(*cursor.record()) == Kind::kModule) module(cursor.record());
    }
    rings_[index].scanned = cursor.head;
  }
}

std::uint32_t Process::rings_in_use() {
  const std::uint32_t used = std::min(session_.header().highest_ring.load(std::memory_order_acquire), most_rings_);
  if (used > rings_.size()) rings_.resize(used);
  return used;
}

// What is to be read of a ring. Nothing of one that the program has written over.
Process::Cursor Process::cursor_of(std::uint32_t index) const {
  const std::uint64_t words = session_.ring_bytes() / 8;
  const std::uint64_t tail = session_.ring(index).tail.load(std::memory_order_relaxed);
  const std::uint64_t head = session_.ring(index).head.load(std::memory_order_acquire);
  return {head - tail <= words ? tail : head, head, index, session_.words(index), words - 1};
}

inline std::uint32_t Process::chain_of(std::uint64_t number) const {
  return number < by_number_.size() ? by_number_[number] : kNoChain;
}

// False: its chain is not known.
[[gnu::always_inline]] inline bool Process::owned(Kind kind, const Owned& owned, std::uint64_t stamp) {
  const std::uint32_t chain = chain_of(owned.owner.chain());
  if (chain == kNoChain) [[unlikely]]
    return false;
  const std::uint32_t number = owned.owner.thread();
  Block block;
  block.stamp = stamp;
  block.bytes = owned.size;
  block.thread = number < thread_by_number_.size() ? thread_by_number_[number] : 0;
  block.chain = chain;
  block.blocks = 1;
  if (kind == Kind::kOwned) {
    accounts_.allocated(block, owned.size);
  } else if (kind == Kind::kBack) {
    accounts_.allocated(block, owned.size, false);
    accounts_.frees -= 1;
  } else {
    accounts_.freed(block, kind == Kind::kGoneAtOnce);
  }
  return true;
}

// Where stamps of two processors differ by a little, a thread's first event of a chain may come before the chain.
void Process::take_unnumbered() {
  std::erase_if(unnumbered_, [&](const Unnumbered& event) { return owned(event.kind, event.owned, event.stamp); });
}

inline void Process::take(Cursor& cursor) {
  const std::uint64_t* at = cursor.record();
  const std::uint64_t address = at[0] & kAddressBits;
  const Kind kind = is_brief(at[0]) ? kind_of_brief(at[0]) : kind_of(at[0]);
  ++events_;
  if (kind >= Kind::kOwned) [[likely]] {  // next_stamp() has seen to the rest
    RingAccount& ring = rings_[cursor.ring];
    std::uint64_t since_start = ring.since;
    Owned event;
    if (is_brief(at[0])) [[likely]] {
      event = owned_of_brief(at[0]);
    } else {
      event = Owned::of(at[1]);
      event.size |= std::exchange(ring.more, 0) << Owner::kSizeBits;
      since_start = address;
    }
    const std::uint64_t when = start_stamp_ + since_start;
    cursor.at += cursor.count;
    if (!owned(kind, event, when)) [[unlikely]] {
      if (unnumbered_.size() < kUnnumbered)
        unnumbered_.push_back({kind, event, when});
      else
        ++unknown_chains_;
    }
    return;
  }
  switch (kind) {
    case Kind::kAlloc:
    case Kind::kSample: {
      const bool of_class = kind == Kind::kSample;
      const std::uint64_t size = at[2] & kAddressBits, drawn_by = of_class ? at[4] : size;
      allocation(cursor.ring, address, at[1], size, {drawn_by, static_cast<unsigned>(at[2] >> 56 & 63)}, at[3]);
      break;
    }
    case Kind::kFree:
    case Kind::kMove:
      release(cursor.ring, address, at[1], kind == Kind::kMove);
      break;
    case Kind::kStay: {
      RingAccount& ring = rings_[cursor.ring];
      if (ring.moved.address == address && live_.find(address) == nullptr) {
        live_.insert(ring.moved);
        accounts_.allocated(ring.moved, ring.moved_size, false);
        accounts_.frees -= ring.moved.blocks;
      }
      break;
    }
    case Kind::kMark:
      mark(at);
      break;
    default:  // next_stamp() has seen to it
      break;
  }
  cursor.at += cursor.count;
}

bool Process::drain(std::uint64_t limit) {
  session_.header().bell.expect();
  cursors_.clear();
  const std::uint32_t rings = rings_in_use();
  for (std::uint32_t index = 0; index < rings; ++index) {
    const Cursor cursor = cursor_of(index);
    if (cursor.head == session_.ring(index).tail.load(std::memory_order_relaxed)) continue;
    torn_rings_ += cursor.at == cursor.head;
    cursors_.push_back(cursor);
  }
  if (cursors_.empty()) return false;
  look_for_modules();
  // The ring with the oldest event first, for as long as it stays the oldest.
  struct Head {
    std::uint64_t stamp;
    std::size_t cursor;
    bool operator<(const Head& other) const { return stamp > other.stamp; }
  };
  std::vector<Head> heads;
  const auto read_up_to = [&](const Cursor& cursor) {
    session_.ring(cursor.ring).tail.store(cursor.at, std::memory_order_release);
  };
  for (std::size_t index = 0; index < cursors_.size(); ++index) {
    if (const std::uint64_t next = next_stamp(cursors_[index]))
      heads.push_back({next, index});
    else
      read_up_to(cursors_[index]);
  }
  if (accounts_.threads.empty() && !heads.empty())  // the program has written over who it is
    thread(rings_[cursors_[heads[0].cursor].ring], 0);
  std::make_heap(heads.begin(), heads.end());
  bool taken_any = false;
  while (!heads.empty() && heads.front().stamp <= limit) {
    taken_any = true;
    std::pop_heap(heads.begin(), heads.end());
    Head head = heads.back();
    heads.pop_back();
    Cursor& cursor = cursors_[head.cursor];
    const std::uint64_t other = heads.empty() ? limit : std::min(limit, heads.front().stamp);
    unsigned taken = 0;
    do {
      take(cursor);
      if (++taken % 512 == 0) read_up_to(cursor);  // the program may be waiting for room
      head.stamp = next_stamp(cursor);
    } while (head.stamp != 0 && head.stamp <= other);
    read_up_to(cursor);
    if (head.stamp != 0) {
      heads.push_back(head);
      std::push_heap(heads.begin(), heads.end());
    }
  }
  for (const Head& head : heads) read_up_to(cursors_[head.cursor]);
  if (!unnumbered_.empty()) [[unlikely]]
    take_unnumbered();
  return taken_any;
}

// What follows in this ring is of this thread.
void Process::thread(RingAccount& ring, std::uint64_t owner) {
  const auto id = static_cast<std::uint32_t>(owner);
  const auto number = static_cast<std::uint32_t>(owner >> 32) % Owner::kThreads;
  tasks_.begun(id);
  const std::size_t most = std::min<std::size_t>(budget_.most_threads(), 65536), known = accounts_.threads.size();
  const auto [found, fresh] = thread_by_id_.try_emplace(id, static_cast<std::uint16_t>(std::min(known, most - 1)));
  if (fresh && known < most) {
    Thread thread;
    thread.id = known < most - 1 ? id : 0;
    thread.name = known < most - 1 ? tasks_.name_of(id) : "(all others)";
    accounts_.threads.push_back(thread);
  }
  const std::uint64_t scanned = ring.scanned;
  ring = RingAccount{};
  ring.scanned = scanned;
  ring.thread = found->second;
  if (number >= thread_by_number_.size()) thread_by_number_.resize(number + 1);
  thread_by_number_[number] = ring.thread;
}

// A thread's very last frees come after its last destructor, and take a ring that nobody gives back.
void Process::take_rings_of_the_dead() {
  const std::uint32_t rings = rings_in_use();
  const bool scarce = rings > most_rings_ / 4;
  if (!scarce && now_ < last_ring_check_ + 200'000) return;
  last_ring_check_ = now_;
  for (std::uint32_t index = 0; index < rings; ++index) {
    Ring& ring = session_.ring(index);
    std::uint64_t owner = ring.owner.load(std::memory_order_acquire);
    if (owner != 0 && tasks_.ended(static_cast<std::uint32_t>(owner))) ring.owner.compare_exchange_strong(owner, 0);
  }
}

void Process::chain(RingAccount& ring, const std::uint64_t* words) {
  const auto count = static_cast<std::uint32_t>(words[0] & 0xffffffff);
  const std::uint64_t end = words[0] >> 32 & 0xffffff, number = words[1] & 0xffffffff, told = words[1] >> 32;
  if (told > ring.nodes.size() || told + count > kFrames) return;  // the program has written over its ring
  ring.nodes.resize(told);
  std::uint32_t node = told == 0 ? CallTree::kRoot : ring.nodes.back();
  if (told == 0 && end != 0)
    node = accounts_.tree.child(node, Modules::kNone, end);  // where it hangs, for it has no root
  for (std::uint32_t index = count; index-- > 0;) {
    std::uint64_t offset;
    const std::uint32_t in = modules_.locate(words[2 + index] - 1, offset);  // of the call, not of what follows it
    node = accounts_.tree.child(node, in, offset);
    ring.nodes.push_back(node);
  }
  if (number >= Owner::kChains || chain_of(number) != kNoChain) return;
  const auto [found, fresh] = by_node_.try_emplace(node, static_cast<std::uint32_t>(accounts_.chains.size()));
  if (fresh) {
    Chain chain{node};
    chain.cut = end != 0;
    chains_cut_ += end == 1;
    accounts_.chains.push_back(chain);
  }
  if (number >= by_number_.size()) by_number_.resize(number + 1, kNoChain);
  by_number_[number] = found->second;
}

void Process::module(const std::uint64_t* words) {
  ++modules_seen_;
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
  lost_modules_ += !modules_.add(std::move(module), room(FileBudget::kModule));
}

[[gnu::always_inline]] inline void Process::allocation(std::uint32_t ring_index, std::uint64_t address,
                                                       std::uint64_t stamp, std::uint64_t size, const Drawn& drawn,
                                                       std::uint64_t chain_number) {
  RingAccount& ring = rings_[ring_index];
  ring.last_allocation = drawn.log2_interval == 0 ? address : 0;
  ++samples_;
  const std::uint32_t chain = chain_of(chain_number);
  if (chain == kNoChain) [[unlikely]] {
    ++unknown_chains_;
    return;
  }
  const double stands_for = blocks_of_sample(drawn.bytes, drawn.log2_interval);
  Block block;
  block.address = address;
  block.stamp = stamp;
  block.bytes = static_cast<std::uint64_t>(static_cast<double>(size) * stands_for + 0.5);
  block.thread = ring.thread;
  block.chain = chain;
  block.blocks = static_cast<float>(stands_for);
  if (!early_frees_.empty()) [[unlikely]] {
    const auto early = early_frees_.find(address);
    if (early != early_frees_.end()) {
      const bool of_this = early->second.block.stamp >= stamp;
      early_frees_.erase(early);
      if (of_this) {
        accounts_.allocated(block, size);
        accounts_.freed(block, false);
        return;
      }
      if (!thinned_) ++unknown_frees_;
    }
  }
  if (live_.find(address) != nullptr) [[unlikely]] {
    late_allocations_.emplace(address, Waiting{now_, block, size});
    return;
  }
  live_.insert(block);
  accounts_.allocated(block, size);
}

[[gnu::always_inline]] inline void Process::release(std::uint32_t ring_index, std::uint64_t address,
                                                    std::uint64_t stamp, bool move) {
  RingAccount& ring = rings_[ring_index];
  const bool temporary = ring.last_allocation == address && !move;
  ring.last_allocation = 0;
  Block* block = live_.find(address);
  if (block == nullptr) {
    early_frees_.emplace(address, Waiting{now_, {address, stamp, 0, 0, 0, 0}, 0});
    return;
  }
  if (move) {
    ring.moved = *block;
    ring.moved_size = block->bytes;
  }
  accounts_.freed(*block, temporary);
  live_.erase(block);
  if (!late_allocations_.empty()) [[unlikely]] {
    const auto [first, last] = late_allocations_.equal_range(address);
    if (first == last) return;
    auto oldest = first;
    for (auto at = first; at != last; ++at) {
      if (at->second.block.stamp < oldest->second.block.stamp) oldest = at;
    }
    live_.insert(oldest->second.block);
    accounts_.allocated(oldest->second.block, oldest->second.size);
    late_allocations_.erase(oldest);
  }
}

void Process::give_up_waiting(bool all) {
  std::erase_if(early_frees_, [&](const auto& entry) {
    if (!all && now_ < entry.second.since + kPatience) return false;
    if (!thinned_) ++unknown_frees_;  // else of a block that was thinned away
    return true;
  });
  for (auto at = late_allocations_.begin(); at != late_allocations_.end();) {
    if (!all && now_ < at->second.since + kPatience) {
      ++at;
      continue;
    }
    // The free of what lived there was lost.
    ++lost_frees_;
    if (Block* block = live_.find(at->first)) {
      accounts_.freed(*block, false);
      live_.erase(block);
    }
    live_.insert(at->second.block);
    accounts_.allocated(at->second.block, at->second.size);
    at = late_allocations_.erase(at);
  }
}

void Process::mark(const std::uint64_t* words) {
  const std::string name(reinterpret_cast<const char*>(words + 2), words[0] & kAddressBits);
  lost_marks_ += !snapshot("mark", name, microseconds(words[1]), false);
}

// Keeps each live block with the probability it would have been sampled with at this interval, weighted anew, and
// forgets the others: the way from one interval to a larger one.
void Process::thin(unsigned log2) {
  std::uint64_t random = now_stamp_ | 1;
  thinned_ = true;
  for (const Block& block : live_.all()) {
    const double size = static_cast<double>(block.bytes) / std::max(1.0f, block.blocks);
    const double wanted = blocks_of_sample(static_cast<std::uint64_t>(size + 0.5), log2);
    if (wanted <= block.blocks) continue;
    const double u = static_cast<double>(next_random(random) >> 11) * 0x1p-53;
    const bool stays = u < block.blocks / wanted;
    Block* here = live_.find(block.address);
    accounts_.freed(*here, false);
    accounts_.frees -= block.blocks;
    if (!stays) {
      set_.erase(block.address, block.stamp);
      live_.erase(here);
      continue;
    }
    here->blocks = static_cast<float>(wanted);
    here->bytes = static_cast<std::uint64_t>(size * wanted + 0.5);
    accounts_.allocated(*here, 0, false);
  }
}

// Whether the program waits for us: a quarter of a fifth of a second, by the naps of about 0.1 ms its threads took. A
// table that grows, or a burst, holds it up for less.
bool Process::falls_behind() {
  constexpr std::uint64_t kWindow = 200'000, kNaps = 500;
  const std::uint64_t naps = session_.header().naps.load(std::memory_order_relaxed);
  if (now_ < naps_from_ + kWindow) return false;
  const bool behind = naps - naps_ > kNaps;
  naps_ = naps;
  naps_from_ = now_;
  return behind;
}

// A sample costs about a microsecond: the interval doubles while there are more of them a second than that allows, and
// comes down again when there are few. Each sample says at which interval it was drawn, so no sum is biased. A small
// heap that turns over fast gets more of them, for else its size would be noise; and so does who asked for every event.
void Process::keep_rate() {
  constexpr std::uint64_t kWindow = 50'000;
  constexpr double kExcused = 50'000, kMost = 4000, kForSmall = 16'000;  // samples a second
  if (exact()) return;
  const std::uint32_t interval = log2_interval_;
  const bool coarse = accounts_.bytes >> 8 < std::int64_t{1} << interval;
  const double most = stepped_ ? kExcused : coarse ? kForSmall : kMost, few = most / 8;
  const double window = static_cast<double>(std::max(now_ - rate_from_, kWindow)) * 1e-6;
  const double rate = static_cast<double>(samples_ - rate_samples_) / window;  // at least, of one that is not over
  if (rate <= most && now_ < rate_from_ + kWindow) return;
  rate_from_ = now_;
  rate_samples_ = samples_;
  if (first_interval_ == 0) first_interval_ = interval;
  if (rate > most) {
    const auto steps = static_cast<std::uint32_t>(std::ceil(std::log2(rate / most)));
    sample_every(std::min(interval + steps, 40u));
  } else if (rate < few && interval > std::max(first_interval_, least_interval_)) {
    sample_every(interval - 1);
  }
  widest_interval_ = std::max(widest_interval_, log2_interval_);
}

void Process::sample_every(std::uint32_t log2_interval) {
  log2_interval_ = log2_interval;
  session_.header().log2_interval.store(log2_interval, std::memory_order_relaxed);
}

bool Process::runs() {
  if (now_ < last_life_check_ + 200'000) return true;
  last_life_check_ = now_;
  const std::uint64_t now = executable(pid());
  return exe_ == 0 || now == 0 || now == exe_;  // 0: it has ended, which its pid file will tell
}

void Process::tick() {
  calibrate();
  session_.header().activity.begin_anew();
  take_rings_of_the_dead();
  if (!early_frees_.empty() || !late_allocations_.empty()) give_up_waiting(false);
  // What lives by then is known to the byte until it is freed; what comes later is sampled.
  if (falls_behind() && limits_.may_step && mode_ == Mode::kExact) {
    sample_every(14);
    mode_ = Mode::kSampled;
    session_.header().mode.store(mode_);
    session_.header().activity.begin_anew();
    stepped_ = true;
    rate_from_ = now_;
    rate_samples_ = samples_;
    snapshot("step", "the collector could not keep up with every event: sampled from here on", now_, false);
  }
  keep_rate();
  if (!exact() && live_.size() > limits_.live_samples) {
    least_interval_ = log2_interval_ + 1;
    sample_every(least_interval_);
    drain();  // frees on their way
    thin(least_interval_);
    snapshot("step", "sampled at twice the interval from here on", now_, false);
  }
  const double interval = exact() ? 0 : static_cast<double>(std::uint64_t{1} << log2_interval_);
  pace_.keep(budget_.share(used(), aside()), now_);
  accounts_.propagate();
  recorder_.look(accounts_.tree, now_, interval, pace_);
  totals(false);
  const std::uint64_t pause = std::max<std::uint64_t>(1'000'000, now_ / 60);
  const std::size_t pending = recorder_.pending().size() + totals_.size();
  const bool spare = pace_.limited() && pending < kFewBytes;  // their chunks would be larger than they
  if (pending > std::min(kFlushBytes, limits_.file_bytes / 16) || now_ > flushed_ + (spare ? 4 * pause : pause))
    flush();
  if (accounts_.peak_bytes > peak_bytes_written_ + peak_bytes_written_ / 10 && now_ > peak_written_ + 10 * pause) {
    snapshot("peak", "", microseconds(accounts_.peak_stamp), true);
    peak_bytes_written_ = accounts_.peak_bytes;
    peak_written_ = now_;
  }
}

void Process::totals(bool force) {
  if (statm_ >= 0) {
    char text[128];
    const ssize_t length = pread(statm_, text, sizeof text - 1, 0);
    if (length > 0) {
      text[length] = '\0';
      char* end = nullptr;
      std::strtoull(text, &end, 10);
      const std::uint64_t own = session_.header().own_bytes.load(std::memory_order_relaxed);
      rss_ = static_cast<std::int64_t>(std::strtoull(end, nullptr, 10) * 4096 - own);
    }
  }
  const auto differs = [](std::int64_t now, std::int64_t then) {
    return std::abs(now - then) > std::max<std::int64_t>(then / 100, 4096);
  };
  // Where no change is recorded for a while, a few of these are.
  const std::uint64_t least = pace_.recording() ? pace_.shortest(now_) : now_ / 8;
  const bool due =
      now_ >= totals_recorded_ + least && (pace_.recording() || room(FileBudget::kChunk)) &&
      (differs(accounts_.high, totals_bytes_) || differs(accounts_.low, totals_bytes_) || differs(rss_, rss_recorded_));
  if (!due && !force) return;
  totals_.number(now_ - totals_last_);
  totals_.number(static_cast<std::uint64_t>(std::max<std::int64_t>(0, accounts_.bytes)));
  totals_.number(static_cast<std::uint64_t>(std::max<std::int64_t>(0, accounts_.bytes - accounts_.low)));
  totals_.number(static_cast<std::uint64_t>(std::max<std::int64_t>(0, accounts_.high - accounts_.bytes)));
  totals_.number(static_cast<std::uint64_t>(std::max(0.0, accounts_.blocks) + 0.5));
  totals_.number(static_cast<std::uint64_t>(std::max<std::int64_t>(0, rss_)));
  totals_.number(static_cast<std::uint64_t>(accounts_.allocations + 0.5));
  totals_.number(static_cast<std::uint64_t>(std::max(0.0, accounts_.frees) + 0.5));
  totals_last_ = totals_recorded_ = now_;
  totals_bytes_ = accounts_.low = accounts_.high = accounts_.bytes;
  rss_recorded_ = rss_;
}

std::uint64_t Process::used() const {
  constexpr std::uint64_t kNode = 8;
  return file_->bytes() + recorder_.pending().size() + totals_.size() +
         (accounts_.tree.size() - nodes_written_) * kNode + (modules_.size() - modules_written_) * FileBudget::kModule;
}

std::uint64_t Process::aside() const {
  return FileBudget::aside(accounts_.tree.size(), accounts_.chains.size(), accounts_.threads.size(), file_->chunks());
}

bool Process::snapshot(const char* kind, const std::string& name, std::uint64_t at, bool peak, bool provided) {
  flush();  // nodes first
  Bytes out;
  out.text(kind);
  out.text(name);
  out.number(static_cast<std::uint64_t>(std::max<std::int64_t>(0, peak ? accounts_.peak_bytes : accounts_.bytes)));
  const std::size_t head = out.size();
  for (const Chain& chain : accounts_.chains) {
    const std::int64_t bytes = peak ? accounts_.at_peak(chain) : chain.bytes;
    const double blocks = peak ? accounts_.blocks_at_peak(chain) : chain.blocks;
    if (bytes <= 0 && blocks < 0.5) continue;
    out.number(chain.node);
    out.number(static_cast<std::uint64_t>(std::max<std::int64_t>(0, bytes)));
    out.number(static_cast<std::uint64_t>(std::max(0.0, blocks) + 0.5));
    const double variance = peak ? accounts_.variance_at_peak(chain) : chain.variance;
    out.number(static_cast<std::uint64_t>(std::sqrt(std::max(0.0, variance)) + 0.5));
  }
  // Of what is on the way they may have a part, for they are large, and a program may ask for any number of marks.
  const bool whole = provided || (room(out.size()) && compositions_ + out.size() <= limits_.file_bytes / 4);
  if (!whole && std::strcmp(kind, "step") != 0) return false;
  // That something else is recorded from here on is said in any case.
  const std::uint64_t before = file_->bytes();
  file_->write(Chunk::kSnapshot, out.view().substr(0, whole ? out.size() : head), at, at);
  compositions_ += file_->bytes() - before;
  return true;
}

void Process::flush() {
  Bytes out;
  modules_.write(out, modules_written_);
  if (!out.empty()) file_->write(Chunk::kModules, out.view(), flushed_, now_);
  modules_written_ = modules_.size();
  out.clear();
  if (accounts_.tree.size() > nodes_written_) {
    out.number(nodes_written_);
    accounts_.tree.write(out, nodes_written_);
    file_->write(Chunk::kNodes, out.view(), flushed_, now_);
    nodes_written_ = accounts_.tree.size();
  }
  if (!recorder_.pending().empty()) {
    file_->write(Chunk::kChanges, recorder_.pending().view(), flushed_changes_, recorder_.last_time());
    flushed_changes_ = recorder_.last_time();
    recorder_.pending().clear();
  }
  if (!totals_.empty()) {
    file_->write(Chunk::kTotals, totals_.view(), totals_from_, totals_last_);
    totals_from_ = totals_last_;
    totals_.clear();
  }
  flushed_ = now_;
}

void Process::finish(const char* how) {
  calibrate();
  while (drain()) {
  }
  drain(~std::uint64_t{0});
  unknown_chains_ += unnumbered_.size();
  give_up_waiting(true);
  accounts_.propagate();
  recorder_.look(accounts_.tree, now_, exact() ? 0 : static_cast<double>(std::uint64_t{1} << log2_interval_));
  recorder_.finish(accounts_.tree, now_);
  totals(true);
  snapshot("peak", "", microseconds(accounts_.peak_stamp), true, true);
  snapshot("end", "", now_, false, true);
  Bytes out;
  for (const Chain& chain : accounts_.chains) {
    out.number(chain.node);
    out.number(chain.cut);
    out.number(static_cast<std::uint64_t>(chain.allocations + 0.5));
    out.number(static_cast<std::uint64_t>(chain.allocated + 0.5));
    out.number(static_cast<std::uint64_t>(chain.temporary + 0.5));
    out.number(static_cast<std::uint64_t>(chain.own_peak));
  }
  file_->write(Chunk::kChains, out.view(), 0, now_);
  out.clear();
  for (const Thread& thread : accounts_.threads) {
    out.number(thread.id);
    out.text(thread.name);
    out.number(static_cast<std::uint64_t>(thread.allocations + 0.5));
    out.number(static_cast<std::uint64_t>(thread.allocated + 0.5));
    out.number(static_cast<std::uint64_t>(std::max<std::int64_t>(0, thread.bytes)));
    out.number(static_cast<std::uint64_t>(thread.own_peak));
  }
  file_->write(Chunk::kThreads, out.view(), 0, now_);
  out.clear();
  for (std::size_t bin = 0; bin < SizeHistogram::kBins; ++bin) {
    if (accounts_.sizes.blocks[bin] == 0) continue;
    out.number(bin);
    out.number(static_cast<std::uint64_t>(accounts_.sizes.blocks[bin] + 0.5));
    out.number(static_cast<std::uint64_t>(accounts_.sizes.bytes[bin] + 0.5));
  }
  file_->write(Chunk::kSizes, out.view(), 0, now_);
  const Header& header = session_.header();
  std::ostringstream json;
  json.precision(17);
  json << "{\"how\": " << json_text(how) << ", \"microseconds\": " << now_ << ", \"mode\": \"" << name_of(mode_)
       << "\", \"interval\": " << (exact() ? 0 : std::uint64_t{1} << log2_interval_)
       << ", \"widest_interval\": " << (widest_interval_ == 0 ? 0 : std::uint64_t{1} << widest_interval_)
       << ", \"rate\": " << pace_.coarsest_rate() << ", \"events\": " << events_
       << ", \"records\": " << recorder_.records()
       << ", \"allocations\": " << static_cast<std::uint64_t>(accounts_.allocations + 0.5)
       << ", \"frees\": " << static_cast<std::uint64_t>(std::max(0.0, accounts_.frees) + 0.5)
       << ", \"peak_bytes\": " << accounts_.peak_bytes << ", \"peak_at\": " << microseconds(accounts_.peak_stamp)
       << ", \"waits\": " << header.waits.load() << ", \"lost\": {\"nested\": " << header.lost.nested.load()
       << ", \"no_ring\": " << header.lost.no_ring.load() << ", \"ring_full\": " << header.lost.ring_full.load()
       << ", \"set_full\": " << header.lost.set_full.load() << ", \"frees\": " << lost_frees_ + header.lost.frees.load()
       << ", \"unknown_frees\": " << unknown_frees_ + header.lost.unknown.load()
       << ", \"unknown_chains\": " << unknown_chains_ << ", \"torn_rings\": " << torn_rings_
       << ", \"nodes\": " << accounts_.tree.refused() << ", \"marks\": " << lost_marks_
       << ", \"modules\": " << lost_modules_ << "}, \"chains_cut\": " << chains_cut_
       << ", \"chains_torn\": " << header.lost.chains_torn.load() << "}";
  file_->write(Chunk::kEnd, json.view(), now_, now_);
  file_->finish(now_ > kLong);  // in a build of many short programs, the others would wait
  session_.header().mode.store(Mode::kOff);
  session_.header().activity.begin_anew();
}

}  // namespace heapyard::tracer
