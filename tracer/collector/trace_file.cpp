// SPDX-License-Identifier: Apache-2.0
#include "tracer/collector/trace_file.hpp"

#include <zstd.h>

#include <array>
#include <cstring>

#include "tracer/collector/bytes.hpp"

namespace heapyard::tracer {
namespace {

constexpr int kLevel = 3;

// CRC-32 of IEEE 802.3, as zlib and Python's zlib.crc32 compute it.
std::uint32_t crc32(std::string_view bytes) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t index = 0; index < 256; ++index) {
      std::uint32_t value = index;
      for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? value >> 1 ^ 0xedb88320u : value >> 1;
      made[index] = value;
    }
    return made;
  }();
  std::uint32_t crc = 0xffffffffu;
  for (const char byte : bytes) crc = table[(crc ^ static_cast<std::uint8_t>(byte)) & 0xff] ^ crc >> 8;
  return ~crc;
}

using shared::ChunkHead;

}  // namespace

TraceFile::TraceFile(Disk& disk, const std::string& path) : disk_(disk), file_(disk.create(path)) {
  put(shared::kTraceMagic);
}

TraceFile::~TraceFile() { disk_.close(file_); }

void TraceFile::put(std::string_view bytes) {
  disk_.write(file_, bytes);
  bytes_ += bytes.size();
}

bool TraceFile::write(Chunk kind, std::string_view bytes, std::uint64_t from, std::uint64_t to) {
  // One for all files: to make it takes longer than to compress most chunks.
  static ZSTD_CCtx* const compressor = ZSTD_createCCtx();
  if (compressor == nullptr) return false;
  compressed_.resize(sizeof(ChunkHead) + ZSTD_compressBound(bytes.size()));
  const std::size_t stored =
      ZSTD_compressCCtx(compressor, compressed_.data() + sizeof(ChunkHead), compressed_.size() - sizeof(ChunkHead),
                        bytes.data(), bytes.size(), kLevel);
  if (ZSTD_isError(stored) != 0) return false;
  compressed_.resize(sizeof(ChunkHead) + stored);
  ChunkHead head{};
  std::memcpy(head.magic, shared::kChunkMagic, sizeof head.magic);
  head.kind = static_cast<char>(kind);
  head.raw = static_cast<std::uint32_t>(bytes.size());
  head.stored = static_cast<std::uint32_t>(stored);
  head.crc = crc32(std::string_view(compressed_).substr(sizeof head));
  head.begin = from;
  head.end = to;
  std::memcpy(compressed_.data(), &head, sizeof head);
  if (file_->refused()) return false;
  const std::uint64_t offset = bytes_;
  put(compressed_);
  index_.push_back({kind, offset, from, to});
  return true;
}

void TraceFile::finish(bool to_disk) {
  Bytes index;
  for (const Entry& entry : index_) {
    index.number(static_cast<std::uint8_t>(entry.kind));
    index.number(entry.offset);
    index.number(entry.from);
    index.number(entry.to);
  }
  const std::uint64_t offset = bytes_;
  if (!write(Chunk::kIndex, index.view(), 0, 0)) return;
  put({reinterpret_cast<const char*>(&offset), sizeof offset});
  put(shared::kIndexMagic);
  if (to_disk) disk_.sync(file_);
}

}  // namespace heapyard::tracer
