#include "core/parquet/values.hpp"

#include <algorithm>

namespace headrace::parquet {
namespace {

[[noreturn]] void refuse(std::uint64_t at) { throw FormatError(Fault::structure, at); }

constexpr std::size_t length_bytes = 4;

// Calls `use` with types of `form`'s stored and wanted sizes.
template <typename Use> void with_types(const ValueForm& form, Use&& use) {
    if (form.stored == 8) return use(std::uint64_t{}, std::uint64_t{});
    if (form.wanted == 8) return use(std::int32_t{}, std::int64_t{});
    if (form.wanted == 4) return use(std::uint32_t{}, std::uint32_t{});
    if (form.wanted == 2) return use(std::uint32_t{}, std::uint16_t{});
    use(std::uint32_t{}, std::uint8_t{});
}

// Calls `use` with a type of this size.
template <typename Use> void with_size(std::size_t size, Use&& use) {
    if (size == 8) return use(std::uint64_t{});
    if (size == 4) return use(std::uint32_t{});
    if (size == 2) return use(std::uint16_t{});
    use(std::uint8_t{});
}

// Copies a text into room with `StringsBuilder::long_room` bytes behind it, from memory with `page_slack` behind it. A
// fixed size costs less than a call.
inline void copy_text(std::byte* to, const std::byte* from, std::size_t size) noexcept {
    static_assert(page_slack >= 64 && StringsBuilder::long_room >= 64);
    if (size <= 16) std::memcpy(to, from, 16);
    else if (size <= 64) std::memcpy(to, from, 64);
    else std::memcpy(to, from, size);
}

} // namespace

Dictionary::Dictionary(Pool::Block page, std::size_t size, std::size_t count, const ValueForm& form)
    : page_(std::move(page)),
      form_(form),
      count_(count) {
    if (!form.is_text()) {
        if (count > size / form.stored) refuse(size);
        return;
    }
    if (count > size / length_bytes || size > UINT32_MAX) refuse(size);
    texts_.reserve(count);
    std::size_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (size - at < length_bytes) refuse(at);
        const auto length = load_le<std::uint32_t>(page_.data() + at);
        at += length_bytes;
        if (length > size - at) refuse(at);
        texts_.push_back({static_cast<std::uint32_t>(at), length});
        longest_ = std::max<std::size_t>(longest_, length);
        text_bytes_ += length;
        at += length;
    }
}

void Dictionary::check(std::span<const std::uint32_t> codes) const {
    std::uint32_t most = 0;
    for (const std::uint32_t code : codes) most = std::max(most, code);
    if (most >= count_) refuse(most);
}

void Dictionary::write(std::span<const std::uint32_t> codes, std::byte* to) const {
    check(codes);
    with_types(form_, [&]<typename Stored, typename Wanted>(Stored, Wanted) {
        for (std::size_t i = 0; i < codes.size(); ++i)
            store_le(to + i * sizeof(Wanted),
                     static_cast<Wanted>(load_le<Stored>(page_.data() + codes[i] * sizeof(Stored))));
    });
}

void Dictionary::add(std::span<const std::uint32_t> codes, StringsBuilder& to) const {
    check(codes);
    std::size_t total = 0;
    for (const std::uint32_t code : codes) total += texts_[code].size;
    const StringsBuilder::Room room = to.reserve(codes.size(), total);
    std::size_t at = 0;
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const Text& text = texts_[codes[i]];
        copy_text(room.data + at, page_.data() + text.begin, text.size);
        at += text.size;
        room.offsets[i] = static_cast<std::int64_t>(room.size + at);
    }
    to.commit(codes.size(), total);
}

void write_plain(const std::byte* from, std::size_t count, const ValueForm& form, std::byte* to) noexcept {
    if (count == 0) return;
    if (form.stored == form.wanted) {
        std::memcpy(to, from, count * form.stored);
        return;
    }
    with_types(form, [&]<typename Stored, typename Wanted>(Stored, Wanted) {
        for (std::size_t i = 0; i < count; ++i)
            store_le(to + i * sizeof(Wanted), static_cast<Wanted>(load_le<Stored>(from + i * sizeof(Stored))));
    });
}

void write_low_bits(std::span<const std::uint64_t> numbers, const ValueForm& form, std::byte* to) noexcept {
    with_types(form, [&]<typename Stored, typename Wanted>(Stored, Wanted) {
        for (std::size_t i = 0; i < numbers.size(); ++i)
            store_le(to + i * sizeof(Wanted), static_cast<Wanted>(static_cast<Stored>(numbers[i])));
    });
}

void write_streams(const std::byte* from, std::size_t stride, std::size_t count, const ValueForm& form,
                   std::byte* to) noexcept {
    with_types(form, [&]<typename Stored, typename Wanted>(Stored, Wanted) {
        using Bits = std::make_unsigned_t<Stored>;
        for (std::size_t i = 0; i < count; ++i) {
            Bits number = 0;
            for (std::size_t k = 0; k < sizeof(Bits); ++k)
                number |= std::to_integer<Bits>(from[k * stride + i]) << 8 * k;
            store_le(to + i * sizeof(Wanted), static_cast<Wanted>(static_cast<Stored>(number)));
        }
    });
}

void spread(std::byte* numbers, std::span<const std::uint32_t> nulls, std::uint64_t first, Bytes fill) noexcept {
    with_size(fill.size(), [&]<typename Number>(Number) {
        const auto filled = load_le<Number>(fill.data());
        const std::byte* from = numbers + nulls.size() * sizeof(Number);
        std::byte* to = numbers;
        for (const std::uint32_t null : nulls) {
            for (std::byte* const end = numbers + (null - first) * sizeof(Number); to < end; to += sizeof(Number)) {
                store_le(to, load_le<Number>(from));
                from += sizeof(Number);
            }
            store_le(to, filled);
            to += sizeof(Number);
        }
    });
}

void add_plain(Bytes& from, std::size_t count, StringsBuilder& to) {
    constexpr std::size_t most = 256; // values for which room is made at once
    while (count > 0) {
        const std::size_t some = std::min(count, most);
        std::size_t total = 0;
        Bytes rest = from;
        for (std::size_t i = 0; i < some; ++i) {
            if (rest.size() < length_bytes) refuse(total);
            const auto length = load_le<std::uint32_t>(rest.data());
            if (length > rest.size() - length_bytes) refuse(total);
            rest = rest.subspan(length_bytes + length);
            total += length;
        }
        const StringsBuilder::Room room = to.reserve(some, total);
        std::size_t at = 0;
        const std::byte* text = from.data();
        for (std::size_t i = 0; i < some; ++i) {
            const auto length = load_le<std::uint32_t>(text);
            text += length_bytes;
            copy_text(room.data + at, text, length);
            text += length;
            at += length;
            room.offsets[i] = static_cast<std::int64_t>(room.size + at);
        }
        to.commit(some, total);
        from = rest;
        count -= some;
    }
}

} // namespace headrace::parquet
