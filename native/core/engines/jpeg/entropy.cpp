#include "core/engines/jpeg/entropy.hpp"

#include <algorithm>
#include <cstring>

namespace headrace::jpeg {
namespace {

struct Symbol {
    unsigned size; ///< Bits of its magnitude.
    std::size_t step = 1;
    Symbol(unsigned symbol, bool is_ac) noexcept : size(is_ac ? symbol & 15 : symbol) {
        if (!is_ac) return;
        const unsigned run = symbol >> 4;
        step += size == 0 && run != 15 ? beyond : run;
    }
};

std::int32_t value_of(std::uint32_t magnitude, unsigned size) noexcept {
    if (size == 0) return 0;
    const auto value = static_cast<std::int32_t>(magnitude);
    return (magnitude >> (size - 1)) != 0 ? value : value - (std::int32_t{1} << size) + 1;
}

} // namespace

template <bool is_ac> void CodeTable<is_ac>::build(const Codes& codes, bool is_short) {
    // Most files have the codes of the file before, or codes of their own.
    const bool is_same = is_built_ && codes == codes_;
    if (is_same && width_ == index_bits) return;
    width_ = is_short && !is_same ? few_bits : index_bits;
    codes_ = codes;
    is_built_ = true;
    std::fill_n(entries_.begin(), std::size_t{1} << width_, Entry());
    std::uint32_t code = 0;
    std::int32_t place = 0;
    for (unsigned length = 1; length <= 16; ++length, code <<= 1) {
        offsets_[length] = place - static_cast<std::int32_t>(code);
        for (unsigned i = 0; i < codes.counts[length - 1]; ++i, ++code, ++place) {
            if (length > width_) continue;
            const Symbol symbol(codes.symbols[static_cast<std::size_t>(place)], is_ac);
            const unsigned free_bits = width_ - length;
            Entry* to = entries_.data() + (std::size_t{code} << free_bits);
            if (symbol.size <= free_bits) {
                for (std::uint32_t magnitude = 0; magnitude < std::uint32_t{1} << symbol.size; ++magnitude) {
                    const std::int32_t value = value_of(magnitude, symbol.size);
                    to = std::fill_n(to, std::size_t{1} << (free_bits - symbol.size),
                                     Entry::one(value, symbol.step, length, symbol.size));
                }
            } else if (free_bits != 0) {
                const std::size_t half = std::size_t{1} << (free_bits - 1);
                to = std::fill_n(to, half, Entry::open(true, symbol.step, length, symbol.size));
                std::fill_n(to, half, Entry::open(false, symbol.step, length, symbol.size));
            }
        }
        limits_[length] = code << (16 - length);
    }
    if (is_ac) pair_up();
    if (width_ == index_bits) return;
    const std::size_t times = std::size_t{1} << (index_bits - width_);
    for (std::size_t i = std::size_t{1} << width_; i-- > 0;) {
        const Entry entry = entries_[i];
        std::fill_n(entries_.begin() + static_cast<std::ptrdiff_t>(i * times), times, entry);
    }
}

template <bool is_ac> void CodeTable<is_ac>::pair_up() {
    const std::size_t size = std::size_t{1} << width_;
    std::array<Entry, std::size_t{1} << index_bits> ones;
    std::copy_n(entries_.begin(), size, ones.begin());
    for (std::size_t i = 0; i < size; ++i) {
        Entry entry = ones[i];
        if (entry.is_longer() || entry.open_bits != 0 || entry.step > beyond) continue;
        const unsigned left = width_ - entry.bits;
        Entry second = ones[(i << entry.bits) & (size - 1)];
        const auto code_bits = static_cast<unsigned>(second.first);
        const unsigned magnitude_bits = second.bits - code_bits;
        if (second.is_longer() || code_bits + std::min(magnitude_bits, 1U) > left) continue;
        if (second.bits > left) second = Entry::open(second.second < 0, second.step, code_bits, magnitude_bits);
        entries_[i] = {static_cast<std::uint8_t>(entry.bits + second.bits),
                       entry.step,
                       second.step,
                       second.open_bits,
                       entry.second,
                       second.second};
    }
}

template <bool is_ac> Bits CodeTable<is_ac>::longer(Bits bits, Entry& to) const noexcept {
    to = find(bits.next, width_);
    if (to.is_longer()) {
        to.step = 64;
        return bits;
    }
    const auto code_bits = static_cast<unsigned>(to.first);
    to.bits = static_cast<std::uint8_t>(to.bits - code_bits);
    bits.drop(code_bits);
    bits.refill();
    return bits;
}

template <bool is_ac> Entry CodeTable<is_ac>::find(std::uint64_t bits, unsigned least) const noexcept {
    const auto next = static_cast<unsigned>(bits >> 48);
    for (unsigned length = least; length <= 16; ++length) {
        if (next >= limits_[length]) continue;
        const std::int32_t place = static_cast<std::int32_t>(next >> (16 - length)) + offsets_[length];
        const Symbol symbol(codes_.symbols[static_cast<std::size_t>(place)], is_ac);
        const auto magnitude = static_cast<std::uint32_t>(bits << length >> 1 >> (63 - symbol.size));
        return Entry::one(value_of(magnitude, symbol.size), symbol.step, length, symbol.size);
    }
    return {};
}

template class CodeTable<false>;
template class CodeTable<true>;

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
        if (kind < first_restart || kind > last_restart) {
            std::memset(to, 0, room);
            marker = kind;
            return static_cast<std::size_t>(mark - scan.data());
        }
        if (kind != first_restart + ((ends.size() - 1) & 7)) return 0;
    }
    return 0;
}

} // namespace headrace::jpeg
