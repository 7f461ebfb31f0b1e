// SPDX-License-Identifier: Apache-2.0
// producer_consumer: run, result.
#include "../kit/result.hpp"
#include "../kit/session.hpp"
#include "base/text.hpp"
#include "exchange.hpp"
#include "options.hpp"
#include "pipes.hpp"

namespace {

using namespace heapyard;
using namespace heapyard::producer_consumer;

template <class Workload>
bool carry_out(const Options& o, kit::Result& result) {
  const Sizes sizes(static_cast<std::uint64_t>(o.common.seed), o.law, static_cast<std::uint64_t>(o.min_size),
                    static_cast<std::uint64_t>(o.max_size));
  kit::Session session(o.common, Workload::bytes_per_worker(o), true);
  Workload workload(o, sizes, session);
  session.run(workload);

  session.report(result);
  // The two figures that rpmalloc-benchmark prints.
  const auto operations = static_cast<double>(session.total(kit::Phase::kMeasured).operations());
  result.metric("operations_per_thread_second", "operations/s", kit::Better::kHigher,
                operations / session.thread_seconds());
  const kit::MemorySampler& memory = session.memory();
  const double heap = static_cast<double>(memory.peak()) - static_cast<double>(memory.base());
  result.metric("peak_overhead", "1", kit::Better::kLower, heap / static_cast<double>(memory.live_peak()) - 1);
  Text headline;
  headline << name_of(o.mode) << ", sizes " << name_of(o.law) << " from " << o.min_size << " to " << o.max_size
           << " bytes, " << Counted{o.common.threads, "thread"};
  return result.write(o.common, headline.view());
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("producer_consumer", "1.0");
  const Options o = parse(argc, argv, result);
  const bool written = o.mode == Mode::kExchange ? carry_out<Exchange>(o, result) : carry_out<Pipes>(o, result);
  return written ? 0 : kExitMachine;
}
