# SPDX-License-Identifier: Apache-2.0
"""A finding of `heapyard fuzz` as a C program that anybody can compile and run, without Heapyard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..model.fuzz import FuzzFinding, Operation

# Calls of C++: the C program takes those of C that come nearest.
_CXX = {"new": "malloc", "new[]": "malloc", "new_nothrow": "malloc", "new_aligned": "memalign", "new[]_aligned": "memalign"}
# Calls that make a block: in C, the alignment that it must have, and whether it must be zero.
_MADE = {
    "malloc": ("malloc({size}u)", "1", 0),
    "calloc": ("calloc({other}u, {size}u)", "1", 1),
    "aligned_alloc": ("aligned_alloc({other}u, {size}u)", "{other}u", 0),
    "posix_memalign": ("memalign({other}u, {size}u)", "{other}u", 0),
    "memalign": ("memalign({other}u, {size}u)", "{other}u", 0),
    "valloc": ("valloc({size}u)", "4096", 0),
    "pvalloc": ("pvalloc({size}u)", "4096", 0),
}

_HEAD = """\
// {kind}: {text}
// Found by heapyard fuzz under {name}; {shown} of {tried} runs of these operations found it again.
//   cc -O1 -fno-builtin -pthread -o replay {file} && LD_PRELOAD={library} ./replay
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct block {{ unsigned char* at; size_t size; unsigned char mark; }};
static struct block own[{threads}][512], boxes[32];
static struct block* slots[{threads}][512];
static struct block* mailboxes[32];
{turn}static _Atomic unsigned char marks;

static void wrong(const char* when, const char* what, const void* at, size_t byte) {{
  printf("%s: %s: %p, byte %zu\\n", when, what, at, byte);
  fflush(stdout);
  _exit(1);
}}
// A block keeps what was written into it.
static void look(const struct block* b, const char* when) {{
  for (size_t i = 0; b->at != NULL && i < b->size; ++i) {{
    if (b->at[i] != (unsigned char)(b->mark + i * 7)) wrong(when, "the contents changed", b->at, i);
  }}
}}
static void drop(struct block* b, const char* when) {{
  look(b, when);
  free(b->at);
  b->at = NULL;
}}
static void take(struct block* b, void* at, size_t size, size_t alignment, int zero, const char* when) {{
  if (at == NULL) return;
  if ((uintptr_t)at % (alignment > 1 ? alignment : 1) != 0) wrong(when, "this is not aligned", at, 0);
  for (size_t i = 0; zero && i < size; ++i) {{
    if (((unsigned char*)at)[i] != 0) wrong(when, "this is not zero", at, i);
  }}
  *b = (struct block){{at, size, ++marks}};
  for (size_t i = 0; i < size; ++i) b->at[i] = (unsigned char)(b->mark + i * 7);
}}
static inline void resize(struct block* b, size_t size, const char* when) {{
  look(b, when);
  void* at = size != 0 ? realloc(b->at, size) : NULL;
  if (at == NULL) return;
  struct block kept = {{at, b->at != NULL ? (b->size < size ? b->size : size) : 0, b->mark}};
  look(&kept, when);
  take(b, at, size, 1, 0, when);
}}
static inline void limit(size_t more) {{
  size_t pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%zu", &pages) != 1) _exit(2);
  fclose(file);
  const struct rlimit limit = {{pages * 4096 + more, RLIM_INFINITY}};
  setrlimit(RLIMIT_AS, &limit);
}}
static inline void take_all(size_t size, unsigned kept) {{
  void **first = NULL, **block;
  unsigned count = 0;
  for (; count < 40000 && (block = malloc(size)) != NULL; ++count) {{
    *block = first;
    first = block;
  }}
  for (; first != NULL && count > kept; --count) {{
    block = *first;
    free(first);
    first = block;
  }}
}}
// `more`: address space that the child has beyond what is in use; 0: no limit.
static inline void end_of_child(void (*work)(void), size_t more, unsigned long seed, const char* when) {{
  const pid_t child = fork();
  if (child == 0) {{
    if (more != 0) limit(more);
    if (more != 0) take_all((size_t)256 << seed % 10, seed % 3 == 0 ? 0 : 64);
    work();
    if (more != 0 && malloc(1000) == NULL) wrong(when, "after all was freed, this was refused", NULL, 1000);
    _exit(0);
  }}
  int status = 0;
  if (child > 0 && waitpid(child, &status, 0) == child && status != 0) wrong(when, "the child failed", NULL, 0);
}}
"""


def as_c(finding: FuzzFinding, name: str, library: str, child_of: Callable[[Operation], Iterable[Operation]]) -> str:
    """The program. `name`, `library`: of the malloc; `child_of`: what the child of a fork does.

    Interruptions are not in it, and what only C++ can call is called as C would.
    """
    by_turns = (finding.round.turns or finding.round.threads == 1) and finding.round.threads > 1
    threads = 1 + max((operation.thread for operation in finding.operations), default=0)
    parts = [_HEAD.format(kind=finding.violation.kind, text=finding.violation.text, name=name, library=library,
                          shown=finding.shown, tried=finding.tried, file=f"{finding.name}.c", threads=threads,
                          turn="static _Atomic unsigned turn;\n" if by_turns else "")]
    for number, operation in enumerate(finding.operations):
        if operation.call.startswith("fork"):
            parts.append(_child(number, operation, child_of(operation)))
    for thread in range(threads):
        lines = [line for number, operation in enumerate(finding.operations) if operation.thread == thread
                 for line in _statements(operation, number, by_turns)]
        parts.append(_function(f"void* thread_{thread}(void* none)", [*lines, "return none;"]))
    parts.append(_function("int main(void)", [
        f"pthread_t threads[{threads}];",
        f"for (int t = 0; t < {threads}; ++t) for (int s = 0; s < 512; ++s) slots[t][s] = &own[t][s];",
        "for (int m = 0; m < 32; ++m) mailboxes[m] = &boxes[m];",
        *(f"pthread_create(&threads[{at}], NULL, thread_{at}, NULL);" for at in range(threads)),
        f"for (int t = 0; t < {threads}; ++t) pthread_join(threads[t], NULL);",
        f'for (int t = 0; t < {threads}; ++t) for (int s = 0; s < 512; ++s) drop(slots[t][s], "at the end");',
        'puts("nothing was found");',
    ]))
    return "\n".join(parts)


def _function(head: str, lines: Iterable[str]) -> str:
    static = "" if head.startswith("int main") else "static "
    return f"{static}{head} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def _child(number: int, operation: Operation, operations: Iterable[Operation]) -> str:
    slots = f"slots[{operation.thread}][s]"
    lines = [f'for (int s = 0; s < 512; ++s) look({slots}, "in the child of operation {number}");']
    for index, made in enumerate(operations):
        if made.call != "give":
            lines += _statements(made, index, by_turns=False)
    lines.append(f'for (int s = 0; s < 512; ++s) drop({slots}, "at the end of the child of operation {number}");')
    return _function(f"void child_{number}(void)", lines)


def _statements(operation: Operation, number: int, by_turns: bool) -> Iterator[str]:
    slot, size, other = f"slots[{operation.thread}][{operation.slot}]", operation.size, operation.other
    when = f'"operation {number}, {operation.call}"'
    if by_turns:
        yield f"while (turn != {number}) sched_yield();"
    call = _CXX.get(operation.call, operation.call)
    if call in _MADE:
        text, alignment, zero = _MADE[call]
        words = {"size": size, "other": other}
        bytes_ = f"{size * other}u" if zero and size * other < 1 << 63 else f"{size}u"
        yield f"drop({slot}, {when});"
        yield f"take({slot}, {text.format(**words)}, {bytes_}, {alignment.format(**words)}, {zero}, {when});"
    elif call in ("realloc", "reallocarray"):
        yield f"resize({slot}, {min(size * other if call == 'reallocarray' else size, (1 << 64) - 1)}u, {when});"
    elif call == "release":
        yield f"drop({slot}, {when});"
    elif call == "look":
        yield f"look({slot}, {when});"
    elif call == "use_all":
        yield f"if ({slot}->at) take({slot}, {slot}->at, malloc_usable_size({slot}->at), 1, 0, {when});"
    elif call == "give":
        yield f"{slot} = __atomic_exchange_n(&mailboxes[{other}], {slot}, __ATOMIC_ACQ_REL);"
    elif call == "malloc_trim":
        yield "malloc_trim(0);"
    elif call.startswith("fork"):
        yield f"end_of_child(child_{number}, {size << 20 if call == 'fork_limited' else 0}u, {other}u, {when});"
    else:
        yield f"// {operation}"
    if by_turns:
        yield f"turn = {number + 1};"
