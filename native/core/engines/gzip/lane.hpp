#pragma once

#include <memory>
#include <span>

#include "core/base/cpu.hpp"
#include "core/engines/gzip/codes.hpp"

namespace headrace::deflate {

inline constexpr std::size_t most_lanes = 3; ///< The tables of more do not fit into the first cache.
inline constexpr std::size_t window_bytes = std::size_t{32} << 10; ///< How far back a match may reach.

/// Inflates a stretch of a Deflate stream, from the beginning of a block, without the bytes before it. It notes matches
/// and copies them once those bytes are known.
class Lane {
  public:
    /// Whether it runs, or why it stopped: at a block that ends at or behind `until`, at the last block, or unable to
    /// go on.
    enum class State { running, boundary, last, stuck };

    /// With room for this many inflated bytes.
    explicit Lane(std::size_t room);

    /// Begins at bit `at` of `data`, where a block must begin. Ends with the first block that ends at or behind bit
    /// `until`.
    void begin(Bytes data, std::uint64_t at, std::uint64_t until) noexcept;

    [[nodiscard]] State state() const noexcept { return state_; }
    [[nodiscard]] std::uint64_t start() const noexcept { return start_; }
    /// The bit behind the last whole block.
    [[nodiscard]] std::uint64_t end() const noexcept { return whole_.at; }

    /// Copies the matches. `before` are the last bytes of the same member before this lane's. False if a match reaches
    /// beyond them.
    [[nodiscard]] bool resolve(Bytes before) noexcept;
    /// The inflated bytes, after `resolve`.
    [[nodiscard]] Bytes bytes() const noexcept { return {data(), whole_.size}; }
    /// The last bytes of this lane and of the `before` bytes before it, up to a window.
    [[nodiscard]] Bytes last_bytes(std::size_t before) const noexcept;

    /// Inflates with up to `most_lanes` lanes, each to its end. Their lookups are interleaved: each lookup of a lane
    /// depends on the one before it, and the other lanes use that wait.
    static void run(std::span<Lane* const> lanes, const Cpu& cpu = this_cpu) noexcept;

  private:
    struct Match {
        std::uint32_t at;
        std::uint16_t length;
        std::uint16_t distance; // minus one
    };
    struct Position {
        std::uint64_t at = 0; // bit
        std::size_t size = 0, matches = 0;
    };

    [[nodiscard]] std::byte* data() const noexcept { return room_.get() + window_bytes; }
    template <std::size_t count> HEADRACE_INLINE static void run_interleaved(Lane* const* lanes) noexcept;
    static void run_all(Lane* const* lanes, std::size_t count) noexcept;
    static void run_all_bmi2(Lane* const* lanes, std::size_t count) noexcept;
    [[nodiscard]] std::size_t safe_steps() const noexcept;
    void step() noexcept;
    void finish_block() noexcept;
    void begin_block() noexcept;
    [[nodiscard]] bool copy_stored() noexcept;
    [[nodiscard]] bool note_match(unsigned symbol, std::uint64_t bits, unsigned used) noexcept;

    Codes codes_;
    std::unique_ptr<std::byte[]> room_;
    std::size_t capacity_;
    std::unique_ptr<Match[]> matches_;
    std::size_t match_capacity_;
    Bytes input_;
    Position now_, whole_;
    std::uint64_t start_ = 0, until_ = 0;
    State state_ = State::stuck;
    bool last_block_ = false;
};

} // namespace headrace::deflate
