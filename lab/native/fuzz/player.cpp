// SPDX-License-Identifier: Apache-2.0
#include "player.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "finding.hpp"
#include "generator.hpp"

namespace heapyard::fuzz {
namespace {

constexpr std::size_t kMostSize = PTRDIFF_MAX;
constexpr std::size_t kImpossible = std::size_t{1} << 47;  // more than a process can address
constexpr std::size_t kSurely = std::size_t{1} << 27;      // what is there unless memory is limited
constexpr std::size_t kPageBytes = 4096;
constexpr unsigned kChildSeconds = 30;
constexpr std::uint64_t kLook = 1 << 15;  // operations of a thread between two looks at the process's memory

// Of malloc: C demands what an object of this size can need, the ABI 16 bytes for those of 16 and more.
std::size_t natural_alignment(std::size_t size) {
  std::size_t alignment = 16;
  while (alignment > size && alignment > 1) alignment /= 2;
  return alignment;
}

bool overflows(std::size_t count, std::size_t size) { return size != 0 && count > SIZE_MAX / size; }

bool is_cxx(Origin origin) { return origin >= Origin::kNew; }

template <class Make>
void* caught(Make make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// More address space than the process has now by so many bytes.
void limit_address_space(std::uint64_t more) {
  std::uint64_t pages = 0;
  if (std::FILE* const file = std::fopen("/proc/self/statm", "re"); file != nullptr) {
    if (std::fscanf(file, "%ju", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * kPageBytes + more;
  setrlimit(RLIMIT_AS, &limit);
}

}  // namespace

void Player::begin(Yard& yard, unsigned thread, Block* blocks) {
  yard_ = &yard;
  thread_ = thread;
  numbers_ = std::uint64_t{thread} << 40;
  for (unsigned slot = 0; slot < kSlots; ++slot) slots_[slot] = blocks + slot;
}

void Player::play(const Operation& operation) {
  now_ = operation;
  Progress& at = progress[thread_];
  at.call.store(static_cast<std::uint8_t>(operation.call), std::memory_order_relaxed);
  const std::uint64_t done = at.done.load(std::memory_order_relaxed) + 1;
  at.done.store(done, std::memory_order_relaxed);
  if (done % kLook == 0) look_at_memory();
  Block& block = *slots_[operation.slot];
  switch (operation.call) {
    case Call::kRealloc:
    case Call::kReallocarray:
      return reallocate(block, operation);
    case Call::kRelease:
      return release(block, operation.other != 0);
    case Call::kLook:
      return look(block, "later");
    case Call::kUseAll:
      return use_all(block);
    case Call::kGive:
      slots_[operation.slot] = yard_->mailboxes[operation.other].exchange(&block);
      return;
    case Call::kAsk:
      if (yard_->own.ask != nullptr) yard_->own.ask();
      return;
    case Call::kTrim:
      if (yard_->own.trim != nullptr) yard_->own.trim(0);
      return;
    case Call::kFork:
    case Call::kForkLimited:
      return fork_child(operation);
    case Call::kEndThread:
    case Call::kEnd:
      return;
    default:
      release(block, false);
      return allocate(block, operation);
  }
}

void Player::allocate(Block& block, const Operation& operation) {
  std::size_t size = operation.size, alignment = 0;
  Origin origin = Origin::kPlain;
  errno = 0;
  void* const at = call_for(operation, size, alignment, origin);
  if (at == nullptr) return judge_refusal(size + alignment < size ? SIZE_MAX : size, is_cxx(origin));
  if (size > kMostSize || size >= kImpossible) report("impossible", "gave %p for more than a process can address", at);
  if (operation.call == Call::kCalloc) {
    const auto* const bytes = static_cast<const unsigned char*>(at);
    each_part(size, [&](std::size_t offset, std::size_t count) {
      for (std::size_t place = offset; place < offset + count; ++place) {
        if (bytes[place] != 0) report("stale", "byte %zu of %zu is %u instead of 0", place, size, bytes[place]);
      }
    });
  }
  take_in(block, at, size, alignment, origin);
}

// Makes the call. `size`: what the block must have at least then; SIZE_MAX if it overflows.
void* Player::call_for(const Operation& operation, std::size_t& size, std::size_t& alignment, Origin& origin) {
  const Interface& own = yard_->own;
  const auto asked = static_cast<std::align_val_t>(operation.other);
  switch (operation.call) {
    case Call::kCalloc:
      size = overflows(operation.other, size) ? SIZE_MAX : operation.other * size;
      return calloc(operation.other, operation.size);
    case Call::kAlignedAlloc:
      if (own.aligned_alloc == nullptr) break;
      alignment = operation.other;
      origin = Origin::kAligned;
      return own.aligned_alloc(alignment, size);
    case Call::kPosixMemalign: {
      if (own.posix_memalign == nullptr) break;
      alignment = operation.other;
      void* const untouched = &yard_;
      void* at = untouched;
      const int error = own.posix_memalign(&at, alignment, size);
      if (error == 0) return at;
      if (at != untouched) report("written", "failed, and changed the pointer to %p", at);
      errno = error;
      return nullptr;
    }
    case Call::kMemalign:
      if (own.memalign == nullptr) break;
      alignment = operation.other;
      return own.memalign(alignment, size);
    case Call::kValloc:
      if (own.valloc == nullptr) break;
      alignment = kPageBytes;
      return own.valloc(size);
    case Call::kPvalloc:
      if (own.pvalloc == nullptr) break;
      alignment = kPageBytes;
      return own.pvalloc(size);
    case Call::kNew:
      origin = Origin::kNew;
      return caught([&] { return ::operator new(size); });
    case Call::kNewArray:
      origin = Origin::kNewArray;
      return caught([&] { return ::operator new[](size); });
    case Call::kNewNothrow:
      origin = Origin::kNew;
      return ::operator new(size, std::nothrow);
    case Call::kNewAligned:
      if (!own.news && size > kMostSize) break;
      alignment = operation.other;
      origin = Origin::kNewAligned;
      return caught([&] { return ::operator new(size, asked); });
    case Call::kNewArrayAligned:
      if (!own.news && size > kMostSize) break;
      alignment = operation.other;
      origin = Origin::kNewArrayAligned;
      return caught([&] { return ::operator new[](size, asked); });
    default:
      break;
  }
  return malloc(size);
}

void Player::judge_refusal(std::size_t size, bool throws) const {
  if (size == 0 && !throws) return;  // null is a legal answer to a request for nothing
  if (size < kSurely && !limited_) report("refused", "was refused (errno %d), though memory is not short", errno);
  if (errno != ENOMEM && !throws) report("errno", "was refused with errno %d instead of ENOMEM", errno);
}

void Player::take_in(Block& block, void* at, std::size_t size, std::size_t alignment, Origin origin) {
  const std::size_t least = std::max(alignment, natural_alignment(size));
  if (reinterpret_cast<std::uintptr_t>(at) % least != 0)
    report("alignment", "gave %p, which is not a multiple of %zu", at, least);
  block = {static_cast<unsigned char*>(at), size, size, alignment, ++numbers_, origin};
  if (const unsigned char* const taken = yard_->pages.take(block); taken != nullptr)
    report("overlap", "gave %p, but the page at %p is another live block's", at, static_cast<const void*>(taken));
  live_.add(yard_->live, static_cast<std::int64_t>(block.size));
  fill(block);
}

void Player::look_at_memory() const {
  if (const std::int64_t bytes = yard_->live.too_much(); bytes > 0 && !limited_) {
    report("growth", "the process takes %jd MiB, though blocks had %jd MiB at most",
           static_cast<std::intmax_t>(LiveBytes::resident() >> 20),
           static_cast<std::intmax_t>(yard_->live.peak() >> 20));
  }
}

void Player::look(const Block& block, const char* when) const {
  if (block.at == nullptr) return;
  const std::size_t wrong = first_wrong(block, block.at, block.size);
  if (wrong != block.size) {
    report("contents", "%s, byte %zu of the block of %zu bytes at %p was another", when, wrong, block.size,
           static_cast<const void*>(block.at));
  }
}

void Player::use_all(Block& block) {
  if (block.at == nullptr || yard_->own.usable_size == nullptr || block.size > kSurely) return;
  look(block, "before malloc_usable_size");
  const std::size_t usable = yard_->own.usable_size(block.at);
  if (usable < block.requested)
    report("usable", "says %zu of a block that was asked for with %zu", usable, block.requested);
  yard_->pages.give_back(block);
  live_.add(yard_->live, static_cast<std::int64_t>(usable - block.size));
  block.size = usable;
  if (const unsigned char* const taken = yard_->pages.take(block); taken != nullptr) {
    report("overlap", "says %zu of the block at %p, but the page at %p is another live block's", usable,
           static_cast<const void*>(block.at), static_cast<const void*>(taken));
  }
  fill(block);
}

void Player::release(Block& block, bool sized) {
  if (block.at == nullptr) return;
  look(block, "before its end");
  yard_->pages.give_back(block);
  live_.add(yard_->live, -static_cast<std::int64_t>(block.size));
  const Block gone = block;
  block.at = nullptr;
  const Interface& own = yard_->own;
  const auto aligned = static_cast<std::align_val_t>(gone.alignment);
  constexpr int kMark = 4711;
  errno = kMark;
  // No `sized ? ... : ...` here: Clang 19 makes both calls of operator delete then.
  switch (gone.origin) {
    case Origin::kNew:
      if (sized) return ::operator delete(gone.at, gone.requested);
      return ::operator delete(gone.at);
    case Origin::kNewArray:
      if (sized) return ::operator delete[](gone.at, gone.requested);
      return ::operator delete[](gone.at);
    case Origin::kNewAligned:
      if (sized) return ::operator delete(gone.at, gone.requested, aligned);
      return ::operator delete(gone.at, aligned);
    case Origin::kNewArrayAligned:
      if (sized) return ::operator delete[](gone.at, gone.requested, aligned);
      return ::operator delete[](gone.at, aligned);
    case Origin::kAligned:
      if (sized && own.free_aligned_sized != nullptr)
        own.free_aligned_sized(gone.at, gone.alignment, gone.requested);
      else
        free(gone.at);
      break;
    case Origin::kPlain:
      if (sized && own.free_sized != nullptr && gone.alignment == 0)
        own.free_sized(gone.at, gone.requested);
      else
        free(gone.at);
  }
  if (errno != kMark) report("errno", "free changed errno to %d", errno);
}

void Player::reallocate(Block& block, const Operation& operation) {
  if (is_cxx(block.origin) && block.at != nullptr) release(block, false);
  const bool array = operation.call == Call::kReallocarray && yard_->own.reallocarray != nullptr;
  const std::size_t count = array ? operation.other : 1;
  std::size_t size = overflows(count, operation.size) ? SIZE_MAX : count * operation.size;
  if (size == 0) return;  // C23: undefined; before it, two things
  look(block, "before realloc");
  yard_->pages.give_back(block);
  const Block before = block;
  errno = 0;
  void* const at = array ? yard_->own.reallocarray(block.at, count, operation.size) : realloc(block.at, operation.size);
  if (at == nullptr) {
    judge_refusal(size, false);
    if (before.at == nullptr) return;
    look(block, "after a realloc that was refused");
    yard_->pages.take(block);
    return;
  }
  if (size > kMostSize || size >= kImpossible) report("impossible", "gave %p for more than a process can address", at);
  if (before.at != nullptr) {
    live_.add(yard_->live, -static_cast<std::int64_t>(before.size));
    const std::size_t kept = std::min(size, before.size);
    const std::size_t wrong = first_wrong(before, static_cast<const unsigned char*>(at), kept);
    if (wrong != kept) report("contents", "byte %zu of %zu that are kept of %zu is another", wrong, kept, before.size);
  }
  take_in(block, at, size, 0, Origin::kPlain);
}

void Player::fork_child(const Operation& operation) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) live_as_child(operation);
  if (child < 0) return;  // the machine has no room for one
  int status = 0;
  while (waitpid(child, &status, 0) != child) {  // a timer's signal comes between
    if (errno != EINTR) return;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 1) _exit(1);  // it has told
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    report("hang", "the child did not end within %u s", kChildSeconds);
  if (status != 0) report("crash", "the child ended with status %#x", static_cast<unsigned>(status));
}

// Other threads' blocks are not looked at: they were in the middle of something.
void Player::live_as_child(const Operation& operation) {
  become_child();
  signal(SIGALRM, SIG_DFL);
  alarm(kChildSeconds);
  const unsigned calls = operation.call == Call::kFork ? static_cast<unsigned>(operation.size) : 400;
  if (operation.call == Call::kForkLimited) {
    limit_address_space(operation.size << 20);
    limited_ = true;
  }
  for (const Block* const block : slots_) look(*block, "in a forked child");
  if (limited_) take_all_there_is(operation.other);
  Generator generator(operation.other, thread_, {false, false, false});
  for (unsigned call = 0; call < calls; ++call) {
    const Operation next = generator.next();
    if (next.call != Call::kGive) play(next);  // mailboxes may hold what another thread was about to change
  }
  release_all();
  if (limited_) {  // what was given back serves again
    void* const block = malloc(1000);
    if (block == nullptr) report("refused", "after all was freed under a limit, 1000 bytes were refused");
    free(block);
  }
  _exit(0);
}

// Blocks of one size until there are no more: then the calls that follow are refused or not, and what is given back
// serves again.
void Player::take_all_there_is(std::uint64_t seed) {
  constexpr unsigned kMost = 40'000;
  const std::size_t size = std::size_t{256} << (seed % 10);
  void* first = nullptr;
  unsigned count = 0;
  now_ = {size, 0, 0, static_cast<std::uint8_t>(thread_), Call::kMalloc};
  for (void* block; count < kMost && (block = malloc(size)) != nullptr; ++count) {  // each knows the one before
    *static_cast<void**>(block) = first;
    first = block;
  }
  if (count < kMost && errno != ENOMEM) report("errno", "was refused with errno %d instead of ENOMEM", errno);
  const unsigned kept = seed % 3 == 0 ? 0 : 64;  // some stay while the next calls are made
  while (first != nullptr && count > kept) {
    void* const next = *static_cast<void**>(first);
    free(first);
    first = next;
    if (count-- == 0) report("contents", "there are more blocks than were allocated");
  }
}

void Player::release_all() {
  for (Block* const block : slots_) release(*block, false);
}

void Player::report(const char* kind, const char* format, ...) const {
  char call[160], said[300];
  std::snprintf(call, sizeof call, "%s(size %zu, other %zu): ", kCalls[static_cast<std::size_t>(now_.call)].data(),
                static_cast<std::size_t>(now_.size), static_cast<std::size_t>(now_.other));
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(said, sizeof said, format, arguments);
  va_end(arguments);
  found(thread_, kind, "%s%s", call, said);
}

}  // namespace heapyard::fuzz
