# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034,SC2154 # variables used or set by the file that sources this one
# Which tests belong to an area of the project, and which are quick. Every test file lies in exactly one area.

areas_known="heap lab tracer mutators"

# Native tests that take longer than half a second, or minutes where other programs keep the processors busy.
slow_native='^(heap\.(forks_beside|model|Schedules|RedBlackTree|BestFit)|tracer\.(Ring|ActivityTest|ChainNumbersTest|Apart)|kit\.SpscRing|mutators)\.|^shims\.hang$'

# Test files of tests/lab that take longest: they launch many processes, or simulate.
slow_python="acdc allocators allocators_install capacity_coverage capacity_search charged_memory check cli_tune experiment_loop
  experiment_slices gate_and_diff heap_contracts heap_instructions hours_campaign mutator_family patterns profile_cli programs_answers
  programs_inputs realloc_growth settings soak store_merge stats_claims stats_contrasts stats_fixed_programs stats_looks stats_monte_carlo trial
  trial_launcher trial_slices"

# Test files of tests/e2e that measure nothing: other tests may run at the same time.
functional_e2e="heap_sanitized fuzz compare_server server_truth capacity_command soak_server schedules interruptions profile_survives profile_truth
  profile_account
  heap_address_space never_fooled wrong_inputs heap_container heap_failures heap_limits other_processors places
  profile_attach profile_attach_harmless profile_limit profile_netbuild profile_page profile_python report_page
  mutators_without_races tune_pinned fleet_processes fleet_try fleet_slurm simulator_engine simulate
  simulated_counts"

# Test files of tests/lab that take longest, and compile nothing; and those that mostly wait, which as the last ones would
# leave the processors idle.
longest_lab="check stats_monte_carlo mutator_family profile_cli report trial_launcher trial trial_slices"

# native_of AREA: a regular expression of ctest names.
native_of() {
  case $1 in
    heap) echo '^heap\.' ;;
    lab) echo '^(base|shims|simulator)\.' ;;
    tracer) echo '^(tracer|injector)\.' ;;
    mutators) echo '^(mutators|kit|acdc)\.' ;;
  esac
}

# area_of FILE: the area of a file tests/*/test_*.py, by its name.
area_of() {
  name=${1##*/test_}
  name=${name%.py}
  case $name in
    heap_* | own_heaps | other_processors) echo heap ;;
    profile_*) echo tracer ;;
    mutator*) echo mutators ;;
    *) if [ -d "$HEAPYARD_ROOT/mutators/$name" ]; then echo mutators; else echo lab; fi ;;
  esac
}

# is_slow FILE: is it one of $slow_python?
is_slow() {
  name=${1##*/test_}
  for slow in $slow_python; do
    if [ "$slow" = "${name%.py}" ]; then return 0; fi
  done
  return 1
}

# functional_files [PREFIX]: the files of $functional_e2e on one line, each after PREFIX.
functional_files() {
  for name in $functional_e2e; do printf '%s ' "${1:-}tests/e2e/test_$name.py"; done
}

# longest_files: the files of $longest_lab on one line.
longest_files() {
  for name in $longest_lab; do printf '%s ' "tests/lab/test_$name.py"; done
}

# python_of FOLDER AREA...: the test files of these areas in a folder, on one line; the names hold no blanks. Where $quick
# is set, without the slow ones.
python_of() (
  cd -- "$HEAPYARD_ROOT" || exit
  folder=$1
  shift
  for file in "$folder"/test_*.py; do
    if [ -n "$quick" ] && is_slow "$file"; then continue; fi
    case " $* " in
      *" $(area_of "$file") "*) printf '%s ' "$file" ;;
    esac
  done
)
