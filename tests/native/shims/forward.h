// SPDX-License-Identifier: Apache-2.0
/* What the shims share: the whole malloc interface, forwarded to glibc's own heap except for one function.
 *
 * Each shim defines `serve`; malloc, calloc and realloc all come through it, so a shim states nothing but its fault.
 */
#pragma once

#include <stddef.h>

/* glibc's own heap under the names that no preload replaces. */
void* __libc_malloc(size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);

/* Returns a block of at least `size` bytes from __libc_malloc, or null with errno set. */
void* serve(size_t size);

/* The how-manieth call of `serve` this is, from 1; a shim that acts late counts with it. Atomic. */
unsigned long count_call(void);

/* Calls of `serve` after which the late faults act: past the loader and the C library's own start. */
enum { LATE = 1000 };
