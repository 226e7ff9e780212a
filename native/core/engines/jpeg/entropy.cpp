#include "core/engines/jpeg/entropy.hpp"

#include <algorithm>
#include <cstring>

namespace headrace::jpeg {
namespace {

/// The entry of a symbol whose magnitude follows.
Entry entry_of(unsigned symbol, unsigned length, bool is_ac) noexcept {
    const unsigned size = is_ac ? symbol & 15 : symbol;
    const unsigned run = is_ac ? symbol >> 4 : 0;
    const bool ends = is_ac && size == 0 && run != 15;
    return Entry::open(size, (ends ? beyond : run) + 1, length);
}

} // namespace

void CodeTable::build(const Codes& codes, bool is_ac, bool is_short) {
    // Most files have the codes of the file before, or codes of their own.
    const bool is_same = is_built_ && is_ac == is_ac_ && codes == codes_;
    if (is_same && width_ == peeked_bits) return;
    width_ = is_short && !is_same ? few_bits : peeked_bits;
    shift_ = 64 - width_;
    codes_ = codes;
    is_ac_ = is_ac;
    is_built_ = true;
    std::fill_n(entries_.begin(), std::size_t{1} << width_, Entry());
    std::uint32_t code = 0;
    std::int32_t place = 0;
    for (unsigned length = 1; length <= 16; ++length, code <<= 1) {
        offsets_[length] = place - static_cast<std::int32_t>(code);
        for (unsigned i = 0; i < codes.counts[length - 1]; ++i, ++code, ++place) {
            if (length > width_) continue;
            const Entry entry = entry_of(codes.symbols[static_cast<std::size_t>(place)], length, is_ac);
            const unsigned size = entry.bits() - length;
            const unsigned free_bits = width_ - length;
            Entry* to = entries_.data() + (std::size_t{code} << free_bits);
            if (size > free_bits) {
                std::fill_n(to, std::size_t{1} << free_bits, entry);
                continue;
            }
            for (std::int32_t magnitude = 0; magnitude < std::int32_t{1} << size; ++magnitude) {
                const std::int32_t half = size == 0 ? 0 : std::int32_t{1} << (size - 1);
                const std::int32_t value = magnitude < half ? magnitude - 2 * half + 1 : magnitude;
                to = std::fill_n(to, std::size_t{1} << (free_bits - size),
                                 Entry::of(value, entry.step(), length + size, length));
            }
        }
        limits_[length] = code << (16 - length);
    }
    if (is_ac) pair_up();
}

void CodeTable::pair_up() {
    const std::size_t size = std::size_t{1} << width_;
    std::array<Entry, std::size_t{1} << peeked_bits> ones;
    std::copy_n(entries_.begin(), size, ones.begin());
    for (std::size_t i = 0; i < size; ++i) {
        const Entry first = ones[i];
        if (first.is_longer() || first.open_size() != 0 || first.step() > beyond) continue;
        Entry second = ones[(i << first.bits()) & (size - 1)];
        if (second.is_longer() || first.bits() + second.code_bits() > width_) continue;
        if (first.bits() + second.bits() > width_) // Not all of its magnitude is seen.
            second = Entry::open(second.bits() - second.code_bits(), second.step(), second.code_bits());
        entries_[i] = Entry::two(first, second);
    }
}

Entry CodeTable::longer(std::uint64_t bits) const noexcept {
    const auto next = static_cast<unsigned>(bits >> 48);
    for (unsigned length = width_ + 1; length <= 16; ++length) {
        if (next >= limits_[length]) continue;
        const std::int32_t place = static_cast<std::int32_t>(next >> (16 - length)) + offsets_[length];
        return entry_of(codes_.symbols[static_cast<std::size_t>(place)], length, is_ac_);
    }
    return {};
}

std::size_t Stretches::fill(Bytes scan) {
    if (bytes.size() < scan.size() + room) bytes.resize(scan.size() + room);
    ends.clear();
    std::byte* to = bytes.data();
    const std::byte* at = scan.data();
    const std::byte* const end = at + scan.size();
    while (at != end) {
        const auto* mark = static_cast<const std::byte*>(std::memchr(at, 0xFF, static_cast<std::size_t>(end - at)));
        if (mark == nullptr || end - mark < 2) return 0;
        const auto kind = std::to_integer<unsigned>(mark[1]);
        const auto before = static_cast<std::size_t>(mark - at) + (kind == 0 ? 1 : 0);
        std::memcpy(to, at, before);
        to += before;
        at = mark + 2;
        if (kind == 0) continue;
        ends.push_back(static_cast<std::size_t>(to - bytes.data()));
        if (kind < 0xD0 || kind > 0xD7) {
            std::memset(to, 0, room);
            marker = kind;
            return static_cast<std::size_t>(mark - scan.data());
        }
        if (kind != 0xD0 + ((ends.size() - 1) & 7)) return 0;
    }
    return 0;
}

} // namespace headrace::jpeg
