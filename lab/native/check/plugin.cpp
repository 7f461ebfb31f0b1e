// SPDX-License-Identifier: Apache-2.0
// A library that allocates when it is loaded, in thread-local variables, and when it is unloaded.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {
struct Loaded {
  std::vector<std::string> words;
  Loaded() {
    for (int i = 0; i < 200; ++i) words.emplace_back(static_cast<std::size_t>(i * 5), 'x');
  }
  ~Loaded() { words.clear(); }
};
Loaded loaded;
}  // namespace

extern "C" [[gnu::visibility("default")]] int check_plugin_work() {
  int wrong = 0;
  for (std::size_t i = 0; i < loaded.words.size(); ++i) wrong += loaded.words[i].size() != i * 5;
  std::vector<std::string> more(loaded.words);
  more.resize(400, std::string(300, 'y'));
  return wrong + (more.size() != 400);
}
