// SPDX-License-Identifier: Apache-2.0
/* What `serves` and the shims of its tests agree on: the size by which a shim knows the block of a request, and how
 * much time or memory it adds to it.
 */
#pragma once

enum {
  REQUEST_BYTES = 12321, /* of the one block that each request is answered from; nothing else asks for such a size */
  LATE_EVERY = 10,       /* liblate makes the how-manieth of these blocks wait */
  LATE_MILLISECONDS = 100,
  GROWTH_BYTES = 64 << 10 /* what libgrows keeps for each of these blocks: whole pages, all touched */
};
