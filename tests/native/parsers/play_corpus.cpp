// SPDX-License-Identifier: Apache-2.0
// Plays the files of folders once, through the entry that libFuzzer calls. For compilers without it.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int count, char** folders) {
  unsigned played = 0;
  for (int index = 1; index < count; ++index) {
    for (const auto& entry : std::filesystem::directory_iterator(folders[index])) {
      std::ifstream file(entry.path(), std::ios::binary);
      std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
      // Every shorter one too: what is cut off must not be read beyond its end.
      for (std::size_t size = 0; size <= bytes.size(); ++size) {
        const std::vector<char> part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(part.data()), part.size());
      }
      ++played;
    }
  }
  std::printf("%u inputs\n", played);
  return played == 0;  // an empty corpus proves nothing
}
