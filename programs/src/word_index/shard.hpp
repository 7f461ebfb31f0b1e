// SPDX-License-Identifier: Apache-2.0
// One indexing thread's part of the index: posting lists over the latest documents, older ones are taken out again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "document.hpp"

namespace word_index {

struct Posting {
  DocumentId document;
  std::vector<std::uint32_t> positions;
};

struct Match {
  DocumentId document;
  std::uint64_t score;
  std::string snippet;
};

class Shard {
 public:
  /// Postings stay sorted by document, whatever order documents arrive in. O(words x log + moved postings).
  void add(std::unique_ptr<Document> document) {
    std::unordered_map<std::string, std::vector<std::uint32_t>> positions;
    std::uint32_t at = 0;
    for (const std::string& word : document->words) positions[word].push_back(at++);
    for (auto& [word, where] : positions) {
      std::vector<Posting>& list = postings_[word];
      list.insert(place(list, document->id), Posting{document->id, std::move(where)});
    }
    documents_.emplace(document->id, std::move(document));
  }

  /// Takes out every document older than `oldest`; a word nobody uses any more leaves the index.
  void retire_before(DocumentId oldest) {
    while (!documents_.empty() && documents_.begin()->first < oldest) {
      const std::unique_ptr<Document> document = std::move(documents_.begin()->second);
      documents_.erase(documents_.begin());
      for (const std::string& word : std::unordered_set<std::string>(document->words.begin(), document->words.end())) {
        const auto entry = postings_.find(word);
        entry->second.erase(place(entry->second, document->id));
        if (entry->second.empty()) postings_.erase(entry);
      }
    }
  }

  /// Documents that hold every word of `query`, with how often they do and the words around the first place.
  std::vector<Match> search(const std::vector<std::string>& query) const {
    std::map<DocumentId, Match> found;
    for (std::size_t i = 0; i < query.size(); ++i) {
      const auto entry = postings_.find(query[i]);
      if (entry == postings_.end()) return {};
      std::map<DocumentId, Match> both;
      for (const Posting& posting : entry->second) {
        const auto before = found.find(posting.document);
        if (i > 0 && before == found.end()) continue;
        Match match = i > 0 ? std::move(before->second) : Match{posting.document, 0, snippet(posting)};
        match.score += posting.positions.size();
        both.emplace(posting.document, std::move(match));
      }
      found.swap(both);
    }
    std::vector<Match> matches;
    for (auto& [id, match] : found) matches.push_back(std::move(match));
    return matches;
  }

  std::size_t documents() const { return documents_.size(); }

  std::size_t postings() const {
    std::size_t total = 0;
    for (const auto& [word, list] : postings_) total += list.size();
    return total;
  }

 private:
  static std::vector<Posting>::iterator place(std::vector<Posting>& list, DocumentId id) {
    const auto before = [](const Posting& posting, DocumentId wanted) { return posting.document < wanted; };
    return std::lower_bound(list.begin(), list.end(), id, before);
  }

  std::string snippet(const Posting& posting) const {
    const Document& document = *documents_.at(posting.document);
    const std::size_t end = std::min<std::size_t>(posting.positions.front() + 4, document.words.size());
    std::string text = document.title + ":";
    for (std::size_t i = posting.positions.front(); i < end; ++i) text += " " + document.words[i];
    return text;
  }

  std::unordered_map<std::string, std::vector<Posting>> postings_;
  std::map<DocumentId, std::unique_ptr<Document>> documents_;
};

}  // namespace word_index
