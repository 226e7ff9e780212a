#include "core/riegeli/write.hpp"

#include <algorithm>
#include <array>

#include "core/checksum/highway_hash.hpp"
#include "core/engines/zstd/stored.hpp"
#include "core/protobuf/wire.hpp"

namespace headrace::riegeli {
namespace {

void append_varint(std::vector<std::byte>& to, std::uint64_t value) {
    std::array<std::byte, 10> bytes;
    const std::byte* const end = proto::write_varint(bytes.data(), value);
    to.insert(to.end(), bytes.begin(), bytes.begin() + (end - bytes.data()));
}

void append(std::vector<std::byte>& to, Bytes bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

void join(const std::vector<Bytes>& pieces, std::byte* to) {
    for (const Bytes& piece : pieces) {
        if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
        to += piece.size();
    }
}

// Writes header and data of a chunk that no block header interrupts.
void write_whole(const ChunkToWrite& chunk, std::uint64_t data_size, std::byte* to) {
    std::byte* const data = to + chunk_header_size;
    join(chunk.pieces, data);
    store_le(to + 8, data_size);
    store_le(to + 16, riegeli_hash({data, static_cast<std::size_t>(data_size)}));
    store_le(to + 24, chunk.num_records << 8 | static_cast<std::uint64_t>(chunk.type));
    store_le(to + 32, chunk.decoded_size);
    store_le(to, riegeli_hash({to + 8, chunk_header_size - 8}));
}

} // namespace

std::uint64_t ChunkToWrite::data_size() const noexcept {
    std::uint64_t size = 0;
    for (const Bytes& piece : pieces) size += piece.size();
    return size;
}

std::uint64_t ChunkToWrite::end(std::uint64_t begin) const noexcept {
    return chunk_end(begin, data_size(), num_records);
}

void write_chunk(const ChunkToWrite& chunk, std::uint64_t begin, std::byte* to) {
    const std::uint64_t data_size = chunk.data_size();
    const std::uint64_t whole = chunk_header_size + data_size;
    const std::uint64_t end = chunk_end(begin, data_size, chunk.num_records);
    if (left_in_block(begin) >= end - begin) { // no block header in it
        write_whole(chunk, data_size, to);
        std::memset(to + whole, 0, end - begin - whole);
        return;
    }
    // Hashed in one piece, which is written to the end of the room. From there its parts move forward, never further
    // than the block headers between them need. Memory of its own would take longer to get than to fill.
    std::byte* const joined = to + (end - begin - whole);
    write_whole(chunk, data_size, joined);
    std::uint64_t written = 0;
    for (std::uint64_t at = begin; at < end;) {
        if (at % block_size == 0) {
            write_block_header(to + (at - begin), {at - begin, end - at});
            at += block_header_size;
        }
        const std::uint64_t stop = std::min(end, at - at % block_size + block_size);
        const std::uint64_t piece = std::min(whole - written, stop - at);
        if (piece != 0) std::memmove(to + (at - begin), joined + written, piece);
        std::memset(to + (at - begin) + piece, 0, stop - at - piece);
        written += piece;
        at = stop;
    }
}

std::uint64_t padding_end(std::uint64_t begin) noexcept {
    const std::uint64_t left = left_in_block(begin);
    return begin + left + (left != 0 && left < chunk_header_size ? block_size : 0);
}

void write_padding(std::uint64_t begin, std::byte* to) {
    const std::uint64_t end = padding_end(begin);
    if (end == begin) return;
    const bool longer = end - begin > block_size; // one block header in it
    const std::vector<std::byte> zeros(end - begin - chunk_header_size - (longer ? block_header_size : 0));
    write_chunk({ChunkType::padding, 0, 0, {Bytes(zeros)}}, begin, to);
}

void SimplePrefixes::add(std::span<const std::int64_t> sizes, const Bytes* packed_sizes) {
    sizes_.clear();
    std::uint64_t total = 0;
    for (const std::int64_t size : sizes) {
        append_varint(sizes_, static_cast<std::uint64_t>(size));
        total += static_cast<std::uint64_t>(size);
    }
    bytes_.push_back(static_cast<std::byte>(codec_));
    if (codec_ == Codec::none) {
        append_varint(bytes_, sizes_.size());
        append(bytes_, sizes_);
    } else {
        std::array<std::byte, stored_zstd_size(10)> frame;
        Bytes packed;
        if (packed_sizes != nullptr) packed = *packed_sizes;
        else if (codec_ == Codec::zstd && sizes.size() == 1)
            packed = {frame.data(), write_stored_zstd(frame.data(), sizes_)};
        else throw FormatError(Fault::structure, 0);
        append_varint(bytes_, proto::varint_size(sizes_.size()) + packed.size());
        append_varint(bytes_, sizes_.size());
        append(bytes_, packed);
        append_varint(bytes_, total);
    }
    ends_.push_back(bytes_.size());
}

std::vector<std::byte> encode_sizes(std::span<const std::int64_t> sizes) {
    std::vector<std::byte> encoded;
    for (const std::int64_t size : sizes) append_varint(encoded, static_cast<std::uint64_t>(size));
    return encoded;
}

} // namespace headrace::riegeli
