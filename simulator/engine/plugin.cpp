// SPDX-License-Identifier: Apache-2.0
// The library that QEMU's user mode loads: -plugin libheapyard_simulator.so,out=FILE,machine=NAME,cores=N,seed=S
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/fatal.hpp"
#include "engine.hpp"
#include "instructions.hpp"
#include "qemu_plugin.hpp"
#include "simulator/record/recorder.hpp"

namespace heapyard::simulator {

void Engine::finish() {
  if (getpid() != process_) return;
  if (!Recorder(*this).write(options_.out.c_str()))
    complain("cannot write ", std::string_view(options_.out), ": ", std::string_view(std::strerror(errno)));
}

namespace {

Engine* engine;

void on_block(unsigned vcpu, void* instructions) { engine->block(vcpu, reinterpret_cast<std::uint64_t>(instructions)); }

void on_access(unsigned vcpu, qemu_plugin_meminfo_t info, std::uint64_t address, void* code) {
  const Kind kind = qemu_plugin_mem_is_store(info) ? Kind::kStore : Kind::kLoad;
  engine->access(vcpu, address, 1u << qemu_plugin_mem_size_shift(info), kind, reinterpret_cast<std::uint64_t>(code));
}

void before_atomic(unsigned vcpu, void* code) { engine->before_atomic(vcpu, reinterpret_cast<std::uint64_t>(code)); }

// While the program has one thread QEMU makes a load and a store of it; the store counts.
void on_atomic(unsigned vcpu, qemu_plugin_meminfo_t info, std::uint64_t address, void* code) {
  if (!qemu_plugin_mem_is_store(info)) return;
  engine->atomic(vcpu, address, 1u << qemu_plugin_mem_size_shift(info), reinterpret_cast<std::uint64_t>(code));
}

void on_translation(qemu_plugin_id_t, qemu_plugin_tb* block) {
  const std::size_t instructions = qemu_plugin_tb_n_insns(block);
  qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, QEMU_PLUGIN_CB_NO_REGS, reinterpret_cast<void*>(instructions));
  for (std::size_t i = 0; i < instructions; ++i) {
    qemu_plugin_insn* const instruction = qemu_plugin_tb_get_insn(block, i);
    void* const address = reinterpret_cast<void*>(qemu_plugin_insn_vaddr(instruction));
    const auto* const data = static_cast<const std::uint8_t*>(qemu_plugin_insn_data(instruction));
    const bool atomic = is_atomic({data, qemu_plugin_insn_size(instruction)});
    if (atomic) qemu_plugin_register_vcpu_insn_exec_cb(instruction, before_atomic, QEMU_PLUGIN_CB_NO_REGS, address);
    qemu_plugin_register_vcpu_mem_cb(instruction, atomic ? on_atomic : on_access, QEMU_PLUGIN_CB_NO_REGS,
                                     QEMU_PLUGIN_MEM_RW, address);
  }
}

void before_system_call(qemu_plugin_id_t, unsigned vcpu, std::int64_t number, std::uint64_t a, std::uint64_t b,
                        std::uint64_t c, std::uint64_t d, std::uint64_t e, std::uint64_t f, std::uint64_t,
                        std::uint64_t) {
  engine->before_system_call(vcpu, {number, {a, b, c, d, e, f}});
}

void after_system_call(qemu_plugin_id_t, unsigned vcpu, std::int64_t number, std::int64_t result) {
  engine->after_system_call(vcpu, number, result);
}

std::uint64_t number_of(std::string_view name, std::string_view text, std::uint64_t low, std::uint64_t high) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < low || number > high)
    fatal(kExitUsage, name, "=", text, " is no whole number from ", low, " to ", high);
  return number;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word(argv[i]);
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals), value = equals == word.npos ? "" : word.substr(equals + 1);
    if (name == "out") {
      options.out = value;
    } else if (name == "machine") {
      options.machine = find_machine(value);
      if (!options.machine) fatal(kExitUsage, "there is no simulated machine ", value);
    } else if (name == "cores") {
      options.cores = static_cast<std::uint32_t>(number_of(name, value, 1, kMostCores));
    } else if (name == "seed") {
      options.seed = number_of(name, value, 0, UINT64_MAX);
    } else if (name == "quantum") {
      options.quantum_cycles = static_cast<std::uint32_t>(number_of(name, value, 1, 1'000'000));
    } else if (name == "placement") {
      if (value != "compact" && value != "spread") fatal(kExitUsage, "placement is compact or spread, not ", value);
      options.spread = value == "spread";
    } else {
      fatal(kExitUsage, "the simulator knows no option ", name);
    }
  }
  if (options.out.empty()) fatal(kExitUsage, "the simulator needs out=FILE");
  if (!options.machine) options.machine = &machines().front();
  if (options.cores == 0) options.cores = options.machine->cores;
  return options;
}

}  // namespace
}  // namespace heapyard::simulator

extern "C" {

[[gnu::visibility("default")]] int qemu_plugin_version = QEMU_PLUGIN_VERSION;

[[gnu::visibility("default")]] int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                                                       char** argv) {
  using namespace heapyard;
  using namespace heapyard::simulator;
  program_name = "heapyard simulator";
  if (info->system_emulation || std::strcmp(info->target_name, "x86_64") != 0)
    fatal(kExitUsage, "the simulator runs programs of x86-64 Linux by qemu-x86_64 alone, not by QEMU for ",
          std::string_view(info->target_name));
  simulator::engine = new Engine(parse(argc, argv));
  qemu_plugin_register_vcpu_init_cb(id, [](qemu_plugin_id_t, unsigned vcpu) { simulator::engine->begin_thread(vcpu); });
  qemu_plugin_register_vcpu_exit_cb(id, [](qemu_plugin_id_t, unsigned vcpu) { simulator::engine->end_thread(vcpu); });
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  qemu_plugin_register_vcpu_syscall_cb(id, before_system_call);
  qemu_plugin_register_vcpu_syscall_ret_cb(id, after_system_call);
  qemu_plugin_register_atexit_cb(id, [](qemu_plugin_id_t, void*) { simulator::engine->finish(); }, nullptr);
  return 0;
}

}  // extern "C"
