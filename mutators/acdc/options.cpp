// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <bit>
#include <cstring>
#include <string_view>

#include "base/fatal.hpp"
#include "base/options.hpp"

namespace heapyard::acdc {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
constexpr std::int64_t kMostTicks = 100'000'000;

// The published code's defaults where they differ from the paper's.
void code_defaults(Options& o) {
  o.duration = 100;
  o.access = false;
  o.shared_ratio = 0;
  o.drift = -1;
}

struct Exponents {
  std::int64_t min = -1, max = -1;
};

bool asks_for_code_defaults(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--compat") return true;
    // `-a`, alone or leading a cluster of flags: what every published command line starts with.
    if (word.size() >= 2 && word[0] == '-' && word[1] == 'a') return true;
  }
  return false;
}

void check(Options& o, const Exponents& e) {
  if (e.min >= 0) o.min_size = std::int64_t{1} << e.min;
  if (e.max >= 0) {
    // S is exclusive in the published code: the largest object has 2^S - 1 bytes; s = S means exactly 2^s.
    o.max_size = e.min == e.max ? o.min_size : (std::int64_t{1} << e.max) - 1;
  } else if (e.min >= 0 && o.min_size > o.max_size) {
    fatal(kExitUsage, "option --max-size-exponent (-S) is needed when --min-size-exponent (-s) is ", e.min);
  }
  check_range("size", o.min_size, o.max_size);
  check_range("liveness", o.min_liveness, o.max_liveness);
  if (o.drift < 0) o.drift = o.max_liveness;
  if (o.mode == Mode::kFalseSharing) {
    o.shared = true;
    o.access = true;
    o.write_ratio = 100;
    o.shared_ratio = o.receiver_ratio = 100;
    if (o.placement == Placement::kCompact)
      fatal(kExitUsage, "--placement compact has no meaning in false-sharing mode; use heap or align");
    if (o.permanent_ratio) fatal(kExitUsage, "--permanent has no meaning in false-sharing mode");
    if (o.model) fatal(kExitUsage, "--model has no meaning in false-sharing mode");
  }
  if (o.placement == Placement::kCompact && o.latency)
    fatal(kExitUsage, "--latency times single objects, and --placement compact allocates whole classes");
  if (!o.shared) o.shared_ratio = 0;
}

}  // namespace

Options parse(int argc, char** argv) {
  Options o;
  Exponents exponents;
  bool false_sharing = false;
  const char* placement = "heap";
  const char* access_time = nullptr;
  const char* reads = "links";
  bool verbose = false;  // -v counts: see the callback
  if (asks_for_code_defaults(argc, argv)) code_defaults(o);

  const Option table[] = {
      {'a', "acdc-mode", "", Flag{&false_sharing, false},
       "ACDC mode, with the defaults of the published code for all options not given"},
      {'f', "false-sharing", "", Flag{&false_sharing},
       "false-sharing mode: one object per thread and tick, hammered by its thread"},
      {'n', "threads", "N", Whole{&o.threads, 1, kMostThreads}, "mutator threads"},
      {'F', "objects", "N", Whole{&o.objects, 0, 1 << 30},
       "objects per lifetime-size-class; 0: derived from size and liveness"},
      {'s', "min-size-exponent", "E", Whole{&exponents.min, 3, 39},
       "smallest objects have 2^E bytes (-1: see --min-size)"},
      {'S', "max-size-exponent", "E", Whole{&exponents.max, 3, 39},
       "largest objects have 2^E - 1 bytes (-1: see --max-size)"},
      {0, "min-size", "BYTES", Whole{&o.min_size, 8, kMostBytes, true}, "smallest object"},
      {0, "max-size", "BYTES", Whole{&o.max_size, 8, kMostBytes, true}, "largest object, included"},
      {'l', "min-liveness", "TICKS", Whole{&o.min_liveness, 1, 1'000'000}, "shortest liveness"},
      {'L', "max-liveness", "TICKS", Whole{&o.max_liveness, 1, 1'000'000}, "longest liveness"},
      {'D', "delay", "TICKS", Whole{&o.delay, 0, 1'000'000}, "deallocation delay: lifetime = liveness + delay"},
      {'t', "quantum", "BYTES", Whole{&o.quantum, 1, kMostBytes, true},
       "bytes a thread allocates per tick (accesses, in false-sharing mode)"},
      {'d', "duration", "TICKS", Whole{&o.duration, 1, kMostTicks}, "ticks every thread performs"},
      {'g', "drift", "TICKS", Whole{&o.drift, -1, kMostTicks},
       "how far clocks may drift apart; -1: the maximum liveness"},
      {'q', "list-ratio", "PERCENT", Whole{&o.list_ratio, 0, 100},
       "share of classes that are lists; the others are trees"},
      {'A', "access", "", Flag{&o.access}, "access live objects (default, unless -a or --compat)"},
      {0, "no-access", "", Flag{&o.access, false}, "do not access objects"},
      {'w', "write-ratio", "PERCENT", Whole{&o.write_ratio, 0, 100}, "share of accessed objects that are written"},
      {'i', "write-iterations", "N", Whole{&o.write_iterations, 1, 1'000'000},
       "times a written object is written per access"},
      {'O', "shared", "", Flag{&o.shared}, "share objects between threads"},
      {'R', "shared-ratio", "PERCENT", Whole{&o.shared_ratio, 0, 100},
       "share of classes that are shared, with --shared"},
      {'T', "receivers", "PERCENT", Whole{&o.receiver_ratio, 1, 100},
       "share of threads that receive a shared class, at least one thread"},
      {0, "permanent", "PERCENT", Whole{&o.permanent_ratio, 0, 100},
       "share of classes that are never deallocated during the run"},
      {0, "placement", "HOW", Word{&placement, "heap|compact|align"},
       "heap: one allocation per object; compact: one block per class; align: one cache line or more per object"},
      {0, "model", "FILE", Word{&o.model},
       "sizes, lifetimes, thread mix and sharing from FILE (format in docs/acdc.md)"},
      {0, "access-time", "WHEN", Word{&access_time, "tick|class"},
       "access live objects at each tick or after each class [default tick]"},
      {0, "reads", "WHAT", Word{&reads, "links|payload"}, "what reading an object touches"},
      {0, "latency", "N", Whole{&o.latency, 0, 1 << 30},
       "time every N-th malloc and free on its own, for percentiles; 0: none"},
      {'r', "seed", "N", Whole{&o.seed, 0, INT64_MAX},
       "seed: same seed, same sequence of sizes and lifetimes everywhere"},
      {0, "repetition", "N", Whole{&o.repetition, 0, INT64_MAX},
       "repetition number: another independent sequence of the same seed"},
      {0, "compat", "", Flag{&o.compat},
       "reproduce the published code's defaults and quirks (docs/acdc.md lists them)"},
      {'P', "allocator-name", "NAME", Word{&o.allocator_name},
       "name echoed in the output; a name starting with 'compact' selects that placement"},
      {0, "format", "FORMAT", Word{&o.format, "table|acdc|none"},
       "table for people, or the published code's summary lines"},
      {0, "json", "FILE", Word{&o.json}, "write the result as JSON to FILE ('-': standard output)"},
      {'v', "verbose", "", Flag{&verbose}, "with --format acdc: one line per tick"},
      {'H', "metadata-heap", "MiB", Ignored{true}, ""},
      {'N', "node-buffer", "N", Ignored{true}, ""},
      {'C', "class-buffer", "N", Ignored{true}, ""},
      {'W', "warm-up-metadata", "", Ignored{false}, ""},
  };
  const Usage usage{"acdc",
                    "Emulates the allocation, sharing, access and deallocation behaviour of a program, and "
                    "measures how the malloc it runs on "
                    "copes. After ACDC (Aigner and Kirsch, ISMM 2013); all work is fixed by the seed.",
                    "  acdc                              one thread, the paper's defaults\n"
                    "  acdc -a -s 4 -S 9 -d 30 -l 1 -L 5 -t 1000000 -O -T 100 -R 100 -A -n 4\n"
                    "                                    producers and consumers, as published\n"
                    "  acdc --false-sharing --min-size 10B --max-size 10B --quantum 1000000 -n 4\n"
                    "  LD_PRELOAD=libjemalloc.so.2 acdc --delay 5 --no-access --json result.json\n"};
  const int rest = parse_options(
      argc, argv, table, usage,
      [](const Option& option, void* context) {
        if (option.letter == 'v') ++static_cast<Options*>(context)->verbosity;
      },
      &o);
  if (rest < argc) fatal(kExitUsage, "there is no argument '", std::string_view(argv[rest]), "'; see --help");

  o.mode = false_sharing ? Mode::kFalseSharing : Mode::kAcdc;
  const std::string_view how = placement, name = o.allocator_name;
  o.placement = how == "compact" || name.starts_with("compact") ? Placement::kCompact
                : how == "align"                                ? Placement::kAlign
                                                                : Placement::kHeap;
  o.access_time = access_time ? (std::string_view(access_time) == "class" ? AccessTime::kClass : AccessTime::kTick)
                              : (o.compat ? AccessTime::kClass : AccessTime::kTick);
  o.reads = std::string_view(reads) == "payload" ? Reads::kPayload : Reads::kLinks;
  check(o, exponents);
  return o;
}

}  // namespace heapyard::acdc
