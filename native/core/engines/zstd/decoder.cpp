#include "core/engines/zstd/decoder.hpp"

#include <algorithm>
#include <array>
#include <new>

namespace headrace::zstd {
namespace {

constexpr std::uint64_t largest_window = std::uint64_t{1} << 31; // of libzstd, whatever the content takes

} // namespace

std::optional<std::uint64_t> Frame::header() noexcept {
    if (number(4) != magic) fits = false;
    const std::uint64_t flags = number(1);
    const bool single_segment = (flags & 0x20) != 0;
    if ((flags & 0x0F) != 0) fits = false;
    std::uint64_t window = most_block_bytes;
    if (!single_segment) {
        const std::uint64_t code = number(1);
        const std::uint64_t least = std::uint64_t{1} << (10 + (code >> 3));
        window = least + least / 8 * (code & 7);
        if (window > largest_window) fits = false;
    }
    constexpr std::array<std::size_t, 4> size_bytes = {0, 2, 4, 8};
    const std::size_t bytes = size_bytes[flags >> 6];
    std::optional<std::uint64_t> size;
    if (bytes != 0 || single_segment) size = number(bytes == 0 ? 1 : bytes) + (bytes == 2 ? 256 : 0);
    if (single_segment) window = *size;
    most_block = static_cast<std::size_t>(std::min<std::uint64_t>(window, most_block_bytes));
    return size;
}

BlockHeader Frame::block() noexcept {
    const std::uint64_t word = number(3);
    const BlockHeader header{(word & 1) != 0, static_cast<BlockType>(word >> 1 & 3),
                             static_cast<std::size_t>(word >> 3)};
    if (header.type == BlockType::reserved || header.size > most_block) fits = false;
    return header;
}

namespace {

enum class LiteralsType : std::uint8_t { raw, run, coded, coded_as_before };

struct LiteralsHeader {
    LiteralsType type;
    std::size_t size = 0;   // bytes of the literals
    std::size_t stored = 0; // bytes that they take in the block
    bool single = false;    // one stream rather than four
};

// Takes the header off a block; nothing if it is cut off.
std::optional<LiteralsHeader> read_literals_header(Bytes& block) noexcept {
    if (block.empty()) return std::nullopt;
    const auto first = std::to_integer<unsigned>(block[0]);
    LiteralsHeader header{.type = static_cast<LiteralsType>(first & 3)};
    const unsigned format = first >> 2 & 3;
    const bool is_coded = header.type == LiteralsType::coded || header.type == LiteralsType::coded_as_before;
    const std::size_t bytes = is_coded ? std::max(format, 1U) + 2 : format % 2 == 0 ? 1 : format == 1 ? 2 : 3;
    if (bytes > block.size()) return std::nullopt;
    std::uint64_t word = 0;
    std::memcpy(&word, block.data(), bytes);
    if (is_coded) {
        constexpr std::array<unsigned, 4> widths = {10, 10, 14, 18};
        const std::uint64_t mask = (std::uint64_t{1} << widths[format]) - 1;
        header.size = static_cast<std::size_t>(word >> 4 & mask);
        header.stored = static_cast<std::size_t>(word >> (4 + widths[format]) & mask);
        header.single = format == 0;
    } else {
        header.size = static_cast<std::size_t>(word >> (bytes == 1 ? 3 : 4));
        header.stored = header.type == LiteralsType::raw ? header.size : 1;
    }
    block = block.subspan(bytes);
    return header;
}

} // namespace

bool Decoder::decompress(Bytes frame, std::span<std::byte> target) noexcept {
    return start(frame, target) && read_code() && finish();
}

void Decoder::decompress_pair(std::array<Decoder, 2>& decoders, const std::array<Bytes, 2>& frames,
                              const std::array<std::span<std::byte>, 2>& targets, std::array<bool, 2>& done) noexcept {
    auto& [one, other] = decoders;
    for (std::size_t i = 0; i < 2; ++i) done[i] = decoders[i].start(frames[i], targets[i]);
    if (done[0] && done[1] && one.block_.has_code && other.block_.has_code) {
        std::array<std::size_t, 2> sizes{};
        HuffmanTable::read_pair(one.code_, other.code_, {one.block_.stored, other.block_.stored}, sizes, one.cpu_);
        for (std::size_t i = 0; i < 2; ++i) done[i] = decoders[i].open_streams(sizes[i]);
    } else {
        for (std::size_t i = 0; i < 2; ++i) done[i] = done[i] && decoders[i].read_code();
    }
    if (done[0] && done[1] && one.block_.waits && other.block_.waits)
        HuffmanTable::decode_eight(one.code_, one.four_, other.code_, other.four_, one.cpu_);
    for (std::size_t i = 0; i < 2; ++i) done[i] = done[i] && decoders[i].finish();
}

bool Decoder::start(Bytes frame, std::span<std::byte> target) noexcept {
    frame_ = Frame{frame};
    if (frame_.header().value_or(target.size()) != target.size() || !frame_.fits) return false;
    code_.forget();
    sequences_.reset();
    begin_ = target.data();
    target_ = target;
    return start_block();
}

bool Decoder::finish() noexcept {
    for (;;) {
        if (!finish_block()) return false;
        target_ = target_.subspan(block_.size);
        if (block_.last) return target_.empty() && frame_.rest.empty();
        if (!start_block() || !read_code()) return false;
    }
}

bool Decoder::start_block() noexcept {
    const BlockHeader header = frame_.block();
    const Bytes stored = frame_.take(header.type == BlockType::run ? 1 : header.size);
    return frame_.fits && open_block(header, stored);
}

void Decoder::begin(std::span<std::byte> target, std::size_t most_block) noexcept {
    frame_ = Frame{};
    frame_.most_block = most_block;
    code_.forget();
    sequences_.reset();
    begin_ = target.data();
    target_ = target;
}

std::size_t Decoder::decompress_block(const BlockHeader& header, Bytes stored) noexcept {
    if (!open_block(header, stored) || !read_code() || !finish_block()) return unsound;
    target_ = target_.subspan(block_.size);
    return block_.size;
}

bool Decoder::open_block(const BlockHeader& header, Bytes stored) noexcept {
    block_ = {};
    block_.last = header.last;
    block_.is_done = true;
    block_.target = target_.first(std::min(frame_.most_block, target_.size()));
    block_.size = header.size;
    if (header.type == BlockType::compressed) return start_literals(stored);
    if (header.size > block_.target.size()) return false;
    if (header.size == 0) return true;
    if (header.type == BlockType::run) std::memset(target_.data(), std::to_integer<int>(stored[0]), header.size);
    else std::memcpy(target_.data(), stored.data(), header.size);
    return true;
}

bool Decoder::start_literals(Bytes coded) noexcept {
    const auto header = read_literals_header(coded);
    if (!header || header->stored > coded.size() || header->size > block_.target.size()) return false;
    const Bytes stored = coded.first(header->stored);
    block_.section = coded.subspan(header->stored);
    block_.is_done = block_.section.size() == 1 && block_.section[0] == std::byte{0};
    block_.size = header->size;
    if (header->type == LiteralsType::raw) {
        block_.literals = {stored, coded.size()};
        if (block_.is_done && !stored.empty()) std::memcpy(block_.target.data(), stored.data(), stored.size());
        return true;
    }
    std::byte* const to = block_.is_done ? block_.target.data() : room();
    if (to == nullptr) return false;
    const std::span<std::byte> literals{to, header->size};
    block_.literals = {literals, literals.size() + Sequences::slack};
    if (header->type == LiteralsType::run) {
        if (!literals.empty()) std::memset(to, std::to_integer<int>(stored[0]), literals.size());
        return true;
    }
    block_.stored = stored;
    block_.decoded = literals;
    block_.single = header->single;
    block_.has_code = header->type == LiteralsType::coded;
    block_.has_streams = true;
    return !literals.empty();
}

bool Decoder::read_code() noexcept {
    if (!block_.has_streams) return true;
    return open_streams(block_.has_code ? code_.read(block_.stored, cpu_) : 0);
}

bool Decoder::open_streams(std::size_t description) noexcept {
    if (!code_.ready()) return false;
    const Bytes streams = block_.stored.subspan(description);
    if (block_.single) return code_.decode_one(streams, block_.decoded);
    block_.waits = true;
    return HuffmanTable::open_four(streams, block_.decoded, four_);
}

bool Decoder::finish_block() noexcept {
    if (block_.waits && !code_.decode_four(four_, cpu_)) return false;
    if (block_.is_done) return true;
    block_.size = sequences_.decompress(block_.section, block_.literals, begin_, block_.target, cpu_);
    return block_.size != Sequences::unsound;
}

std::byte* Decoder::room() noexcept {
    if (!literals_) literals_.reset(new (std::nothrow) std::byte[most_block_bytes + Sequences::slack]);
    return literals_.get();
}

} // namespace headrace::zstd
