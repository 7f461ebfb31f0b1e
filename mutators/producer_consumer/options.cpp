// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <bit>
#include <string_view>

#include "base/fatal.hpp"
#include "base/options.hpp"

namespace heapyard::producer_consumer {
namespace {

constexpr const char* kModes[] = {"exchange", "ring", "pair"};
constexpr const char* kLaws[] = {"even", "linear", "exp"};
constexpr std::int64_t kMost = std::int64_t{1} << 36;
constexpr std::int64_t kMostSize = 1 << 30;
constexpr std::int64_t kLeastSize = 4;  // an object holds its size

template <class Enum, std::size_t kCount>
Enum chosen(const char* const (&names)[kCount], std::string_view name) {
  std::size_t i = 0;
  while (names[i] != name) ++i;  // bound: parse_options accepted the name
  return static_cast<Enum>(i);
}

}  // namespace

const char* name_of(Mode mode) { return kModes[static_cast<std::size_t>(mode)]; }
const char* name_of(Law law) { return kLaws[static_cast<std::size_t>(law)]; }

Options parse(int argc, char** argv, kit::Result& result) {
  Options o;
  const char* mode = name_of(o.mode);
  const char* law = name_of(o.law);
  std::int64_t fixed = 0, size_mode = -1;
  const Option own[] = {
      {'m', "mode", "MODE", Word{&mode, "exchange|ring|pair"},
       "exchange: threads send batches to each other beside work of their own; ring: each produces for the next; pair: "
       "even threads produce, odd ones consume"},
      {0, "sizes", "LAW", Word{&law, "even|linear|exp"}, "how sizes are distributed"},
      {0, "one-size", "", Flag{&o.one_size}, "one size a thread instead of one an object"},
      {0, "min-size", "BYTES", Whole{&o.min_size, kLeastSize, kMostSize, true}, "smallest size"},
      {0, "max-size", "BYTES", Whole{&o.max_size, kLeastSize, kMostSize, true}, "largest size"},
      {0, "rounds", "N", Whole{&o.rounds, 1, kMost}, "exchange: rounds; everything is freed after each"},
      {'l', "loops", "N", Whole{&o.loops, 1, kMost}, "exchange: loops of a round"},
      {'b', "blocks", "N", Whole{&o.blocks, 1, 100'000'000}, "exchange: slots of a thread"},
      {'o', "operations", "N", Whole{&o.operations, 1, 100'000'000}, "exchange: allocations of a loop, at most"},
      {'x', "cross-rate", "N", Whole{&o.cross_rate, 0, kMost},
       "exchange: every N-th loop sends a batch to another thread; 0: none does"},
      {0, "in-flight", "N", Whole{&o.in_flight, 0, kMost},
       "exchange: batches that may wait for one thread before a sender waits; 0: any number, as in the original"},
      {0, "objects", "N", Whole{&o.objects, 1, kMost}, "ring and pair: objects of each producer"},
      {0, "ring", "N", Whole{&o.ring, 1, 1 << 24}, "ring and pair: objects on their way at once, a power of two"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{
      "producer_consumer",
      "Objects allocated by one thread and freed by another. Mode exchange is after rpmalloc-benchmark (Jansson).",
      "  producer_consumer --threads 4 --sizes exp --min-size 16 --max-size 8000\n"
      "  producer_consumer --mode pair --threads 2 --ring 4096\n"
      "  producer_consumer 4 0 1 2 500 1000 100 8 16000\n"
      "                                    threads, one size (0 or 1), law (0, 1, 2),\n"
      "                                    cross rate, loops, blocks, operations, sizes\n"
      "                                    from and to, as rpmalloc-benchmark has them\n"};
  const int rest = parse_options(argc, argv, table, usage);
  const Positional positionals[] = {
      {"THREADS", {&o.common.threads, 1, kit::kMostThreads}},
      {"MODE", {&fixed, 0, 1}},
      {"SIZEMODE", {&size_mode, 0, 2}},
      {"CROSS", {&o.cross_rate, 0, kMost}},
      {"LOOPS", {&o.loops, 1, kMost}},
      {"BLOCKS", {&o.blocks, 1, 100'000'000}},
      {"OPERATIONS", {&o.operations, 1, 100'000'000}},
      {"MIN", {&o.min_size, kLeastSize, kMostSize}},
      {"MAX", {&o.max_size, kLeastSize, kMostSize}},
  };
  parse_positionals(argc, argv, rest, positionals);
  o.mode = chosen<Mode>(kModes, mode);
  o.law = size_mode >= 0 ? static_cast<Law>(size_mode) : chosen<Law>(kLaws, law);
  o.one_size = o.one_size || fixed;
  law = name_of(o.law);
  check_range("size", o.min_size, o.max_size);
  if (!std::has_single_bit(static_cast<std::uint64_t>(o.ring)))
    fatal(kExitUsage, "option --ring must be a power of two, not ", o.ring);
  if (o.mode == Mode::kPair && o.common.threads % 2)
    fatal(kExitUsage, "--mode pair needs an even number of threads, not ", o.common.threads);
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace heapyard::producer_consumer
