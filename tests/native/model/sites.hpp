// SPDX-License-Identifier: Apache-2.0
// What is known of a place in the sources.
#pragma once

#include <string>

namespace heapyard::model {

// The line of code at "file:line".
std::string source_line(const std::string& place);

// Why an order there that no protocol needs stays as it is; empty: it should be needed.
std::string reason_for(const std::string& place, const std::string& line);

}  // namespace heapyard::model
