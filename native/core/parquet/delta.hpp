#pragma once

#include "core/parquet/levels.hpp"
#include "core/text/strings.hpp"

namespace headrace::parquet {

/// Decodes numbers that are stored as differences. Source: Parquet's Encodings.md, "Delta Encoding". Throws
/// FormatError{structure} for a header that is not as it should be or another count, {truncated} or {wire} where the
/// bytes end before the numbers do.
class DeltaReader {
  public:
    /// `packed_slack` bytes behind `bytes` must be readable. They hold `count` numbers of `bits` bits, 32 or 64.
    DeltaReader(Bytes bytes, std::uint64_t count, unsigned bits);

    /// Up to `most` of the next numbers, at least one. Bits above those of a number mean nothing. Valid until the next
    /// call.
    [[nodiscard]] std::span<const std::uint64_t> take(std::size_t most);

    /// The bytes behind the numbers that are left.
    [[nodiscard]] Bytes rest() const;

    /// How many numbers are left.
    [[nodiscard]] std::uint64_t left() const noexcept { return left_ + (end_ - at_); }

  private:
    void next_miniblock();
    void refill();

    static constexpr std::size_t group = 32; // A miniblock has a multiple of as many.
    Cursor cursor_;
    unsigned bits_;
    std::uint64_t in_miniblock_ = 0; // numbers of one
    std::uint64_t miniblocks_ = 0;   // of a block
    Bytes widths_;                   // of the miniblocks of the block at hand that are not begun
    std::uint64_t least_ = 0;        // difference in that block
    unsigned width_ = 0;             // of the miniblock at hand
    std::uint64_t packed_ = 0;       // numbers in it that are not decoded, padding included
    std::uint64_t value_ = 0;
    std::uint64_t left_; // numbers that are not decoded
    std::size_t at_ = 0, end_ = 0;
    std::array<std::uint64_t, group> block_{};
};

/// Decodes texts that are stored with their lengths as differences, or with what they share with the one before.
/// Source: Encodings.md, "Delta-length byte array" and "Delta Strings". Throws as DeltaReader does, and `structure` for
/// lengths that do not fit, bytes behind the last text, or more text than is plausible.
class DeltaTexts {
  public:
    /// As for DeltaReader. `shares_prefixes`: whether each text says how much of the one before it begins with. The
    /// bytes must not change, and `page_slack` behind them must be readable. `most_bytes`: of all texts together, since
    /// those that share much become many times as many bytes as there are.
    DeltaTexts(Bytes bytes, std::uint64_t count, bool shares_prefixes, std::uint64_t most_bytes);

    /// Adds the next `count` texts.
    void add(std::size_t count, StringsBuilder& to);

  private:
    void add_whole(std::size_t count, StringsBuilder& to);
    void add_suffixes(std::size_t count, StringsBuilder& to);

    std::optional<DeltaReader> prefixes_;
    DeltaReader lengths_;
    Bytes content_;
    std::uint64_t most_bytes_;    // of the texts that are left
    std::vector<std::byte> last_; // where prefixes are shared
};

} // namespace headrace::parquet
