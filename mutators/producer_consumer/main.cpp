// producer_consumer: run, result.
#include "../kit/result.hpp"
#include "../kit/session.hpp"
#include "../kit/text.hpp"
#include "exchange.hpp"
#include "options.hpp"
#include "pipes.hpp"

namespace {

using namespace heapyard;
using namespace heapyard::producer_consumer;

template <class Workload>
bool carry_out(const Options& o) {
  const Sizes sizes(static_cast<std::uint64_t>(o.common.seed), o.law, static_cast<std::uint64_t>(o.min_size),
                    static_cast<std::uint64_t>(o.max_size));
  kit::Session session(o.common, Workload::bytes_per_worker(o), true);
  Workload workload(o, sizes, session);
  session.run(workload);

  kit::Result result("producer_consumer", "1.0");
  result.common_parameters(o.common);
  result.parameter("mode", name_of(o.mode));
  result.parameter("sizes", name_of(o.law));
  result.parameter("one_size", o.one_size);
  result.parameter("min_size", o.min_size);
  result.parameter("max_size", o.max_size);
  if (o.mode == Mode::kExchange) {
    result.parameter("rounds", o.rounds);
    result.parameter("loops", o.loops);
    result.parameter("blocks", o.blocks);
    result.parameter("operations", o.operations);
    result.parameter("cross_rate", o.cross_rate);
  } else {
    result.parameter("objects", o.objects);
    result.parameter("ring", o.ring);
  }
  session.report(result);
  // The two figures that rpmalloc-benchmark prints.
  const auto operations = static_cast<double>(session.total(kit::Phase::kMeasured).operations());
  result.metric("operations_per_thread_second", "operations/s", kit::Better::kHigher,
                operations / session.thread_seconds());
  const kit::MemorySampler& memory = session.memory();
  const double heap = static_cast<double>(memory.peak()) - static_cast<double>(memory.base());
  result.metric("peak_overhead", "1", kit::Better::kLower, heap / static_cast<double>(memory.live_peak()) - 1);
  kit::Text headline;
  headline << name_of(o.mode) << ", sizes " << name_of(o.law) << " from " << o.min_size << " to " << o.max_size
           << " bytes, " << o.common.threads << (o.common.threads == 1 ? " thread" : " threads");
  return result.write(o.common, headline.view());
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
  const bool written = o.mode == Mode::kExchange ? carry_out<Exchange>(o) : carry_out<Pipes>(o);
  return written ? 0 : kit::kExitMachine;
}
