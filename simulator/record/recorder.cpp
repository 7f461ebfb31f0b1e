// SPDX-License-Identifier: Apache-2.0
#include "recorder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "base/clock.hpp"
#include "false_sharing.hpp"
#include "simulator/engine/guest_memory.hpp"

namespace heapyard::simulator {

Recorder::Recorder(const Engine& engine) : engine_(engine), mappings_(host_address(0)) {}

double Recorder::seconds(Ticks time) const { return static_cast<double>(time) / kCycle / engine_.machine_.hertz; }

bool Recorder::write(const char* path) {
  Ticks last = 0;
  Counts all;
  for (const auto& thread : engine_.threads_) {
    last = std::max(last, thread->time);
    all += thread->counts;
  }
  const bool marked = engine_.mark_end_ != kNever;
  Text text;
  Json json(text);
  json.open('{').field("simulation", 1).field("engine", "QEMU user mode, TCG plugin interface 1");
  machine(json);
  json.field("seed", engine_.options_.seed).field("quantum_cycles", engine_.options_.quantum_cycles);
  json.field("seconds", seconds(last));
  json.key("measured_seconds");
  json.value(marked ? seconds(engine_.mark_end_ - engine_.mark_begin_) : std::numeric_limits<double>::quiet_NaN());
  json.key("totals").open('{');
  counts(json, all);
  json.close('}');
  json.key("measured");
  if (marked) {
    json.open('{');
    counts(json, engine_.measured_);
    json.close('}');
  } else {
    json.value(std::numeric_limits<double>::quiet_NaN());
  }
  threads(json);
  lines(json);
  warnings(json);
  json.field("peak_resident_bytes", engine_.memory_.directory().peak_resident_pages() * std::uint64_t{4096});
  json.field("accesses", all.accesses());
  json.field("turns", engine_.switches_.load()).field("let_go", engine_.let_go_).field("outside", engine_.outside_);
  json.field("real_seconds", static_cast<double>(monotonic_ns() - engine_.real_start_) * 1e-9);
  json.close('}');
  text << '\n';
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  return file >= 0 && text.write_to(file) && close(file) == 0;
}

void Recorder::machine(Json& json) const {
  const Machine& machine = engine_.machine_;
  json.key("machine").open('{').field("name", machine.name).field("title", machine.title);
  json.field("cores", engine_.options_.cores).field("clusters", std::min(machine.clusters, engine_.options_.cores));
  json.field("real_cores", machine.cores).field("placement", engine_.options_.spread ? "spread" : "compact");
  json.field("hertz", machine.hertz).field("cycles_per_instruction", machine.cycles_per_instruction);
  const auto cache = [&](std::string_view name, const CacheShape& shape) {
    json.key(name).open('{').field("kib", shape.kib).field("ways", shape.ways).field("cycles", shape.cycles).close('}');
  };
  cache("l1", machine.l1);
  cache("l2", machine.l2);
  cache("l3_per_core", machine.l3);
  json.field("is_l3_inclusive", machine.is_l3_inclusive).field("peer_cycles", machine.peer_cycles);
  json.field("far_cycles", machine.far_cycles).field("memory_cycles", machine.memory_cycles);
  json.field("atomic_cycles", machine.atomic_cycles).field("reorder_buffer", machine.reorder_buffer);
  json.field("store_buffer", machine.store_buffer);
  json.field("system_call_cycles", machine.system_call_cycles);
  json.field("wake_cycles", machine.wake_cycles).field("page_fault_cycles", machine.page_fault_cycles).close('}');
}

void Recorder::counts(Json& json, const Counts& counts) const {
  for (std::size_t i = 0; i < kCountNames.size(); ++i) json.field(kCountNames[i], counts[static_cast<Count>(i)]);
  json.field("lock_waiting_seconds", seconds(counts[Count::kWaitingTicks]));
}

void Recorder::threads(Json& json) const {
  json.key("threads").open('[');
  for (const auto& thread : engine_.threads_) {
    json.open('{').field("thread", thread->number).field("core", thread->core);
    json.field("started_seconds", seconds(thread->started));
    json.field("seconds", seconds(thread->time - thread->started)).field("idle_seconds", seconds(thread->idle));
    counts(json, thread->counts);
    json.close('}');
  }
  json.close(']');
}

void Recorder::lines(Json& json) const {
  std::vector<const SharedLine*> all;
  for (const SharedLine& line : engine_.memory_.directory().all_shared())
    if (line.transfers + line.invalidations > 0) all.push_back(&line);
  const std::size_t kept = std::min(kMostLines, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                    [](const SharedLine* a, const SharedLine* b) {
                      return a->transfers != b->transfers ? a->transfers > b->transfers : a->line < b->line;
                    });
  std::uint64_t falsely = 0;
  for (const SharedLine* const each : all) falsely += is_false_sharing(*each);
  json.field("shared_lines", engine_.memory_.directory().all_shared().size() - 1).field("false_sharing_lines", falsely);
  json.key("lines").open('[');
  for (std::size_t i = 0; i < kept; ++i) line(json, *all[i]);
  json.close(']');
}

void Recorder::line(Json& json, const SharedLine& line) const {
  json.open('{').field("address", line.line * kLineBytes);
  json.field("transfers", line.transfers).field("invalidations", line.invalidations);
  json.field("coherence_misses", line.coherence_misses).field("lock_handovers", line.handovers);
  json.field("false_transfers", line.false_transfers).field("is_false_sharing", is_false_sharing(line));
  json.key("writers").open('[');
  std::vector<Writer> writers = line.writers;
  std::ranges::sort(writers, {}, &Writer::thread);
  for (const Writer& writer : writers) {
    json.open('{').field("thread", writer.thread).field("low", std::countr_zero(writer.bytes));
    json.field("high", 64 - std::countl_zero(writer.bytes)).field("stores", writer.stores).close('}');
  }
  json.close(']');
  owner(json, line.line * kLineBytes);
  json.key("code").open('[');
  std::vector<CodePlace> code = line.code;
  std::ranges::sort(code, [](const CodePlace& a, const CodePlace& b) {
    return a.count != b.count ? a.count > b.count : a.address < b.address;
  });
  for (const CodePlace& each : code) {
    json.open('{');
    place(json, each.address);
    json.field("count", each.count).close('}');
  }
  json.close(']').close('}');
}

void Recorder::place(Json& json, std::uint64_t address) const {
  const Mappings::Module* const module = mappings_.module_of(address);
  json.field("module", module ? std::string_view(module->path) : "")
      .field("offset", address - (module ? module->low : 0));
}

void Recorder::owner(Json& json, std::uint64_t address) const {
  json.key("owner").open('{');
  if (mappings_.module_of(address)) {
    json.field("kind", "symbol");
    place(json, address);
    json.field("name", "");
  } else if (address >= engine_.heap_low_ && address < engine_.heap_high_) {
    json.field("kind", "heap").field("module", "").field("offset", address - engine_.heap_low_).field("name", "brk");
  } else if (const Mappings::Mapping* const mapping = mappings_.mapping_of(address)) {
    std::string stack;
    for (const auto& thread : engine_.threads_)
      if (thread->stack >= mapping->low && thread->stack <= mapping->high && thread->stack != 0)
        stack = "thread " + std::to_string(thread->number);
    if (mapping->path == "[stack]") stack = "thread 0";
    json.field("kind", stack.empty() ? "mapping" : "stack").field("module", "");
    json.field("offset", address - mapping->low).field("name", stack.empty() ? mapping->path : stack);
  } else {
    json.field("kind", "mapping").field("module", "").field("offset", 0).field("name", "no longer mapped");
  }
  json.close('}');
}

void Recorder::warnings(Json& json) const {
  json.key("warnings").open('[');
  if (engine_.forks_)
    json.value(std::to_string(engine_.forks_) + " child processes ran beside the simulated machine, not on it");
  if (!engine_.replaced_by_.empty())
    json.value("the program became another, which was not simulated: name " + engine_.replaced_by_ + " itself");
  json.close(']');
}

}  // namespace heapyard::simulator
