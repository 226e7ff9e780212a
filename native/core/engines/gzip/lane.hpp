#pragma once

#include <memory>
#include <span>

#include "core/engines/gzip/codes.hpp"

namespace headrace::deflate {

inline constexpr std::size_t most_lanes = 3; ///< More wait for the first cache, not for each other.
inline constexpr std::size_t window_bytes = std::size_t{32} << 10; ///< How far back a match may reach.

/// A stretch of a Deflate stream from the beginning of a block on, inflated with no knowledge of what comes before it:
/// matches are noted, and copied when that is known.
class Lane {
  public:
    /// Why it stands still.
    enum class State { running, boundary, last, stuck };

    /// Room for so many bytes.
    explicit Lane(std::size_t room);

    /// Begins at bit `at` of `data`, which must be that of a block; ends with the first block that ends at bit `until`
    /// or behind it.
    void begin(Bytes data, std::uint64_t at, std::uint64_t until) noexcept;

    [[nodiscard]] State state() const noexcept { return state_; }
    [[nodiscard]] std::uint64_t start() const noexcept { return start_; }
    /// The bit behind the last block that was inflated wholly.
    [[nodiscard]] std::uint64_t end() const noexcept { return whole_.at; }

    /// Copies the matches, where `before` are the last bytes before this lane's, of this member. False where one
    /// reaches beyond them.
    [[nodiscard]] bool resolve(Bytes before) noexcept;
    /// What was inflated: only after `resolve`.
    [[nodiscard]] Bytes bytes() const noexcept { return {data(), whole_.size}; }
    /// The last bytes up to its end, of those before it, too.
    [[nodiscard]] Bytes last_bytes(std::size_t before) const noexcept;

    /// Inflates with all of the lanes (`most_lanes`), each to its end. Side by side: one literal's code must be known
    /// before the next one's can be looked up, and in that time the others' can be.
    static void run(std::span<Lane* const> lanes) noexcept;

  private:
    struct Match {
        std::uint32_t at;
        std::uint16_t length;
        std::uint16_t distance; // less one
    };
    struct Position {
        std::uint64_t at = 0; // bit
        std::size_t size = 0, matches = 0;
    };

    [[nodiscard]] std::byte* data() const noexcept { return room_.get() + window_bytes; }
    template <std::size_t count> [[gnu::always_inline]] static void run_side_by_side(Lane* const* lanes) noexcept;
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
