"""Runs inside gdb: loads the tracer's library into a process and tells it where the collector is.

What is called there allocates. So it is called in a thread that is neither in malloc nor in the dynamic linker, whose
locks it might hold; the other threads run meanwhile. Prints one line of JSON.
"""

import json
import os

import gdb  # type: ignore[import-not-found]

# Of malloc.c in the C library, whose other functions lie between and beside these and have no names in a stripped one.
# Several, for a library of another allocator, or ours of an earlier time, hides some of them from gdb.
_OF_MALLOC = ("malloc", "__libc_malloc", "__libc_free", "__libc_calloc", "__libc_realloc", "__libc_memalign", "malloc_trim",
              "malloc_info", "malloc_stats", "mallopt", "mallinfo2")
_AROUND = 16 << 10


def value(text):
    return int(gdb.parse_and_eval(text))


def address(function):
    try:
        return value(f"(unsigned long)&{function}")
    except gdb.error:
        return 0


def within(frames, unsafe):
    return any(low <= frame < high for frame in frames for low, high in unsafe)


def frames_of_thread():
    found = []
    try:
        frame = gdb.newest_frame()
        while frame is not None and len(found) < 256:
            found.append(frame.pc())
            frame = frame.older()
    except gdb.error:
        pass  # what lies further out cannot be read
    return found


def unsafe_ranges(pid):
    """The dynamic linker, every library with a malloc, and what surrounds malloc in the C library or the program."""
    known = [at for at in map(address, _OF_MALLOC) if at]
    ranges = [(at - _AROUND, at + _AROUND) for at in known]
    with_malloc = os.environ["HEAPYARD_WITH_MALLOC"].split("\n")
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            fields = line.split(None, 5)
            path = fields[5].strip() if len(fields) > 5 else ""
            if "x" in fields[1] and (os.path.basename(path).startswith("ld-linux") or path in with_malloc):
                ranges.append(tuple(int(end, 16) for end in fields[0].split("-")))
    return ranges


def attach():
    pid, library, wish = int(os.environ["HEAPYARD_PID"]), os.environ["HEAPYARD_LIBRARY"], os.environ["HEAPYARD_WISH"]
    for setting in ("pagination off", "confirm off", "print thread-events off", "unwindonsignal on", "breakpoint pending off"):
        gdb.execute(f"set {setting}")
    try:
        gdb.execute("set debuginfod enabled off")
    except gdb.error:
        pass  # an older gdb
    try:
        gdb.execute(f"attach {pid}", to_string=True)
    except gdb.error as error:
        return {"error": "attach", "text": str(error)}
    gdb.execute("handle all nostop noprint pass", to_string=True)
    if not address("malloc") or not address("dlopen"):
        return {"error": "gdb", "text": "it has no malloc and dlopen to be found"}
    unsafe = unsafe_ranges(pid)
    threads = sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num)
    for thread in threads:
        thread.switch()
        if within(frames_of_thread(), unsafe):
            continue
        handle = value(f'((void* (*)(const char*, int))dlopen)("{library}", 2)')
        if not handle:
            return {"error": "dlopen", "text": gdb.parse_and_eval("((char* (*)(void))dlerror)()").string()}
        entry = value(f'((void* (*)(void*, const char*))dlsym)((void*){handle}, "heapyard_trace_attach")')
        return {"result": value(f'((int (*)(const char*)){entry})("{wish}")')}
    return {"error": "busy", "text": f"all {len(threads)} threads are allocating"}


try:
    answer = attach()
except gdb.error as error:
    answer = {"error": "gdb", "text": str(error)}
try:
    gdb.execute("detach", to_string=True)
except gdb.error:
    pass
print("HEAPYARD " + json.dumps(answer), flush=True)
