// SPDX-License-Identifier: Apache-2.0
// Plays operations of the malloc interface under the malloc that serves this process, and judges each.
//
// The operations are random by a seed, or those of a file. The lab runs it with the library to be tested preloaded
// (lab/heapyard/execute/fuzz/). Exit code 0: all were legal; 1: one JSON object says what was found.
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <new>

#include "base/fatal.hpp"
#include "base/json.hpp"
#include "base/mapping.hpp"
#include "base/options.hpp"
#include "finding.hpp"
#include "interruptions.hpp"
#include "operation.hpp"
#include "player.hpp"
#include "script.hpp"
#include "turns.hpp"

namespace heapyard::fuzz {
namespace {

// A thread of the sequence, which several of the system may play one after another.
struct Seat {
  Seat(const Plan& plan, unsigned number) : script(plan, number) {}
  Script script;
  Player player;
  pthread_t before{};    // who sat here, and is to be joined
  bool follows = false;  // somebody else did before
};

bool by_turns = false, interrupted = false;
Turns turns;
Seat* seats[kMostThreads];
std::atomic<unsigned> to_come{0};  // threads of the sequence that have not ended

void* sit(void* index);

void start(unsigned number) {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, sit, reinterpret_cast<void*>(std::uintptr_t{number})) != 0)
    found(number, "refused", "a thread could not be created");
}

void* sit(void* index) {
  const auto number = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(index));
  Seat& seat = *seats[number];
  sit_down(number);
  if (seat.follows) pthread_join(seat.before, nullptr);
  std::optional<Interruptions> interruptions;
  if (interrupted) interruptions.emplace(number);
  while (const std::optional<Step> step = seat.script.next()) {
    if (by_turns && step->first) turns.wait_for(step->turn);
    seat.player.play(step->operation);
    if (by_turns && step->last) turns.done(step->turn);
    if (step->operation.call != Call::kEndThread) continue;
    seat.before = pthread_self();
    seat.follows = true;
    start(number);
    return nullptr;
  }
  seat.before = pthread_self();
  to_come.fetch_sub(1);
  to_come.notify_all();
  return nullptr;
}

// In the order in which they are played by turns; without, one of each thread after another.
void print_all(const Plan& plan) {
  std::optional<Step> ahead[kMostThreads];
  for (unsigned thread = 0; thread < plan.threads; ++thread) ahead[thread] = seats[thread]->script.next();
  Text text;
  for (;;) {
    unsigned first = plan.threads;
    for (unsigned thread = 0; thread < plan.threads; ++thread) {
      if (ahead[thread] && (first == plan.threads || ahead[thread]->turn < ahead[first]->turn)) first = thread;
    }
    if (first == plan.threads) break;
    write_operation(text, ahead[first]->operation);
    ahead[first] = seats[first]->script.next();
  }
  text.write_to(STDOUT_FILENO);
}

std::uint64_t play_all(unsigned threads) {
  to_come = threads;
  for (unsigned thread = 0; thread < threads; ++thread) start(thread);
  for (unsigned left; (left = to_come.load()) != 0;) to_come.wait(left);
  std::uint64_t played = 0;
  for (unsigned thread = 0; thread < threads; ++thread) {
    pthread_join(seats[thread]->before, nullptr);
    seats[thread]->player.release_all();
    played += progress[thread].done.load();
  }
  return played;
}

template <class T>
T* array_of(std::size_t count) {
  void* const memory = map_private(count * sizeof(T));
  if (memory == nullptr) fatal(kExitMachine, "no memory to begin");
  return static_cast<T*>(memory);
}

}  // namespace
}  // namespace heapyard::fuzz

int main(int argc, char** argv) {
  using namespace heapyard;
  using namespace heapyard::fuzz;
  std::int64_t seed = 1, operations = 100'000, threads = 1;
  bool print = false, forks = true, limits = true, ends = true;
  const char* replay = "";
  const Option options[] = {
      {'s', "seed", "N", Whole{&seed, 0, INT64_MAX}, "what the operations follow from"},
      {'o', "operations", "N", Whole{&operations, 0, INT64_MAX}, "how many, of all threads"},
      {'t', "threads", "N", Whole{&threads, 1, kMostThreads}, "how many threads"},
      {'u', "turns", "", Flag{&by_turns}, "one thread at a time, so that each run is the same"},
      {'g', "signals", "", Flag{&interrupted}, "signals interrupt each thread, and keep it where it is for a while"},
      {0, "no-forks", "", Flag{&forks, false}, "the process does not fork"},
      {0, "no-limits", "", Flag{&limits, false}, "no child has its address space limited"},
      {0, "no-ends", "", Flag{&ends, false}, "no thread ends before it is done"},
      {'r', "replay", "FILE", Word{&replay}, "the operations of a file"},
      {'p', "print", "", Flag{&print}, "print the operations, and play none"}};
  const Usage usage{"fuzz_heap", "Plays operations of the malloc interface and judges what each gives.",
                    "  LD_PRELOAD=libmine.so fuzz_heap --seed 7 --threads 2\n"};
  parse_options(argc, argv, options, usage);

  Plan plan{static_cast<std::uint64_t>(seed),
            static_cast<std::uint64_t>(operations),
            static_cast<unsigned>(threads),
            by_turns,
            {forks, forks && limits, ends},
            false,
            {}};
  if (replay[0] != '\0') {
    plan.is_file = true;
    plan.file = read_operations(replay);
    for (const Operation& operation : plan.file) plan.threads = std::max(plan.threads, operation.thread + 1u);
  }
  static Yard yard;
  auto* const blocks = array_of<Block>(plan.threads * kSlots + kMailboxes);
  for (unsigned box = 0; box < kMailboxes; ++box)
    yard.mailboxes[box] = new (blocks + plan.threads * kSlots + box) Block;
  auto* const room = array_of<Seat>(plan.threads);
  for (unsigned thread = 0; thread < plan.threads; ++thread) {
    seats[thread] = new (room + thread) Seat(plan, thread);
    Block* const own = blocks + thread * kSlots;
    for (unsigned slot = 0; slot < kSlots; ++slot) new (own + slot) Block;
    seats[thread]->player.begin(yard, thread, own);
  }
  if (print) {
    print_all(plan);
    return 0;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  yard.own = Interface::find();
  yard.pages.prepare();
  take_signals();
  take_interruptions();
  yard.live.begin();
  const std::uint64_t played = play_all(plan.threads);
  Text text;
  Json json(text);
  json.open('{').field("operations", played).close('}');
  text << '\n';
  return text.write_to(STDOUT_FILENO) ? 0 : kExitMachine;
}
