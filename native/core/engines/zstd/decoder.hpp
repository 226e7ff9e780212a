#pragma once

#include "core/engines/zstd/decoder.hpp"

#include <memory>
#include <optional>

#include "core/base/cursor.hpp"
#include "core/engines/zstd/huffman.hpp"
#include "core/engines/zstd/sequences.hpp"

/// The frames of Zstandard. Source: RFC 8878, section 3.1.1.
namespace headrace::zstd {

inline constexpr std::uint32_t magic = 0xFD2FB528;
inline constexpr std::size_t most_block_bytes = 128 << 10;

enum class BlockType : std::uint8_t { raw, run, compressed, reserved };

struct BlockHeader {
    bool last;
    BlockType type;
    std::size_t size; ///< Of the content, for `compressed` of what stands in the frame.
};

/// Steps through a frame. `fits` turns false when something is not there, or not of the kind that is read here.
struct Frame {
    Bytes rest;
    bool fits = true;
    std::size_t most_block = most_block_bytes; ///< What a block may hold: no more than the window does.

    [[nodiscard]] Bytes take(std::size_t size) noexcept {
        if (size > rest.size()) {
            fits = false;
            return {};
        }
        const Bytes taken = rest.first(size);
        rest = rest.subspan(size);
        return taken;
    }

    [[nodiscard]] std::uint64_t number(std::size_t size) noexcept {
        std::uint64_t value = 0;
        std::size_t shift = 0;
        for (const std::byte byte : take(size)) {
            value |= std::to_integer<std::uint64_t>(byte) << shift;
            shift += 8;
        }
        return value;
    }

    /// The declared content size, if there is one. A frame with a dictionary or a checksum does not fit.
    [[nodiscard]] std::optional<std::uint64_t> header() noexcept;

    /// The header of the next block. One that is larger than blocks may be does not fit.
    [[nodiscard]] BlockHeader block() noexcept;
};

/// Unpacks Zstandard frames into memory that is there. For thousands of frames of a few kilobytes: nothing is allocated
/// or cleared between them. Use one in each thread. Source: RFC 8878.
class Decoder {
  public:
    /// Unpacks a frame that fills `target` exactly, and returns true; false (with `target` in any state) for every
    /// other frame, also for a damaged one, and for one with a dictionary or a checksum: then a complete decompressor
    /// has to say what it is.
    [[nodiscard]] bool unpack(Bytes frame, std::span<std::byte> target) noexcept;

    /// Does that with two frames, where that is faster than one after the other. `done` are what `unpack` returns.
    static void unpack_two(std::array<Decoder, 2>& decoders, const std::array<Bytes, 2>& frames,
                           const std::array<std::span<std::byte>, 2>& targets, std::array<bool, 2>& done) noexcept;

  private:
    // A block between its literals and its sequences.
    struct Block {
        bool last = true;
        bool has_streams = false;
        bool has_code = false; // described before the streams
        bool single = false;   // one stream rather than four
        bool waits = false;    // for its four streams of literals
        bool is_done = false;  // It has nothing but literals.
        Bytes stored;          // of literals: a code, and streams
        std::span<std::byte> decoded;
        Literals literals;
        Bytes section;
        std::span<std::byte> target; // as far as it may reach
        std::size_t size = 0;
    };

    [[nodiscard]] bool start(Bytes frame, std::span<std::byte> target) noexcept;
    [[nodiscard]] bool start_block() noexcept;
    [[nodiscard]] bool start_literals(Bytes coded) noexcept;
    [[nodiscard]] bool read_code() noexcept;
    [[nodiscard]] bool open_streams(std::size_t description) noexcept;
    [[nodiscard]] bool finish_block() noexcept;
    [[nodiscard]] bool finish() noexcept;
    [[nodiscard]] std::byte* room() noexcept;

    Frame frame_;
    std::span<std::byte> target_; // of the blocks that are still to come
    const std::byte* begin_ = nullptr;
    Block block_;
    HuffmanTable code_;
    HuffmanTable::Four four_;
    Sequences sequences_;
    std::unique_ptr<std::byte[]> literals_; // Made when it is first needed.
};

} // namespace headrace::zstd
