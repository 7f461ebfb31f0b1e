// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <array>

namespace heapyard::simulator {
namespace {

// The numbers in brackets are those of the sources in docs/simulation.md.
constexpr std::array<Machine, 4> kMachines{{
    {.name = "two-socket-server",
     .title = "two Intel Xeon E5-2680 v3 (Haswell-EP), 12 cores each",
     .cores = 24,
     .clusters = 2,
     .hertz = 2.5e9,                  // [1]
     .cycles_per_instruction = 0.35,  // an assumption: docs/simulation.md
     .l1 = {32, 8, 4},                // [1]
     .l2 = {256, 8, 12},              // [1]
     .l3 = {2560, 20, 53},            // [1] 21.2 ns
     .is_l3_inclusive = true,         // [1]
     .peer_cycles = 84,               // [1]
     .far_cycles = 260,               // [1]
     .memory_cycles = 241,            // [1] 96.4 ns
     .atomic_cycles = 19,             // [2]
     .reorder_buffer = 192,
     .store_buffer = 42,
     .system_call_cycles = 250,
     .wake_cycles = 5000,
     .page_fault_cycles = 1250},
    {.name = "desktop",
     .title = "AMD Ryzen 9 5950X (Zen 3), 16 cores",
     .cores = 16,
     .clusters = 2,
     .hertz = 4.0e9,
     .cycles_per_instruction = 0.3,
     .l1 = {32, 8, 4},
     .l2 = {512, 8, 12},
     .l3 = {4096, 16, 46},
     .is_l3_inclusive = false,
     .peer_cycles = 70,
     .far_cycles = 320,
     .memory_cycles = 315,
     .atomic_cycles = 8,
     .reorder_buffer = 256,
     .store_buffer = 64,
     .system_call_cycles = 400,
     .wake_cycles = 8000,
     .page_fault_cycles = 2000},
    {.name = "aarch64-server",
     .title = "AWS Graviton2 (Neoverse N1), 64 cores",
     .cores = 64,
     .clusters = 1,
     .hertz = 2.5e9,
     .cycles_per_instruction = 0.4,
     .l1 = {64, 4, 4},
     .l2 = {1024, 8, 11},
     .l3 = {512, 16, 75},
     .is_l3_inclusive = false,
     .peer_cycles = 120,
     .far_cycles = 120,
     .memory_cycles = 240,
     .atomic_cycles = 10,
     .reorder_buffer = 128,
     .store_buffer = 72,
     .system_call_cycles = 250,
     .wake_cycles = 5000,
     .page_fault_cycles = 1250},
    // Caches as published [8]; the rest as tests/native/programs/latencies.cpp measured it:
    // docs/measured/simulation.md.
    {.name = "epyc-guest",
     .title = "a guest of KVM with 8 cores of an AMD EPYC (Zen 4)",
     .cores = 8,
     .clusters = 1,
     .hertz = 3.68e9,
     .cycles_per_instruction = 0.3,
     .l1 = {32, 8, 4},
     .l2 = {1024, 8, 14},
     .l3 = {4096, 16, 50},
     .is_l3_inclusive = false,
     .peer_cycles = 84,
     .far_cycles = 84,
     .memory_cycles = 590,
     .atomic_cycles = 7,
     .reorder_buffer = 320,
     .store_buffer = 64,
     .system_call_cycles = 611,
     .wake_cycles = 37000,
     .page_fault_cycles = 5230},
}};

}  // namespace

std::span<const Machine> machines() { return kMachines; }

const Machine* find_machine(std::string_view name) {
  for (const Machine& machine : kMachines)
    if (machine.name == name) return &machine;
  return nullptr;
}

}  // namespace heapyard::simulator
