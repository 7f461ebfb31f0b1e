// SPDX-License-Identifier: Apache-2.0
// Latencies of single operations in logarithmic buckets, each octave cut into 32: relative error of a quantile
// under 3.2 %.
//
// Fixed size (no allocation); add is O(1), merge and quantile O(buckets). One thread writes; merge after the threads
// are done.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace heapyard::kit {

class LatencyHistogram {
 public:
  static constexpr unsigned kSubBits = 5;
  static constexpr std::size_t kBuckets = (64 - kSubBits + 1) << kSubBits;

  void add(std::uint64_t value) {
    ++counts_[bucket(value)];
    ++total_;
    if (value > max_) max_ = value;
  }

  void merge(const LatencyHistogram& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
    if (other.max_ > max_) max_ = other.max_;
  }

  // Smallest bucket bound below which at least `share` of the values lie; the exact maximum for share 1; 0 when empty.
  std::uint64_t quantile(double share) const {
    if (total_ == 0) return 0;
    const double wanted = share * static_cast<double>(total_);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += counts_[i];
      if (static_cast<double>(seen) >= wanted && seen > 0) return upper(i) < max_ ? upper(i) : max_;
    }
    return max_;
  }

  std::uint64_t total() const { return total_; }
  std::uint64_t max() const { return max_; }

  static constexpr std::size_t bucket(std::uint64_t value) {
    if (value < (1u << kSubBits)) return static_cast<std::size_t>(value);
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kSubBits - 1;
    return (static_cast<std::size_t>(shift + 1) << kSubBits) + ((value >> shift) & ((1u << kSubBits) - 1));
  }

  // Largest value that falls into bucket i.
  static constexpr std::uint64_t upper(std::size_t i) {
    if (i < (1u << kSubBits)) return i;
    const unsigned shift = static_cast<unsigned>(i >> kSubBits) - 1;
    const std::uint64_t sub = (i & ((1u << kSubBits) - 1)) | (1u << kSubBits);
    return (sub << shift) + ((std::uint64_t{1} << shift) - 1);
  }

 private:
  std::uint64_t counts_[kBuckets];
  std::uint64_t total_;
  std::uint64_t max_;
};

}  // namespace heapyard::kit
