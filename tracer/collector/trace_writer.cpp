// SPDX-License-Identifier: Apache-2.0
#include "tracer/collector/trace_writer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heapyard::tracer {
namespace {

constexpr std::uint64_t kFlushBytes = 64u << 10;  // of records, before they go to the file
constexpr std::uint64_t kFewBytes = 512;

std::uint64_t rounded(double value) { return static_cast<std::uint64_t>(value + 0.5); }
std::uint64_t not_negative(std::int64_t value) { return static_cast<std::uint64_t>(std::max<std::int64_t>(0, value)); }

}  // namespace

void TraceWriter::look(std::uint64_t now, std::uint64_t interval, std::uint64_t peak_at) {
  pace_.keep(budget_.share(used(), aside()), now);
  accounts_.propagate();
  recorder_.look(accounts_.tree, now, static_cast<double>(interval), pace_);
  note_totals(now);
  const std::uint64_t pause = std::max<std::uint64_t>(1'000'000, now / 60);
  const std::size_t pending = recorder_.pending().size() + totals_.pending().size();
  const bool spare = pace_.limited() && pending < kFewBytes;  // their chunks would be larger than they
  if (pending > std::min(kFlushBytes, limit_ / 16) || now > flushed_ + (spare ? 4 * pause : pause)) flush(now);
  if (accounts_.peak_bytes > peak_bytes_written_ + peak_bytes_written_ / 10 && now > peak_written_ + 10 * pause) {
    snapshot("peak", "", peak_at, now, Composition::kPeak, false);
    peak_bytes_written_ = accounts_.peak_bytes;
    peak_written_ = now;
  }
}

// Where no change is recorded for a while, a few rows are.
void TraceWriter::note_totals(std::uint64_t now) {
  const std::uint64_t least = pace_.recording() ? pace_.shortest(now) : now / 8;
  if (now >= totals_.last() + least && (pace_.recording() || room(FileBudget::kChunk)) && totals_.changed(accounts_))
    totals_.add_row(now, accounts_);
}

std::uint64_t TraceWriter::used() const {
  constexpr std::uint64_t kNode = 8;
  return file_.bytes() + recorder_.pending().size() + totals_.pending().size() + scripts_.size() +
         (accounts_.tree.size() - nodes_written_) * kNode + (modules_.size() - modules_written_) * FileBudget::kModule;
}

std::uint64_t TraceWriter::aside() const {
  return FileBudget::aside(accounts_.tree.size(), accounts_.chains.size(), accounts_.threads.size(), file_.chunks());
}

bool TraceWriter::snapshot(const char* kind, const std::string& name, std::uint64_t at, std::uint64_t now) {
  return snapshot(kind, name, at, now, Composition::kNow, false);
}

bool TraceWriter::snapshot(const char* kind, const std::string& name, std::uint64_t at, std::uint64_t now,
                           Composition which, bool provided) {
  flush(now);  // nodes first
  const bool peak = which == Composition::kPeak;
  Bytes out;
  out.text(kind);
  out.text(name);
  out.number(not_negative(peak ? accounts_.peak_bytes : accounts_.bytes));
  const std::size_t head = out.size();
  for (const Chain& chain : accounts_.chains) {
    const std::int64_t bytes = peak ? accounts_.at_peak(chain) : chain.bytes;
    const double blocks = peak ? accounts_.blocks_at_peak(chain) : chain.blocks;
    if (bytes <= 0 && blocks < 0.5) continue;
    out.number(chain.node);
    out.number(not_negative(bytes));
    out.number(rounded(std::max(0.0, blocks)));
    const double variance = peak ? accounts_.variance_at_peak(chain) : chain.variance;
    out.number(rounded(std::sqrt(std::max(0.0, variance))));
  }
  // Of what is on the way they may have a part, for they are large, and a program may ask for any number of marks.
  const bool whole = provided || (room(out.size()) && compositions_ + out.size() <= limit_ / 4);
  if (!whole && std::strcmp(kind, "step") != 0) return false;
  // That something else is recorded from here on is said in any case.
  const std::uint64_t before = file_.bytes();
  file_.write(Chunk::kSnapshot, out.view().substr(0, whole ? out.size() : head), at, at);
  compositions_ += file_.bytes() - before;
  return true;
}

void TraceWriter::account(const ResidentAccount& account, std::uint64_t now) {
  flush(now);  // nodes first
  Bytes out;
  for (const std::uint64_t number : {not_negative(accounts_.bytes), account.resident, account.shared, account.swapped})
    out.number(number);
  out.number(account.parts.size());
  for (const std::uint64_t part : account.parts) out.number(part);
  for (std::size_t chain = 0; chain < account.chains.size(); ++chain) {
    const MappedByChain& mapped = account.chains[chain];
    if (mapped.pieces == 0) continue;
    for (const std::uint64_t number :
         {std::uint64_t{accounts_.chains[chain].node}, mapped.there.resident, mapped.mapped, mapped.pieces,
          mapped.there.shared, mapped.there.huge, mapped.there.swapped})
      out.number(number);
  }
  if (!room(out.size()) || compositions_ + out.size() > limit_ / 4) return;
  const std::uint64_t before = file_.bytes();
  file_.write(Chunk::kAccount, out.view(), now, now);
  compositions_ += file_.bytes() - before;
}

void TraceWriter::script(std::uint64_t place, std::uint64_t line, std::string_view function, std::string_view file) {
  if (!room(function.size() + file.size())) return;
  scripts_.number(place);
  scripts_.number(line);
  scripts_.text(function);
  scripts_.text(file);
}

void TraceWriter::flush(std::uint64_t now) {
  Bytes out;
  if (!scripts_.empty()) file_.write(Chunk::kScripts, scripts_.view(), flushed_, now);
  scripts_.clear();
  modules_.write(out, modules_written_);
  if (!out.empty()) file_.write(Chunk::kModules, out.view(), flushed_, now);
  modules_written_ = modules_.size();
  out.clear();
  if (accounts_.tree.size() > nodes_written_) {
    out.number(nodes_written_);
    accounts_.tree.write(out, nodes_written_);
    file_.write(Chunk::kNodes, out.view(), flushed_, now);
    nodes_written_ = accounts_.tree.size();
  }
  if (!recorder_.pending().empty()) {
    file_.write(Chunk::kChanges, recorder_.pending().view(), flushed_changes_, recorder_.last_time());
    flushed_changes_ = recorder_.last_time();
    recorder_.pending().clear();
  }
  if (!totals_.pending().empty()) {
    file_.write(Chunk::kTotals, totals_.pending().view(), totals_.from(), totals_.last());
    totals_.written();
  }
  flushed_ = now;
}

void TraceWriter::write_end(std::uint64_t now, std::uint64_t interval, std::uint64_t peak_at) {
  accounts_.propagate();
  recorder_.look(accounts_.tree, now, static_cast<double>(interval));
  recorder_.finish(accounts_.tree, now);
  totals_.add_row(now, accounts_);
  snapshot("peak", "", peak_at, now, Composition::kPeak, true);
  snapshot("end", "", now, now, Composition::kNow, true);
  write_chains(now);
  write_threads(now);
  write_sizes(now);
}

void TraceWriter::write_chains(std::uint64_t now) {
  Bytes out;
  for (const Chain& chain : accounts_.chains) {
    out.number(chain.node);
    out.number(chain.cut);
    out.number(rounded(chain.allocations));
    out.number(rounded(chain.allocated));
    out.number(rounded(chain.temporary));
    out.number(static_cast<std::uint64_t>(chain.own_peak));
  }
  file_.write(Chunk::kChains, out.view(), 0, now);
}

void TraceWriter::write_threads(std::uint64_t now) {
  Bytes out;
  for (const Thread& thread : accounts_.threads) {
    out.number(thread.id);
    out.text(thread.name);
    out.number(rounded(thread.allocations));
    out.number(rounded(thread.allocated));
    out.number(not_negative(thread.bytes));
    out.number(static_cast<std::uint64_t>(thread.own_peak));
  }
  file_.write(Chunk::kThreads, out.view(), 0, now);
}

void TraceWriter::write_sizes(std::uint64_t now) {
  Bytes out;
  for (std::size_t bin = 0; bin < SizeHistogram::kBins; ++bin) {
    if (accounts_.sizes.blocks[bin] == 0) continue;
    out.number(bin);
    out.number(rounded(accounts_.sizes.blocks[bin]));
    out.number(rounded(accounts_.sizes.bytes[bin]));
  }
  file_.write(Chunk::kSizes, out.view(), 0, now);
}

void TraceWriter::finish(std::string_view summary, std::uint64_t now, bool to_disk) {
  file_.write(Chunk::kEnd, summary, now, now);
  file_.finish(to_disk);
}

}  // namespace heapyard::tracer
