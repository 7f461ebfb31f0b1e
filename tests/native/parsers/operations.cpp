// SPDX-License-Identifier: Apache-2.0
// The reader of fuzz's operations: what it takes, it writes again as it was.
#include "lab/native/fuzz/operation.hpp"

#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heapyard;
  using namespace heapyard::fuzz;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<Operation> operations(most_operations(text));
  const Parsed parsed = parse_operations(text, operations.data());
  if (parsed.count > operations.size()) std::abort();
  Text written;
  for (std::size_t index = 0; index < parsed.count; ++index) write_operation(written, operations[index]);
  std::vector<Operation> again(most_operations(written.view()));
  const Parsed same = parse_operations(written.view(), again.data());
  if (same.wrong_line != 0 || same.count != parsed.count) std::abort();
  for (std::size_t index = 0; index < same.count; ++index) {
    const Operation &a = operations[index], &b = again[index];
    if (a.size != b.size || a.other != b.other || a.slot != b.slot || a.thread != b.thread || a.call != b.call)
      std::abort();
  }
  return 0;
}
