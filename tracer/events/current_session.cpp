// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/current_session.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>

#include "heap/os/pages.hpp"
#include "tracer/events/chains.hpp"
#include "tracer/events/connection.hpp"
#include "tracer/events/exact.hpp"
#include "tracer/events/forked_child.hpp"
#include "tracer/events/free_filter.hpp"
#include "tracer/events/mappings.hpp"
#include "tracer/events/modules.hpp"
#include "tracer/events/next_symbol.hpp"
#include "tracer/events/page_mode.hpp"
#include "tracer/events/python_frames.hpp"
#include "tracer/events/python_objects.hpp"
#include "tracer/events/recording.hpp"
#include "tracer/events/recording_guard.hpp"
#include "tracer/events/redirect.hpp"
#include "tracer/events/sampled.hpp"
#include "tracer/events/thread_ring.hpp"
#include "tracer/events/within_heap.hpp"

namespace heapyard::tracer {
namespace {

bool prepare(Mode mode) { return prepare_chains() && (mode != Mode::kExact || prepare_exact()); }

// The heaps of this project tell of their pages, and their sampled variants of samples, to whoever asks.
template <class Events>
void observe(const char* function, const Events* events) {
  using Observe = void (*)(const Events*);
  if (auto* observe = reinterpret_cast<Observe>(next_symbol(function))) observe(events);
}

void prepare_process_once() {
  static bool once = false;
  if (once) return;
  once = true;
  give_rings_back_at_thread_ends();
  find_next_mappings();
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
}

// A debugger that has loaded this library may take its malloc for the program's and call it. A heap's first pages are
// taken before anything is recorded. Where malloc is part of the program itself nobody comes by to begin a session, but
// what it maps is seen.
[[gnu::constructor]] void begin() {
  if (dlsym(RTLD_DEFAULT, "dlclose") != reinterpret_cast<void*>(&dlclose)) set_loaded_late();
  const char* wish = environ == nullptr ? nullptr : secure_getenv(shared::kWishVariable);
  if (wish == nullptr) return;
  if (told_by_heap() || (!loaded_late() && defined_by_executable("malloc"))) connected();
}

}  // namespace

void stop() {
  shared().mode.store(Mode::kOff);
  shared().activity.begin_anew();
  watch_no_free();
}

bool connect() {
  const os::KeepErrno keep;
  Connection connection = current.connection.load(std::memory_order_acquire);
  if (connection == Connection::kNobodyThere || environ == nullptr) return false;
  if (connection != Connection::kNotYet ||
      !current.connection.compare_exchange_strong(connection, Connection::kConnecting))
    return false;  // another thread is at it
  const SettingUp setting_up;
  current.session =
      connect_to_collector(current.wish[0] != '\0' ? current.wish : secure_getenv(shared::kWishVariable), prepare);
  if (!current.session) {
    current.connection.store(Connection::kNobodyThere);
    give_calls_back();
    return false;
  }
  Header& header = shared();
  header.activity.be_of_session(current.sessions.fetch_add(1));
  prepare_process_once();
  tell_own_memory();
  rules.forget();  // after a fork they are known, and the new session's modules are not
  samples = SampleSet(current.session);
  watch_early_blocks_in(current.session.filter());
  const Mode first = header.mode.load();
  current.activity = &header.activity;
  current.start = header.start_stamp;
  begin_exact(first == Mode::kExact);
  current.first_log2_interval = first == Mode::kSampled ? header.log2_interval.load() : 0;
  if (first == Mode::kExact)
    watch_every_free();
  else
    watch_frees_near(current.session.filter());
  const bool scripts = prepare_python(header.program);
  current.with_python = scripts && header.with_python != 0;
  if (current.with_python && first == Mode::kSampled) take_python_objects();
  if (first == Mode::kPages) observe("heapyard_observe_pages", &kPageEvents);
  if (first == Mode::kSampled && told_by_heap()) observe("heapyard_observe_samples", &kSampleEvents);
  current.connection.store(Connection::kConnected, std::memory_order_release);
  return true;
}

}  // namespace heapyard::tracer
