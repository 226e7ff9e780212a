#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "core/base/pool.hpp"
#include "core/base/spans.hpp"

namespace headrace {

/// Values of bytes or text, end to end: value k is data[offsets[k]] up to data[offsets[k + 1]]. Others may change the
/// memory meanwhile, so every value is checked when it is read.
struct StringsView {
    Bytes data;
    std::span<const std::int64_t> offsets; ///< One more than there are values.

    [[nodiscard]] std::size_t count() const noexcept { return offsets.empty() ? 0 : offsets.size() - 1; }

    /// Value `k`, which the caller knows to be below count(). Throws FormatError{range} with `record` = k if its
    /// offsets fall or lie outside the data.
    [[nodiscard]] Bytes at(std::size_t k) const {
        const auto begin = static_cast<std::uint64_t>(offsets[k]), end = static_cast<std::uint64_t>(offsets[k + 1]);
        if (begin > end || end > data.size()) fail(k, end);
        return data.subspan(begin, end - begin);
    }

    /// The bytes of all values. Throws like at().
    [[nodiscard]] Bytes all() const;

  private:
    [[noreturn]] void fail(std::size_t k, std::uint64_t end) const;
};

/// Values of bytes or text in memory of their own.
struct StringBlocks {
    Pool::Block data;
    Pool::Block offsets; ///< int64, one more than there are values; the first is 0.
    std::size_t size = 0;
    std::size_t count = 0;

    [[nodiscard]] StringsView view() const noexcept {
        return {{data.data(), size}, {reinterpret_cast<const std::int64_t*>(offsets.data()), count + 1}};
    }
};

/// Collects values one after another.
class StringsBuilder {
  public:
    StringsBuilder() = default;

    /// `values` and `bytes` are expected, not limits. The caller has checked that they are plausible.
    StringsBuilder(std::shared_ptr<Pool> pool, std::size_t values, std::size_t bytes);

    /// How many values there are.
    [[nodiscard]] std::size_t count() const noexcept { return count_; }

    /// How many bytes they have together.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// Appends a value.
    void add(Bytes value) {
        std::byte* const to = extend(value.size());
        if (!value.empty()) std::memcpy(to, value.data(), value.size());
    }

    /// The same if the 16 bytes from its start on are readable. Copying a fixed size costs less than a call.
    void add_in_room(Bytes value) {
        std::byte* const to = extend(value.size());
        if (value.size() <= room) {
            std::memcpy(to, value.data(), room);
        } else {
            std::memcpy(to, value.data(), value.size());
        }
    }

    /// The same if memory is readable up to `end`. Copies more bytes than needed, because a fixed size costs less than
    /// a call, and a branch for each size of text more than a few vectors. `end` is not before the end of the value.
    void add_near(Bytes value, const std::byte* end) {
        std::byte* const to = extend(value.size());
        if (value.size() > width_ && value.size() <= wide) width_ = wide;
        const auto readable = static_cast<std::size_t>(end - value.data());
        if (value.size() > width_ || readable < width_) [[unlikely]] {
            if (!value.empty()) std::memcpy(to, value.data(), value.size());
        } else if (width_ == room) {
            std::memcpy(to, value.data(), room);
        } else {
            std::memcpy(to, value.data(), wide);
        }
    }

    /// Makes room for `bytes` more, which is not a limit. The caller has checked that this is plausible.
    void make_room(std::size_t bytes);

    /// How many more bytes there is room for.
    [[nodiscard]] std::size_t room_left() const noexcept { return data_room_ - size_; }

    /// Drops all values after the first `count`, which is at most count().
    void cut(std::size_t count) noexcept {
        count_ = count;
        size_ = static_cast<std::size_t>(reinterpret_cast<const std::int64_t*>(offsets_.data())[count]);
    }

    /// Adds a value of `size` bytes and returns where to write them. The pointer is valid until the next call.
    [[nodiscard]] std::byte* extend(std::size_t size) {
        if (size > data_room_ - size_) [[unlikely]]
            grow_data(size);
        if (count_ == value_room_) [[unlikely]]
            grow_offsets();
        std::byte* const to = data_.data() + size_;
        size_ += size;
        reinterpret_cast<std::int64_t*>(offsets_.data())[++count_] = static_cast<std::int64_t>(size_);
        return to;
    }

    /// Where to write values directly.
    struct Room {
        std::byte* data;       ///< The first of them begins here; `long_room` bytes more than asked for are writable.
        std::int64_t* offsets; ///< Where the end of the first one goes, and then those of the others.
        std::size_t size;      ///< What the offset of `data` is.
    };

    /// Makes room for `values` more values, of `bytes` bytes together. `expected`: how many bytes are to come in all.
    [[nodiscard]] Room reserve(std::size_t values, std::size_t bytes, std::size_t expected = 0) {
        if (bytes + long_room > data_room_ - size_) [[unlikely]]
            grow_data(std::max(bytes, expected) + long_room);
        if (values > value_room_ - count_) [[unlikely]]
            grow_offsets(values);
        return {data_.data() + size_, reinterpret_cast<std::int64_t*>(offsets_.data()) + count_ + 1, size_};
    }

    /// Adds what was written into that room.
    void commit(std::size_t values, std::size_t bytes) noexcept {
        count_ += values;
        size_ += bytes;
    }

    /// What was collected. Empties the builder.
    [[nodiscard]] StringBlocks finish();

    static constexpr std::size_t room = 16;      ///< What add_in_room copies at least.
    static constexpr std::size_t wide = 64;      ///< Writable bytes after the last value.
    static constexpr std::size_t long_room = 64; ///< The same after values written directly.

  private:
    void grow_data(std::size_t size);
    void grow_offsets(std::size_t values = 1);

    std::shared_ptr<Pool> pool_;
    Pool::Block data_;
    Pool::Block offsets_;
    std::size_t size_ = 0;
    std::size_t count_ = 0;
    std::size_t data_room_ = 0;
    std::size_t value_room_ = 0;
    std::size_t width_ = room; ///< What add_near copies: `room` as long as no value was longer, else `wide`.
};

/// Copies values into a block of their exact size.
[[nodiscard]] StringBlocks join_values(std::span<const Bytes> values, const std::shared_ptr<Pool>& pool);

/// The values of columns end to end. Throws like StringsView::all.
[[nodiscard]] StringBlocks join_strings(std::span<const StringsView> parts, const std::shared_ptr<Pool>& pool);

/// The first value whose offsets fall or lie outside of `size`; nothing if there is none.
[[nodiscard]] std::optional<std::size_t> first_outside(std::span<const std::int64_t> offsets,
                                                       std::uint64_t size) noexcept;

/// The first value that is not UTF-8. Throws like StringsView::at.
[[nodiscard]] std::optional<std::size_t> first_not_utf8(const StringsView& strings);

/// The values at `indices`; negative ones count from the end. Throws FormatError{range} for an index out of range
/// (`record` = its position).
[[nodiscard]] StringBlocks take_strings(const StringsView& strings, std::span<const std::int64_t> indices,
                                        const std::shared_ptr<Pool>& pool);

/// For each value whether it equals that of `other`, which has as many. Throws like StringsView::at.
void compare_strings(const StringsView& strings, const StringsView& other, std::span<bool> equal);

/// For each value whether it equals `value`. Throws like StringsView::at.
void compare_strings(const StringsView& strings, Bytes value, std::span<bool> equal);

/// For each value its XXH64 with this seed, modulo `buckets` (above 0). Throws like StringsView::at.
void hash_strings(const StringsView& strings, std::uint64_t seed, std::uint64_t buckets, std::span<std::int64_t> out);

} // namespace headrace
