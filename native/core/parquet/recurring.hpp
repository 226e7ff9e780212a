#pragma once

#include "core/parquet/delta.hpp"
#include "core/parquet/values.hpp"

namespace headrace::parquet {

/// When texts are kept once each, with the number of its text for each value, because they take far less memory so.
struct RecurringLimits {
    std::uint64_t least_bytes = 4 << 20; ///< Of all values.
    std::uint64_t least_each = 256;      ///< Bytes of a value, on average: shorter ones are copied as fast as found.
    std::uint64_t least_ratio = 8;       ///< Bytes of all values to those that they take so.
    std::uint64_t most_bytes = 1 << 30;  ///< Of all values: more are never written out.
};

/// Collects the texts of a column, one after another.
class AllTexts {
  public:
    explicit AllTexts(StringsBuilder texts) : texts_(std::move(texts)) {}

    void add(Bytes text) { texts_.add(text); }
    void add_plain(Bytes& from, std::size_t count) { parquet::add_plain(from, count, texts_); }
    void add_deltas(DeltaTexts& from, std::size_t count) { from.add(count, texts_); }
    void add_codes(std::span<const std::uint32_t> codes, const std::shared_ptr<const Dictionary>& of) {
        of->add(codes, texts_);
    }

    [[nodiscard]] StringBlocks finish() { return texts_.finish(); }

  private:
    StringsBuilder texts_;
};

/// The same, where those of dictionaries are kept once each.
class RecurringTexts {
  public:
    /// Of `values` values, which the caller has counted.
    RecurringTexts(const std::shared_ptr<Pool>& pool, std::size_t values, const RecurringLimits& limits);

    void add(Bytes text);
    void add_plain(Bytes& from, std::size_t count);
    void add_deltas(DeltaTexts& from, std::size_t count);
    /// Throws FormatError{structure} for a code without a value.
    void add_codes(std::span<const std::uint32_t> codes, const std::shared_ptr<const Dictionary>& of);

    /// Whether to keep them so.
    [[nodiscard]] bool is_worth_it() const noexcept;

    /// The texts that occur.
    [[nodiscard]] StringBlocks finish() { return texts_.finish(); }

    /// int32: for each value the number of its text.
    [[nodiscard]] Pool::Block take_codes() noexcept { return std::move(codes_); }

    /// All values, written out.
    [[nodiscard]] StringBlocks write_out();

  private:
    void put(std::size_t text);
    void number_from(std::size_t first);

    std::shared_ptr<Pool> pool_;
    RecurringLimits limits_;
    StringsBuilder texts_;
    Pool::Block codes_;
    std::size_t count_ = 0;
    std::uint64_t bytes_ = 0;                // of all values
    std::shared_ptr<const Dictionary> last_; // of which `numbers_` are
    std::vector<std::int32_t> numbers_;      // of its texts; -1: it has not occurred
};

} // namespace headrace::parquet
