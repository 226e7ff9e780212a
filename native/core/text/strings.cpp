#include "core/text/strings.hpp"

#include <algorithm>
#include <utility>

#include "core/checksum/xxhash64.hpp"
#include "core/text/utf8.hpp"

namespace headrace {
namespace {

constexpr std::size_t item = sizeof(std::int64_t);

/// Copies a value of up to 16 bytes by overlapping loads: a call of memcpy would cost more than the copy.
void copy_short(std::byte* to, const std::byte* from, std::size_t size) noexcept {
    if (size >= 8) {
        const auto first = load_le<std::uint64_t>(from), last = load_le<std::uint64_t>(from + size - 8);
        store_le(to, first);
        store_le(to + size - 8, last);
    } else if (size >= 4) {
        const auto first = load_le<std::uint32_t>(from), last = load_le<std::uint32_t>(from + size - 4);
        store_le(to, first);
        store_le(to + size - 4, last);
    } else {
        for (std::size_t i = 0; i < size; ++i) to[i] = from[i];
    }
}

[[noreturn]] void fail_at(std::size_t record, std::uint64_t limit, std::uint64_t found) {
    FormatError error(Fault::range, 0, limit, found);
    error.record = static_cast<std::int64_t>(record);
    throw error;
}

} // namespace

void StringsView::fail(std::size_t k, std::uint64_t end) const { fail_at(k, data.size(), end); }

Bytes StringsView::all() const {
    if (offsets.empty()) return {};
    const auto begin = static_cast<std::uint64_t>(offsets.front()), end = static_cast<std::uint64_t>(offsets.back());
    if (begin > end || end > data.size()) fail(count(), end);
    return data.subspan(begin, end - begin);
}

StringsBuilder::StringsBuilder(std::shared_ptr<Pool> pool, std::size_t values, std::size_t bytes)
    : pool_(std::move(pool)),
      data_(pool_->take(bytes + wide)),
      offsets_(pool_->take((values + 1) * item)),
      data_room_(data_.capacity() - wide),
      value_room_(offsets_.capacity() / item - 1) {
    store_le<std::int64_t>(offsets_.data(), 0);
}

void StringsBuilder::make_room(std::size_t bytes) {
    if (bytes <= room_left()) return;
    Pool::Block larger = pool_->take(size_ + bytes + wide);
    if (size_ != 0) std::memcpy(larger.data(), data_.data(), size_);
    data_ = std::move(larger);
    data_room_ = data_.capacity() - wide;
}

void StringsBuilder::grow_data(std::size_t size) { make_room(size + (size_ + size) / 2); }

void StringsBuilder::grow_offsets(std::size_t values) {
    Pool::Block larger = pool_->take((count_ + count_ / 2 + values + 16) * item);
    std::memcpy(larger.data(), offsets_.data(), (count_ + 1) * item);
    offsets_ = std::move(larger);
    value_room_ = offsets_.capacity() / item - 1;
}

StringBlocks StringsBuilder::finish() {
    data_room_ = value_room_ = 0;
    return {std::move(data_), std::move(offsets_), std::exchange(size_, 0), std::exchange(count_, 0)};
}

StringBlocks join_values(std::span<const Bytes> values, const std::shared_ptr<Pool>& pool) {
    StringBlocks out;
    out.count = values.size();
    out.offsets = pool->take((values.size() + 1) * item);
    auto* const ends = reinterpret_cast<std::int64_t*>(out.offsets.data());
    ends[0] = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        out.size += values[i].size();
        ends[i + 1] = static_cast<std::int64_t>(out.size);
    }
    out.data = pool->take(out.size);
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::byte* const to = out.data.data() + ends[i];
        if (values[i].size() <= 16) {
            copy_short(to, values[i].data(), values[i].size());
        } else {
            std::memcpy(to, values[i].data(), values[i].size());
        }
    }
    return out;
}

StringBlocks join_strings(std::span<const StringsView> parts, const std::shared_ptr<Pool>& pool) {
    StringBlocks out;
    std::vector<Bytes> contents; // as they are now: the offsets may change
    contents.reserve(parts.size());
    for (const StringsView& part : parts) {
        contents.push_back(part.all());
        out.size += contents.back().size();
        out.count += part.count();
    }
    out.data = pool->take(out.size);
    out.offsets = pool->take((out.count + 1) * item);
    std::byte* to = out.data.data();
    auto* ends = reinterpret_cast<std::int64_t*>(out.offsets.data());
    *ends++ = 0;
    std::uint64_t used = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::span<const std::int64_t> offsets = parts[i].offsets;
        // Without signs: offsets that are not in order may be anything.
        const std::uint64_t moved = offsets.empty() ? 0 : used - static_cast<std::uint64_t>(offsets[0]);
        for (std::size_t k = 1; k < offsets.size(); ++k)
            *ends++ = static_cast<std::int64_t>(static_cast<std::uint64_t>(offsets[k]) + moved);
        if (!contents[i].empty()) std::memcpy(to, contents[i].data(), contents[i].size());
        to += contents[i].size();
        used += contents[i].size();
    }
    return out;
}

std::optional<std::size_t> first_outside(std::span<const std::int64_t> offsets, std::uint64_t size) noexcept {
    std::uint64_t last = offsets.empty() ? 0 : static_cast<std::uint64_t>(offsets.front());
    if (last > size) return 0;
    for (std::size_t k = 0; k + 1 < offsets.size(); ++k) {
        const auto next = static_cast<std::uint64_t>(offsets[k + 1]);
        if (next < last || next > size) return k;
        last = next;
    }
    return std::nullopt;
}

std::optional<std::size_t> first_not_utf8(const StringsView& strings) {
    const Bytes all = strings.all();
    if (is_ascii(all)) return std::nullopt;
    // If all of it is UTF-8, and no value begins inside a character, each value is.
    const auto continues = [](Bytes value) {
        return !value.empty() && (std::to_integer<unsigned>(value.front()) & 0xC0) == 0x80;
    };
    bool is_good = is_utf8(all);
    for (std::size_t k = 0; is_good && k < strings.count(); ++k) is_good = !continues(strings.at(k));
    for (std::size_t k = 0; !is_good && k < strings.count(); ++k)
        if (!is_utf8(strings.at(k))) return k;
    return std::nullopt;
}

namespace {

void prefetch_offset(const StringsView& strings, std::int64_t index) noexcept {
    if (static_cast<std::uint64_t>(index) < strings.offsets.size()) __builtin_prefetch(strings.offsets.data() + index);
}

} // namespace

StringBlocks take_strings(const StringsView& strings, std::span<const std::int64_t> indices,
                          const std::shared_ptr<Pool>& pool) {
    constexpr std::size_t room = StringsBuilder::room, ahead = 24;
    StringBlocks out;
    out.count = indices.size();
    out.offsets = pool->take((indices.size() + 1) * item);
    // Where each value begins. The second pass must not read it again: an offset that changed meanwhile would make it
    // copy from outside the data.
    const Pool::Block begins = pool->take(indices.size() * item);
    auto* const ends = reinterpret_cast<std::int64_t*>(out.offsets.data());
    auto* const from = reinterpret_cast<std::int64_t*>(begins.data());
    ends[0] = 0;
    const std::size_t count = strings.count();
    for (std::size_t i = 0; i < indices.size(); ++i) {
        if (i + ahead < indices.size()) prefetch_offset(strings, indices[i + ahead]);
        const std::int64_t index = indices[i];
        const auto k = static_cast<std::uint64_t>(index < 0 ? index + static_cast<std::int64_t>(count) : index);
        if (k >= count) fail_at(i, count, static_cast<std::uint64_t>(index));
        const Bytes value = strings.at(k);
        from[i] = value.data() - strings.data.data();
        out.size += value.size();
        if (out.size > INT64_MAX) fail_at(i, INT64_MAX, out.size);
        ends[i + 1] = static_cast<std::int64_t>(out.size);
    }
    out.data = pool->take(out.size + room);
    for (std::size_t i = 0; i < indices.size(); ++i) {
        if (i + ahead < indices.size()) __builtin_prefetch(strings.data.data() + from[i + ahead]);
        const auto begin = static_cast<std::size_t>(from[i]), size = static_cast<std::size_t>(ends[i + 1] - ends[i]);
        std::byte* const to = out.data.data() + ends[i];
        if (size <= room && strings.data.size() - begin >= room) {
            std::memcpy(to, strings.data.data() + begin, room);
        } else if (size != 0) {
            std::memcpy(to, strings.data.data() + begin, size);
        }
    }
    return out;
}

void compare_strings(const StringsView& strings, const StringsView& other, std::span<bool> equal) {
    for (std::size_t k = 0; k < equal.size(); ++k) equal[k] = std::ranges::equal(strings.at(k), other.at(k));
}

void compare_strings(const StringsView& strings, Bytes value, std::span<bool> equal) {
    for (std::size_t k = 0; k < equal.size(); ++k) equal[k] = std::ranges::equal(strings.at(k), value);
}

void hash_strings(const StringsView& strings, std::uint64_t seed, std::uint64_t buckets, std::span<std::int64_t> out) {
    for (std::size_t k = 0; k < out.size(); ++k)
        out[k] = static_cast<std::int64_t>(xxhash64(strings.at(k), seed) % buckets);
}

} // namespace headrace
