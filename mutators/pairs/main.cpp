// SPDX-License-Identifier: Apache-2.0
// pairs: options, run, result.
#include <string_view>

#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;

constexpr std::int64_t kMostHeld = 1 << 24;
constexpr std::int64_t kMostSize = 1 << 30;
constexpr std::string_view kModes = "simple|random";  // in the order of pairs::Mode

pairs::Options parse(int argc, char** argv, kit::Result& result) {
  pairs::Options o;
  const char* mode = "simple";
  const Option own[] = {
      {'m', "mode", "MODE", Word{&mode, kModes},
       "simple: a number of objects of one size up and down; random: random replacement in a small set of mixed sizes"},
      {'o', "objects", "N", Whole{&o.objects, 1, std::int64_t{1} << 40},
       "allocations of each thread; simple: for each depth"},
      {'s', "size", "BYTES", Whole{&o.size, 1, kMostSize, true}, "simple: size of an object"},
      {0, "depth", "N", Whole{&o.depth, 0, kMostHeld},
       "simple: objects held at once; 0: 25, 100, 400 and 1600 in turn"},
      {0, "slots", "N", Whole{&o.slots, 1, kMostHeld}, "random: objects that a thread holds"},
      {0, "min-size", "BYTES", Whole{&o.min_size, 1, kMostSize, true}, "random: smallest size"},
      {0, "max-size", "BYTES", Whole{&o.max_size, 1, kMostSize, true}, "random: largest size"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{"pairs",
                    "Tiny pairs of malloc and free around an allocator's caches. After bench-malloc-simple and "
                    "bench-malloc-thread of "
                    "glibc.",
                    "  pairs --size 64\n"
                    "  pairs --depth 400 --threads 2\n"
                    "  pairs --mode random --threads 8\n"
                    "  pairs 32                          size, as bench-malloc-simple takes it\n"
                    "  pairs --mode random 8             threads, as bench-malloc-thread takes them\n"};
  const int rest = parse_options(argc, argv, table, usage);
  o.mode = chosen<pairs::Mode>(kModes, mode);
  const Positional size[] = {{"SIZE", {&o.size, 1, kMostSize}}};
  const Positional threads[] = {{"THREADS", {&o.common.threads, 1, kit::kMostThreads}}};
  parse_positionals(argc, argv, rest, o.mode == pairs::Mode::kRandom ? threads : size);
  check_range("size", o.min_size, o.max_size);
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("pairs", "1.0");
  const pairs::Options o = parse(argc, argv, result);
  kit::Session session(o.common, pairs::Workload::bytes_per_worker(o));
  pairs::Workload workload(o, session);
  session.run(workload);

  session.report(result);
  Text headline;
  if (o.mode == pairs::Mode::kSimple)
    headline << "objects of " << o.size << " bytes, ";
  else
    headline << o.slots << " objects of " << o.min_size << " to " << o.max_size << " bytes, ";
  headline << Counted{o.common.threads, "thread"};
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
