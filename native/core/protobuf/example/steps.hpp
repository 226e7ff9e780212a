#pragma once

#include <array>

#include "core/protobuf/example/columns.hpp"

namespace headrace::example {

/// The bytes from the start of a step to its numbers, if all steps have the same: two tags with their lengths, and
/// those of the step itself.
class StepTemplate {
  public:
    /// Copies the numbers of the steps at the start of `steps` that match, each with values() bytes of numbers, and
    /// returns how many steps these are. There is room for most(steps) of them.
    [[nodiscard]] std::size_t copy(Bytes steps, std::byte* to) const noexcept;

    /// Whether the first step matches.
    [[nodiscard]] bool begins(Bytes steps) const noexcept {
        return size_ != 0 && steps.size() >= size_ && matches(steps.data());
    }

    /// How many steps there can be.
    [[nodiscard]] std::size_t most(Bytes steps) const noexcept { return size_ == 0 ? 0 : steps.size() / size_; }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::size_t values() const noexcept { return size_ - head_size_; }

    /// Learns from a step that ends with its numbers. `begin` is where it begins, with its tag.
    void learn(const std::byte* begin, Bytes numbers) noexcept;

  private:
    [[nodiscard]] bool matches(const std::byte* step) const noexcept {
        return ((load_le<std::uint64_t>(step) ^ first_) & first_mask_) == 0 &&
               (head_size_ <= sizeof first_ || load_le<std::uint64_t>(step + head_size_ - sizeof last_) == last_);
    }

    std::uint64_t first_ = 0;      ///< The first eight bytes of the head, or all if it has fewer.
    std::uint64_t first_mask_ = 0; ///< Covers the bytes of `first_`.
    std::uint64_t last_ = 0;       ///< The last eight bytes of a head of more than eight.
    std::size_t head_size_ = 0;
    std::size_t size_ = 0; ///< Of a step, at least eight bytes; 0: nothing was learned.
};

/// Reads the steps of one feature list after another into a column.
class StepReader {
  public:
    /// Appends the steps of an encoded FeatureList and returns how many there are. Throws FormatError{wire, wrong_kind,
    /// wrong_count}.
    std::size_t read(Part list, ColumnWriter& column);

  private:
    void learn(const ColumnWriter& column, const std::byte* begin, const std::byte* end);

    StepTemplate usual_;
    List step_;
};

} // namespace headrace::example
