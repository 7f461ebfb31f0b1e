// SPDX-License-Identifier: Apache-2.0
#include "model_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <string_view>

#include "base/fatal.hpp"

namespace heapyard::acdc {
namespace {

constexpr std::size_t kMostFile = 64u << 20;
// Objects per class when the model decides: the histogram weighs objects, so every class has the same number of them.
constexpr std::uint32_t kClassObjects = 64;

struct Reader {
  const char* path;
  std::size_t line = 0;

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    fatal(kExitUsage, std::string_view(path), ":", line, ": ", parts...);
  }

  static std::string_view word(std::string_view& rest) {
    const std::size_t start = rest.find_first_not_of(" \t\r");
    if (start == std::string_view::npos) return rest = {};
    rest.remove_prefix(start);
    const std::size_t end = rest.find_first_of(" \t\r");
    const std::string_view found = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end);
    return found;
  }

  template <class T>
  T number(std::string_view& rest, const char* what, T low, T high) const {
    const std::string_view text = word(rest);
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= low && value <= high))
      fail(std::string_view(what), " is missing or out of range");
    return value;
  }
};

// Vose's construction; O(buckets). `scratch` holds 2 x count indices.
void build_alias(Group& group, std::uint32_t* scratch) {
  double total = 0;
  for (std::uint32_t i = 0; i < group.count; ++i) total += group.buckets[i].weight;
  std::uint32_t *small = scratch, *large = scratch + group.count, smalls = 0, larges = 0;
  for (std::uint32_t i = 0; i < group.count; ++i) {
    Bucket& b = group.buckets[i];
    b.keep = b.weight * group.count / total;
    b.alias = i;
    (b.keep < 1 ? small[smalls++] : large[larges++]) = i;
  }
  while (smalls && larges) {  // bound: each turn settles one bucket
    Bucket& poor = group.buckets[small[--smalls]];
    const std::uint32_t rich = large[larges - 1];
    poor.alias = rich;
    Bucket& giver = group.buckets[rich];
    giver.keep -= 1 - poor.keep;
    if (giver.keep < 1) {
      --larges;
      small[smalls++] = rich;
    }
  }
  // What is left differs from 1 by rounding alone.
  while (larges) group.buckets[large[--larges]].keep = 1;
  while (smalls) group.buckets[small[--smalls]].keep = 1;
}

}  // namespace

Model read_model(const char* path, kit::Arena& arena) {
  Reader reader{path};
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status{};
  if (file < 0 || fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
    fatal(kExitUsage, "cannot read the model ", std::string_view(path));
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > kMostFile) fatal(kExitUsage, "the model ", std::string_view(path), " is larger than 64 MiB");
  // At most one array entry per line of each kind, and no line that counts is shorter than 6 characters.
  arena.reserve(size + (size / 6 + 2) * (sizeof(Group) + sizeof(Bucket) + 2 * sizeof(std::uint32_t)) + 8 * kit::kPage);
  auto* text = static_cast<char*>(arena.take_bytes(size + 1));
  std::size_t have = 0;
  for (ssize_t got; have < size && (got = read(file, text + have, size - have)) > 0;)
    have += static_cast<std::size_t>(got);
  close(file);

  const std::size_t lines = size / 6 + 1;  // at most, of those that count
  Model model;
  model.groups = arena.take<Group>(lines);
  auto* buckets = arena.take<Bucket>(lines);
  auto* scratch = arena.take<std::uint32_t>(2 * lines);
  bool headed = false;

  for (std::string_view rest(text, have); !rest.empty();) {
    ++reader.line;
    const std::size_t newline = rest.find('\n');
    std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    line = line.substr(0, line.find('#'));
    const std::string_view statement = Reader::word(line);
    if (statement.empty()) continue;
    if (!headed) {
      if (statement != "heapyard-mutator-model" || Reader::word(line) != "1")
        reader.fail("a model starts with 'heapyard-mutator-model 1'");
      headed = true;
    } else if (statement == "group") {
      Group& group = model.groups[model.count++];
      group = {reader.number(line, "the share of threads", 0.0, 1e9), 0, 100, buckets, 0};
    } else if (model.count == 0) {
      reader.fail("'", statement, "' before the first 'group'");
    } else if (statement == "shared") {
      Group& group = model.groups[model.count - 1];
      group.shared_ratio = reader.number<std::int64_t>(line, "the share of classes", 0, 100);
      group.receiver_ratio = reader.number<std::int64_t>(line, "the share of receiving threads", 1, 100);
    } else if (statement == "bucket") {
      Bucket b{};
      b.min_size = reader.number<std::uint64_t>(line, "the smallest size", 1, std::uint64_t{1} << 40);
      b.max_size = reader.number<std::uint64_t>(line, "the largest size", b.min_size, std::uint64_t{1} << 40);
      b.min_liveness = reader.number<std::uint64_t>(line, "the shortest liveness", 1, 1'000'000);
      b.max_liveness = reader.number<std::uint64_t>(line, "the longest liveness", b.min_liveness, 1'000'000);
      b.weight = reader.number<double>(line, "the weight", 1e-300, 1e300);
      *buckets++ = b;
      ++model.groups[model.count - 1].count;
    } else {
      reader.fail("there is no statement '", statement, "'; known are group, shared, bucket");
    }
    if (!Reader::word(line).empty()) reader.fail("more words than '", statement, "' takes");
  }
  if (!headed) reader.fail("a model starts with 'heapyard-mutator-model 1'");
  if (model.count == 0) reader.fail("the model has no group");
  for (std::uint32_t i = 0; i < model.count; ++i) {
    if (model.groups[i].count == 0) reader.fail("group ", i + 1, " has no bucket");
    build_alias(model.groups[i], scratch);
  }
  return model;
}

const Group& Model::group_of(std::int64_t thread, std::int64_t threads) const {
  double total = 0, before = 0;
  for (std::uint32_t i = 0; i < count; ++i) total += groups[i].share;
  const double place = (static_cast<double>(thread) + 0.5) / static_cast<double>(threads) * total;
  for (std::uint32_t i = 0; i + 1 < count; ++i) {
    before += groups[i].share;
    if (place < before) return groups[i];
  }
  return groups[count - 1];
}

std::uint64_t Model::longest_liveness() const {
  std::uint64_t longest = 1;
  for (std::uint32_t g = 0; g < count; ++g)
    for (std::uint32_t i = 0; i < groups[g].count; ++i) longest = std::max(longest, groups[g].buckets[i].max_liveness);
  return longest;
}

std::uint64_t Model::smallest_size() const {
  std::uint64_t smallest = UINT64_MAX;
  for (std::uint32_t g = 0; g < count; ++g)
    for (std::uint32_t i = 0; i < groups[g].count; ++i) smallest = std::min(smallest, groups[g].buckets[i].min_size);
  return smallest;
}

std::int64_t Model::receiver_ratio() const {
  std::int64_t most = 0;
  for (std::uint32_t g = 0; g < count; ++g)
    if (groups[g].shared_ratio > 0) most = std::max(most, groups[g].receiver_ratio);
  return most;
}

double Model::mean_size() const {
  double weight = 0, bytes = 0;
  for (std::uint32_t g = 0; g < count; ++g)
    for (std::uint32_t i = 0; i < groups[g].count; ++i) {
      const Bucket& b = groups[g].buckets[i];
      weight += b.weight;
      bytes += b.weight * (static_cast<double>(b.min_size) + static_cast<double>(b.max_size)) / 2;
    }
  return bytes / weight;
}

Draw draw_empirical(const Group& group, const Options& o, Random& random) {
  std::uint32_t i = static_cast<std::uint32_t>(random.below(group.count));
  if (random.unit() >= group.buckets[i].keep) i = group.buckets[i].alias;
  const Bucket& b = group.buckets[i];
  Draw draw{};
  draw.liveness = static_cast<std::uint32_t>(random.between(b.min_liveness, b.max_liveness));
  draw.size = random.between(b.min_size, b.max_size);
  draw.shape = random.percent(static_cast<std::uint64_t>(o.list_ratio)) ? Shape::kList : Shape::kTree;
  draw.shared = group.shared_ratio && random.percent(static_cast<std::uint64_t>(group.shared_ratio));
  draw.permanent = o.permanent_ratio && random.percent(static_cast<std::uint64_t>(o.permanent_ratio));
  draw.count = o.objects ? static_cast<std::uint32_t>(o.objects) : kClassObjects;
  draw.size = std::max<std::uint64_t>(draw.size, header_bytes(draw.shape));
  return draw;
}

}  // namespace heapyard::acdc
