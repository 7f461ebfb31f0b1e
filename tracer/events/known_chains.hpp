// The call chains of which a thread has told the collector, with their numbers.
//
// Idea: a table of words, hash and number in one, with one place per hash, in which a chain may drive out another,
// which is then told again. It doubles once it is half full, so few chains touch little memory. The entries of a large
// one lie far apart: those in use of late are kept closer together besides. Two chains are taken for one if 51 bits of
// their hashes are the same. Cost: O(1); growing O(1) per entry, amortised. All zero at first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tracer/events/chain_numbers.hpp"

namespace heapyard::tracer {

class KnownChains {
 public:
  // The chain will be asked for: where it is, is fetched from memory meanwhile.
  [[gnu::always_inline]] void expect(std::uint64_t hash) const {
    __builtin_prefetch(&recent_[hash & (kRecent - 1)], 1);
    __builtin_prefetch(&words_[hash & (size() - 1)]);
  }
  // The chain's number, or 0.
  std::uint64_t number_of(std::uint64_t hash) {
    std::uint64_t& recent = recent_[hash & (kRecent - 1)];
    if ((recent ^ hash) <= kNumber) return recent & kNumber;  // of no chain, there is no number either
    const std::uint64_t word = words_[hash & (size() - 1)];
    if ((word ^ hash) > kNumber) return 0;
    if (size() >= kLarge) recent = word;
    return word & kNumber;
  }
  // `numbers`: where the number is from.
  void add(std::uint64_t hash, std::uint64_t number, const ChainNumbers& numbers) {
    if (count_ >= size() / 2 && size() < kMost) grow(numbers);
    std::uint64_t& word = words_[hash & (size() - 1)];
    count_ += word == 0;
    word = (hash & ~kNumber) | number;
  }
  void forget() {
    std::memset(words_, 0, size() * sizeof *words_);
    if (size() >= kLarge) std::memset(recent_, 0, sizeof recent_);  // else nothing was put there
    count_ = 0;
  }

 private:
  static constexpr std::size_t kFirst = 1 << 9, kMost = 1 << 17, kLarge = 1 << 13, kRecent = 1 << 12;
  static constexpr std::uint64_t kNumber = Owner::kChains - 1;

  std::size_t size() const { return kFirst << doublings_; }
  // An entry stays where it is, or goes up by the former size.
  void grow(const ChainNumbers& numbers) {
    const std::size_t before = size();
    ++doublings_;
    for (std::size_t index = 0; index < before; ++index) {
      if ((numbers.hash_of(words_[index] & kNumber) & before) == 0) continue;
      words_[index + before] = words_[index];
      words_[index] = 0;
    }
  }

  unsigned doublings_;
  std::size_t count_;
  std::uint64_t recent_[kRecent];  // of a large table
  std::uint64_t words_[kMost];
};

}  // namespace heapyard::tracer
