#pragma once

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
    std::size_t size; ///< Bytes of the content, or of the frame if it is `compressed`.
};

/// Steps through a frame. `fits` becomes false where the frame ends early or holds what this decoder does not read.
struct Frame {
    Bytes rest;
    bool fits = true;
    std::size_t most_block = most_block_bytes; ///< Bytes of the largest block, which the window bounds.

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

    /// Reads the frame's header: the declared content size, if any. A frame with a dictionary or checksum does not fit.
    [[nodiscard]] std::optional<std::uint64_t> header() noexcept;

    /// Reads the header of the next block. A block that is too large does not fit.
    [[nodiscard]] BlockHeader block() noexcept;
};

/// Decompresses Zstandard frames into the caller's memory. Made for thousands of frames of a few kilobytes: nothing is
/// allocated or cleared between them. Each thread needs its own. Source: RFC 8878.
class Decoder {
  public:
    Decoder() noexcept : Decoder(this_cpu) {}
    explicit Decoder(const Cpu& cpu) noexcept : cpu_(cpu) {}

    /// Decompresses a frame that fills `target` exactly. False, with anything in `target`, for every other frame: if it
    /// is damaged, or has a dictionary or a checksum. The library then decompresses it, or names the fault.
    [[nodiscard]] bool decompress(Bytes frame, std::span<std::byte> target) noexcept;

    /// `decompress` for two frames, interleaved, in less time. `done` receives what `decompress` returns.
    static void decompress_pair(std::array<Decoder, 2>& decoders, const std::array<Bytes, 2>& frames,
                                const std::array<std::span<std::byte>, 2>& targets, std::array<bool, 2>& done) noexcept;

    /// Starts a frame whose blocks the caller cuts out and hands over. `most_block` bounds them.
    void begin(std::span<std::byte> target, std::size_t most_block) noexcept;

    /// Decompresses the next block of that frame, behind the ones before it. Returns its size in bytes, or `unsound`.
    /// Sixteen bytes before `stored` must be readable.
    [[nodiscard]] std::size_t decompress_block(const BlockHeader& header, Bytes stored) noexcept;

    static constexpr std::size_t unsound = ~std::size_t{0};

    /// Memory for the literals of a block. A decoder that waits for more blocks can lend it to another.
    using Room = std::unique_ptr<std::byte[]>;
    void exchange_room(Room& room) noexcept { literals_.swap(room); }

  private:
    // A block between its literals and its sequences.
    struct Block {
        bool last = true;
        bool has_streams = false;
        bool has_code = false; // A code is described before the streams.
        bool single = false;   // one stream rather than four
        bool waits = false;    // for its four streams of literals to be decoded
        bool is_done = false;  // It has no sequences.
        Bytes stored;          // the code and the streams of literals
        std::span<std::byte> decoded;
        Literals literals;
        Bytes section;
        std::span<std::byte> target; // as far as the block may reach
        std::size_t size = 0;
    };

    [[nodiscard]] bool start(Bytes frame, std::span<std::byte> target) noexcept;
    [[nodiscard]] bool start_block() noexcept;
    [[nodiscard]] bool open_block(const BlockHeader& header, Bytes stored) noexcept;
    [[nodiscard]] bool start_literals(Bytes coded) noexcept;
    [[nodiscard]] bool read_code() noexcept;
    [[nodiscard]] bool open_streams(std::size_t description) noexcept;
    [[nodiscard]] bool finish_block() noexcept;
    [[nodiscard]] bool finish() noexcept;
    [[nodiscard]] std::byte* room() noexcept;

    Cpu cpu_;
    Frame frame_;
    std::span<std::byte> target_; // of the remaining blocks
    const std::byte* begin_ = nullptr;
    Block block_;
    HuffmanTable code_;
    HuffmanTable::Four four_;
    Sequences sequences_;
    Room literals_; // allocated at first use
};

} // namespace headrace::zstd
