// SPDX-License-Identifier: Apache-2.0
// word_index: a search index over a stream of documents, built and queried by several threads.
//
//   word_index THREADS CORPUS WINDOW QUERIES
//
// Half of the threads parse lines of CORPUS into documents; the other half each keep a shard of the index over the last
// WINDOW documents, so that what one thread allocated another frees, and an index in steady state keeps changing. All
// threads then answer QUERIES queries. Prints sums that do not depend on how the threads were scheduled.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bounded_queue.hpp"
#include "document.hpp"
#include "shard.hpp"

namespace word_index {
namespace {

constexpr std::size_t kQueueLength = 256;  // documents between the stages: far fewer than any window
constexpr std::size_t kQueryWords = 3;

using Lines = std::vector<std::string_view>;
using Queue = BoundedQueue<std::unique_ptr<Document>>;

struct Totals {
  std::size_t matches = 0;
  std::uint64_t checksum = 0;
};

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  return hash;
}

Lines lines_of(std::string_view corpus) {
  Lines lines;
  while (!corpus.empty()) {
    const std::size_t end = std::min(corpus.find('\n'), corpus.size());
    lines.push_back(corpus.substr(0, end));
    corpus.remove_prefix(std::min(end + 1, corpus.size()));
  }
  return lines;
}

void parse_documents(const Lines& lines, std::atomic<DocumentId>& next, std::deque<Queue>& queues) {
  for (DocumentId id = next++; id < lines.size(); id = next++) queues[id % queues.size()].push(parse(id, lines[id]));
  for (Queue& queue : queues) queue.leave();
}

void index_documents(Queue& queue, Shard& shard, DocumentId count, DocumentId window) {
  while (auto document = queue.pop()) {
    const DocumentId id = (*document)->id;
    shard.add(std::move(*document));
    if (id >= window) shard.retire_before(id - window);
  }
  // A document may have arrived after it was due to be retired; from here on every run holds the same ones.
  if (count > window) shard.retire_before(count - window);
}

/// Neighbouring words of some line of the corpus, so that many queries find something.
std::vector<std::string> query_words(const Lines& lines, std::size_t number) {
  const std::unique_ptr<Document> source = parse(0, lines[lines.size() - 1 - number % lines.size()]);
  const std::size_t count = source->words.size(), start = count > kQueryWords ? number * 7 % (count - kQueryWords) : 0;
  std::vector<std::string> query;
  for (std::size_t i = start; i < count && query.size() < kQueryWords; ++i) query.push_back(source->words[i]);
  return query;
}

void answer_queries(const Lines& lines, const std::vector<Shard>& shards, std::size_t first, std::size_t step,
                    std::size_t count, Totals& totals) {
  for (std::size_t number = first; number < count; number += step) {
    const std::vector<std::string> query = query_words(lines, number);
    for (const Shard& shard : shards) {
      for (const Match& match : shard.search(query)) {
        ++totals.matches;
        totals.checksum += fnv1a(match.snippet) * (match.score + number);
      }
    }
  }
}

void build(const Lines& lines, std::vector<Shard>& shards, std::size_t parsers, DocumentId window) {
  const auto count = static_cast<DocumentId>(lines.size());
  std::atomic<DocumentId> next = 0;
  std::deque<Queue> queues;
  for (std::size_t i = 0; i < shards.size(); ++i) queues.emplace_back(kQueueLength, parsers);
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    workers.emplace_back(index_documents, std::ref(queues[i]), std::ref(shards[i]), count, window);
  }
  for (std::size_t i = 0; i < parsers; ++i) {
    workers.emplace_back(parse_documents, std::cref(lines), std::ref(next), std::ref(queues));
  }
  for (std::thread& worker : workers) worker.join();
}

Totals query(const Lines& lines, const std::vector<Shard>& shards, std::size_t threads, std::size_t count) {
  std::vector<Totals> parts(threads);
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < threads; ++i) {
    workers.emplace_back(answer_queries, std::cref(lines), std::cref(shards), i, threads, count, std::ref(parts[i]));
  }
  for (std::thread& worker : workers) worker.join();
  Totals totals;
  for (const Totals& part : parts) totals = {totals.matches + part.matches, totals.checksum + part.checksum};
  return totals;
}

bool parse_number(const char* text, std::size_t least, std::size_t& value) {
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  return error == std::errc() && *end == '\0' && value >= least;
}

int run(int argc, char** argv) {
  std::size_t threads = 0, window = 0, queries = 0;
  if (argc != 5 || !parse_number(argv[1], 2, threads) || !parse_number(argv[3], 1, window) ||
      !parse_number(argv[4], 0, queries)) {
    std::fprintf(stderr, "usage: word_index THREADS CORPUS WINDOW QUERIES (at least 2 threads, a window of 1)\n");
    return 2;
  }
  std::string corpus;
  if (std::filesystem::is_regular_file(argv[2])) {
    std::ifstream file(argv[2], std::ios::binary);
    corpus.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  const Lines lines = lines_of(corpus);
  if (lines.empty()) {
    std::fprintf(stderr, "word_index: cannot read documents from '%s'\n", argv[2]);
    return 2;
  }
  std::vector<Shard> shards(threads / 2);
  build(lines, shards, threads - shards.size(), static_cast<DocumentId>(window));
  const Totals totals = query(lines, shards, threads, queries);
  std::size_t documents = 0, postings = 0;
  for (const Shard& shard : shards) {
    documents += shard.documents();
    postings += shard.postings();
  }
  std::printf("%zu documents, %zu postings, %zu matches, checksum %016llx\n", documents, postings, totals.matches,
              static_cast<unsigned long long>(totals.checksum));
  return 0;
}

}  // namespace
}  // namespace word_index

int main(int argc, char** argv) { return word_index::run(argc, argv); }
