// SPDX-License-Identifier: Apache-2.0
int heapyard_test_no_malloc_here(void) { return 0; }
