#include "core/riegeli/grouped.hpp"

#include <algorithm>
#include <array>

#include "core/checksum/highway_hash.hpp"

namespace headrace::riegeli {
namespace {

constexpr std::size_t codec_and_sizes = 1 + 10;         // bytes: a codec and a varint
constexpr std::size_t declared_size = 10;               // bytes of a varint
constexpr std::size_t frame_header = 4 + 1 + 1 + 8;     // bytes
constexpr std::size_t block_header = 3;                 // bytes
constexpr std::size_t readable_before = 32;             // see Decoder::decompress_block
constexpr std::size_t kept_room = std::size_t{4} << 20; // bytes of scratch memory that a thread keeps

// Positions without block headers. Not for positions inside one.
constexpr std::uint64_t without_headers(std::uint64_t position) noexcept {
    return position / block_size * usable_block_size + (position % block_size - block_header_size);
}

constexpr std::uint64_t with_headers(std::uint64_t position) noexcept {
    return position / usable_block_size * block_size + block_header_size + position % usable_block_size;
}

// What a thread reuses from chunk to chunk.
struct Scratch {
    std::unique_ptr<zstd::Decoder> decoder;
    zstd::Decoder::Room room;
    std::vector<std::byte> joined;
    std::vector<std::byte> sizes;

    void shrink() noexcept {
        if (joined.capacity() > kept_room) joined = {};
        if (sizes.capacity() > kept_room) sizes = {};
    }
};

Scratch& scratch() {
    thread_local Scratch found;
    return found;
}

} // namespace

std::shared_ptr<GroupedChunk> GroupedChunk::open(std::shared_ptr<Pool> pool, Bytes file, std::uint64_t begin,
                                                 std::uint64_t count, Check check) {
    std::shared_ptr<GroupedChunk> chunk(new GroupedChunk(std::move(pool)));
    try {
        if (!chunk->parse(file, begin, count, check)) chunk.reset();
    } catch (const FormatError&) {
        chunk.reset();
    }
    scratch().shrink();
    return chunk;
}

std::shared_ptr<GroupedChunk> GroupedChunk::copy_of(const std::shared_ptr<Pool>& pool, std::span<const Bytes> records) {
    std::shared_ptr<GroupedChunk> chunk(new GroupedChunk(pool));
    chunk->ends_.reserve(records.size());
    for (const Bytes& record : records) {
        chunk->decoded_size_ += record.size();
        if (chunk->decoded_size_ > most_decoded_bytes) return nullptr;
        chunk->ends_.push_back(static_cast<std::uint32_t>(chunk->decoded_size_));
    }
    chunk->memory_ = pool->take(chunk->decoded_size_);
    std::byte* to = chunk->memory_.data();
    for (const Bytes& record : records) {
        if (!record.empty()) std::memcpy(to, record.data(), record.size());
        to += record.size();
    }
    chunk->ready_ = chunk->decoded_size_;
    return chunk;
}

bool GroupedChunk::parse(Bytes file, std::uint64_t begin, std::uint64_t count, Check check) {
    const ChunkHeader header = read_chunk_header(file, begin);
    if (header.type != ChunkType::simple || header.num_records != count || count == 0 ||
        header.decoded_size > most_decoded_bytes)
        return false;
    data_begin_ = header.data_begin;
    data_size_ = header.data_size;
    data_hash_ = header.data_hash;
    file_end_ = header.end;
    decoded_size_ = header.decoded_size;

    Scratch& own = scratch();
    const Bytes head = data(file, 0, std::min<std::uint64_t>(codec_and_sizes, data_size_), own.joined);
    Cursor cursor(head);
    const Codec codec = read_codec(cursor);
    const std::uint64_t sizes_size = cursor.varint();
    const std::uint64_t sizes_at = cursor.offset();
    if (sizes_size > data_size_ - sizes_at) return false;
    if (codec != Codec::none && codec != Codec::zstd) return false;
    if (!parse_sizes(data(file, sizes_at, sizes_size, own.joined), codec, count)) return false;
    const std::uint64_t values_at = sizes_at + sizes_size;
    if (codec == Codec::zstd) {
        if (!parse_values(file, values_at) || (is_packed() && decoded_size_ > check.most_packed)) return false;
    } else {
        direct_ = data_size_ - values_at;
        stored_.push_back({direct_, values_at});
        if (direct_ != decoded_size_) return false;
    }
    if (!check.hash) return true;
    std::vector<Bytes> pieces;
    add_pieces(file, pieces);
    return riegeli_hash_pieces(pieces) == data_hash_;
}

void GroupedChunk::add_pieces(Bytes file, std::vector<Bytes>& to) const {
    std::uint64_t at = data_begin_;
    for (std::uint64_t left = data_size_; left != 0;) {
        const std::uint64_t size = std::min(left, block_size - at % block_size);
        to.push_back(file.subspan(at, size));
        left -= size;
        at += size + block_header_size; // used only if there are more
    }
}

bool GroupedChunk::parse_sizes(Bytes stored, Codec codec, std::uint64_t count) {
    Part part = read_part(codec, stored);
    if (part.decoded_size < count || part.decoded_size > count * 10) return false;
    if (codec == Codec::zstd) {
        Scratch& own = scratch();
        own.sizes.resize(part.decoded_size);
        if (!own.decoder) own.decoder = std::make_unique<zstd::Decoder>();
        own.decoder->exchange_room(own.room);
        const bool fits = own.decoder->decompress(part.stored, own.sizes);
        own.decoder->exchange_room(own.room);
        if (!fits) return false;
        part.decoded = own.sizes;
    }
    Cursor sizes(part.decoded);
    std::uint64_t end = 0;
    ends_.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t size = sizes.varint();
        if (size > decoded_size_ - end) return false;
        end += size;
        ends_.push_back(static_cast<std::uint32_t>(end));
    }
    return sizes.done() && end == decoded_size_;
}

bool GroupedChunk::parse_values(Bytes file, std::uint64_t at) {
    std::vector<std::byte>& room = scratch().joined;
    const Bytes head = data(file, at, std::min<std::uint64_t>(declared_size + frame_header, data_size_ - at), room);
    Cursor cursor(head);
    if (cursor.varint() != decoded_size_) return false;
    const std::uint64_t frame_at = at + cursor.offset();
    check_decoded_size(Codec::zstd, data_size_ - frame_at, decoded_size_, most_decoded_bytes);
    zstd::Frame frame{cursor.take(cursor.remaining())};
    const std::size_t before = frame.rest.size();
    if (frame.header().value_or(decoded_size_) != decoded_size_ || !frame.fits) return false;
    next_ = first_ = frame_at + (before - frame.rest.size());
    most_block_ = frame.most_block;
    return find_stored(file);
}

// Finds the blocks at the start of the frame that are stored as they are, as compressors leave photographs.
bool GroupedChunk::find_stored(Bytes file) {
    zstd::BlockHeader header{};
    for (std::uint64_t at = next_; read_block(file, at, header);) {
        if (header.type != zstd::BlockType::raw || header.size > decoded_size_ - direct_) return true;
        direct_ += header.size;
        if (header.size != 0) stored_.push_back({direct_, at + block_header});
        at += block_header + header.size;
        if (header.last) return direct_ == decoded_size_ && at == data_size_;
    }
    return false;
}

// Reads the header of a block whose bytes all lie in the data.
bool GroupedChunk::read_block(Bytes file, std::uint64_t at, zstd::BlockHeader& header) const noexcept {
    if (data_size_ - at < block_header) return false;
    std::array<std::byte, block_header> bytes;
    copy_stored(file, at, bytes.size(), bytes.data());
    zstd::Frame frame{bytes};
    frame.most_block = most_block_;
    header = frame.block();
    const std::uint64_t stored = header.type == zstd::BlockType::run ? 1 : header.size;
    return frame.fits && stored <= data_size_ - at - block_header;
}

bool GroupedChunk::reach(Bytes file, std::size_t record) {
    if (end(record) <= ready_) return true;
    if (file.size() < file_end_) return false;
    return has(record) || unpack(file, end(record));
}

bool GroupedChunk::load(Bytes file) {
    if (is_loaded()) return true;
    if (file.size() < file_end_) return false;
    if (is_packed()) return unpack(file, decoded_size_);
    memory_ = pool_->take(decoded_size_);
    std::byte* to = memory_.data();
    for (std::size_t i = 0; i < count(); ++i) {
        copy(file, i, to);
        to += size(i);
    }
    ready_.store(decoded_size_, std::memory_order_release);
    return true;
}

void GroupedChunk::forget() noexcept {
    ready_.store(0, std::memory_order_relaxed);
    memory_ = {};
    next_ = first_;
    is_whole_ = false;
    if (decoder_) scratch().decoder = std::move(decoder_);
}

bool GroupedChunk::unpack(Bytes file, std::uint64_t end) {
    Scratch& own = scratch();
    if (!decoder_) {
        if (ready_ != 0) return false; // An earlier call failed.
        if (memory_.data() == nullptr) memory_ = pool_->take(decoded_size_);
        decoder_ = own.decoder ? std::move(own.decoder) : std::make_unique<zstd::Decoder>();
        decoder_->begin({memory_.data(), static_cast<std::size_t>(decoded_size_)}, most_block_);
    }
    decoder_->exchange_room(own.room);
    bool fits = true;
    // The last block must be the last of the data, too.
    while (fits && (ready_ < end || (ready_ == decoded_size_ && !is_whole_))) fits = unpack_block(file);
    decoder_->exchange_room(own.room);
    if (!fits || is_whole_) own.decoder = std::move(decoder_);
    return fits && ready_ >= end;
}

bool GroupedChunk::unpack_block(Bytes file) {
    zstd::BlockHeader header{};
    if (is_whole_ || !read_block(file, next_, header)) return false;
    const std::uint64_t size = header.type == zstd::BlockType::run ? 1 : header.size;
    const std::size_t unpacked =
        decoder_->decompress_block(header, data(file, next_ + block_header, size, scratch().joined));
    if (unpacked == zstd::Decoder::unsound) return false;
    next_ += block_header + size;
    const std::uint64_t ready = ready_ + unpacked;
    is_whole_ = header.last;
    if (is_whole_ && (ready != decoded_size_ || next_ != data_size_)) return false;
    ready_.store(ready, std::memory_order_release);
    return true;
}

Bytes GroupedChunk::view(Bytes file, std::size_t record) const noexcept {
    static constexpr std::byte nothing{};
    const std::uint64_t first = start(record), size = this->size(record);
    if (size == 0) return {&nothing, 0};
    if (ready_.load(std::memory_order_acquire) >= end(record)) return {memory_.data() + first, size};
    const auto piece = std::ranges::upper_bound(stored_, first, {}, &Stored::end);
    if (piece->end < end(record)) return {};
    const std::uint64_t from = piece == stored_.begin() ? 0 : std::prev(piece)->end;
    const std::uint64_t at = with_headers(without_headers(data_begin_) + piece->at + (first - from));
    return is_interrupted(at, size) ? Bytes{} : file.subspan(at, size);
}

void GroupedChunk::copy(Bytes file, std::size_t record, std::byte* to) const noexcept {
    std::uint64_t first = start(record), left = size(record);
    if (left == 0) return;
    if (ready_.load(std::memory_order_acquire) >= end(record)) {
        std::memcpy(to, memory_.data() + first, left);
        return;
    }
    for (auto piece = std::ranges::upper_bound(stored_, first, {}, &Stored::end); left != 0; ++piece) {
        const std::uint64_t from = piece == stored_.begin() ? 0 : std::prev(piece)->end;
        const std::uint64_t size = std::min(left, piece->end - first);
        copy_stored(file, piece->at + (first - from), size, to);
        first += size;
        to += size;
        left -= size;
    }
}

// Copies bytes of the chunk's data.
void GroupedChunk::copy_stored(Bytes file, std::uint64_t from, std::uint64_t size, std::byte* to) const noexcept {
    copy_without_headers(file, with_headers(without_headers(data_begin_) + from), size, to);
}

// Bytes of the chunk's data: a view of the file, or of `room` if block headers interrupt them. Some bytes before them
// are readable, too.
Bytes GroupedChunk::data(Bytes file, std::uint64_t at, std::uint64_t size, std::vector<std::byte>& room) const {
    const std::uint64_t position = with_headers(without_headers(data_begin_) + at);
    if (size == 0) return {};
    if (!is_interrupted(position, size)) return file.subspan(position, size);
    if (room.size() < readable_before + size) room.resize(readable_before + size);
    copy_without_headers(file, position, size, room.data() + readable_before);
    return Bytes(room).subspan(readable_before, size);
}

std::size_t GroupedChunk::held_bytes() const noexcept {
    return sizeof *this + memory_.capacity() + ends_.capacity() * sizeof(ends_[0]) +
           stored_.capacity() * sizeof(stored_[0]) + (decoder_ ? sizeof *decoder_ : 0);
}

} // namespace headrace::riegeli
