// SPDX-License-Identifier: Apache-2.0
// A document as the parsing threads hand it to the indexing threads: many small strings, freed by another thread.
#pragma once

#include <cctype>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace word_index {

using DocumentId = std::uint32_t;

struct Document {
  DocumentId id;
  std::string title;
  std::vector<std::string> words;
};

/// One line of the corpus: a title, a tab, then words separated by anything that is not a letter or digit. O(line).
inline std::unique_ptr<Document> parse(DocumentId id, std::string_view line) {
  auto document = std::make_unique<Document>();
  document->id = id;
  const std::size_t tab = line.find('\t');
  if (tab != std::string_view::npos) {
    document->title = std::string(line.substr(0, tab));
    line.remove_prefix(tab + 1);
  }
  std::string word;
  for (const char letter : line) {
    const auto code = static_cast<unsigned char>(letter);
    if (std::isalnum(code)) {
      word.push_back(static_cast<char>(std::tolower(code)));
    } else if (!word.empty()) {
      document->words.push_back(std::move(word));
      word = std::string();
    }
  }
  if (!word.empty()) document->words.push_back(std::move(word));
  return document;
}

}  // namespace word_index
