#include "core/engines/gzip/codes.hpp"

#include <algorithm>
#include <bit>
#include <span>

namespace headrace::deflate {
namespace {

constexpr std::array<std::uint8_t, 19> order = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
constexpr unsigned most_literals = 286;
constexpr unsigned most_distances = 30;

constexpr std::array<std::uint8_t, 256> make_reversed_bytes() {
    std::array<std::uint8_t, 256> bytes{};
    for (unsigned byte = 0; byte < bytes.size(); ++byte)
        for (unsigned bit = 0; bit < 8; ++bit)
            bytes[byte] = static_cast<std::uint8_t>(bytes[byte] | (byte >> bit & 1) << (7 - bit));
    return bytes;
}

constexpr std::array<std::uint8_t, 256> reversed_bytes = make_reversed_bytes();

constexpr unsigned reversed(unsigned code, unsigned length) {
    return (unsigned{reversed_bytes[code & 255]} << 8 | reversed_bytes[code >> 8]) >> (16 - length);
}

// The share of all codes that lengths of three bits each take, in 128ths.
constexpr std::array<std::uint16_t, 4096> make_shares() {
    std::array<std::uint16_t, 4096> shares{};
    for (unsigned bits = 0; bits < shares.size(); ++bits)
        for (unsigned i = 0; i < 4; ++i)
            if (const unsigned length = bits >> (3 * i) & 7; length != 0)
                shares[bits] = static_cast<std::uint16_t>(shares[bits] + (128U >> length));
    return shares;
}

constexpr std::array<std::uint16_t, 4096> shares = make_shares();

unsigned share_of(std::uint64_t lengths, unsigned count) {
    lengths &= (std::uint64_t{1} << (3 * count)) - 1;
    unsigned sum = 0;
    for (; lengths != 0; lengths >>= 12) sum += shares[lengths & 4095];
    return sum;
}

// The codes of the lengths of the codes: a table of 7 bits.
struct LengthCodes {
    std::array<std::uint8_t, 128> table; // 3 bits length, then the symbol

    void make(std::uint64_t bits, unsigned count) {
        std::array<std::uint8_t, 19> lengths{};
        for (unsigned i = 0; i < count; ++i) lengths[order[i]] = bits >> (3 * i) & 7;
        unsigned code = 0;
        for (unsigned length = 1; length <= 7; ++length, code <<= 1)
            for (unsigned symbol = 0; symbol < lengths.size(); ++symbol)
                if (lengths[symbol] == length)
                    for (unsigned i = reversed(code++, length); i < 128; i += 1U << length)
                        table[i] = static_cast<std::uint8_t>(symbol << 3 | length);
    }
};

constexpr Entry other(unsigned symbol, unsigned length) { return other_flag | symbol << 16 | length << 25; }
constexpr Entry literal(unsigned value, unsigned length) { return length | 1U << 8 | value << 16; }

} // namespace

Canonical::Kind Canonical::open(const std::uint8_t* lengths, unsigned count) noexcept {
    counts_ = {};
    for (unsigned i = 0; i < count; ++i) ++counts_[lengths[i]];
    const unsigned used = count - counts_[0];
    counts_[0] = 0;
    unsigned code = 0, offset = 0, left = 1U << 15;
    for (unsigned length = 1; length <= 15; ++length) {
        code = (code + counts_[length - 1]) << 1;
        first_[length] = next_[length] = static_cast<std::uint16_t>(code);
        offset_[length] = static_cast<std::uint16_t>(offset);
        offset += counts_[length];
        const unsigned share = unsigned{counts_[length]} << (15 - length);
        if (share > left) return Kind::wrong;
        left -= share;
    }
    auto place = offset_;
    for (unsigned i = 0; i < count; ++i)
        if (lengths[i] != 0) sorted_[place[lengths[i]]++] = static_cast<std::uint16_t>(i);
    if (left == 0) return Kind::complete;
    return used == 0 ? Kind::empty : used == 1 && counts_[1] == 1 ? Kind::single : Kind::wrong;
}

Symbol Canonical::find(std::uint64_t bits) const noexcept {
    unsigned code = 0;
    for (unsigned length = 1; length <= 15; ++length, bits >>= 1) {
        code = code << 1 | static_cast<unsigned>(bits & 1);
        if (code - first_[length] < counts_[length]) return {sorted_[offset_[length] + code - first_[length]], length};
    }
    return {0, 0};
}

unsigned Canonical::longest() const noexcept {
    unsigned length = 15;
    while (length != 0 && counts_[length] == 0) --length;
    return length;
}

unsigned Canonical::next_code(unsigned length) noexcept { return reversed(next_[length]++, length); }

void Codes::make_literals(const std::uint8_t* lengths, unsigned count) noexcept {
    unsigned shares = 0;
    for (unsigned symbol = 0; symbol < std::min(count, end_of_block); ++symbol)
        shares += lengths[symbol] == 0 ? 0 : 1U << 15 >> lengths[symbol];
    literal_share = static_cast<double>(shares) / (1U << 15);
    // One symbol an entry first. Two copies of a table for codes of up to n bits make one for n + 1 bits, without the
    // codes of that length.
    struct Literal {
        unsigned code, length;
        Entry entry;
    };
    std::array<Literal, end_of_block> short_ones;
    std::size_t found = 0;
    const std::uint16_t* symbols = long_literals.sorted();
    for (unsigned length = 1; length <= literal_bits; ++length) {
        std::copy_n(literals.data(), std::size_t{1} << (length - 1),
                    literals.data() + (std::size_t{1} << (length - 1)));
        for (unsigned left = long_literals.count(length); left != 0; --left) {
            const unsigned symbol = *symbols++;
            const unsigned code = long_literals.next_code(length);
            literals[code] = symbol < end_of_block ? literal(symbol, length) : other(symbol, length);
            if (symbol < end_of_block) short_ones[found++] = {code, length, literals[code]};
        }
    }
    for (unsigned length = literal_bits + 1; length <= long_literals.longest(); ++length)
        for (unsigned left = long_literals.count(length); left != 0; --left)
            literals[long_literals.next_code(length) % literals.size()] = other(0, 0);
    // Then two symbols, where both fit.
    for (const Literal& first : std::span(short_ones).first(found))
        for (const Literal& second : std::span(short_ones).first(found)) {
            const unsigned length = first.length + second.length;
            if (length > literal_bits) break;
            const Entry both = first.entry + (second.entry & 0xFFFF) + ((second.entry & 0x00FF0000) << 8);
            for (unsigned i = first.code | second.code << first.length; i < literals.size(); i += 1U << length)
                literals[i] = both;
        }
}

void Codes::make_distances(const std::uint8_t* lengths, unsigned count) noexcept {
    distances.fill(0);
    for (unsigned symbol = 0; symbol < count; ++symbol) {
        const unsigned length = lengths[symbol];
        if (length == 0) continue;
        const unsigned code = far.next_code(length);
        if (length > distance_bits) continue;
        for (unsigned i = code; i < distances.size(); i += 1U << length)
            distances[i] = static_cast<std::uint16_t>(symbol << 4 | length);
    }
}

bool Codes::read(Bytes data, std::uint64_t& at, bool quick) noexcept {
    const std::uint64_t bits = bits_at(data, at);
    const unsigned literal_count = 257 + (bits & 31);
    const unsigned distance_count = 1 + (bits >> 5 & 31);
    const unsigned length_count = 4 + (bits >> 10 & 15);
    if (literal_count > most_literals || distance_count > most_distances) return false;
    at += 14;
    const std::uint64_t lengths_bits = bits_at(data, at);
    if (share_of(lengths_bits, length_count) != 128) return false;
    LengthCodes length_codes;
    length_codes.make(lengths_bits, length_count);
    at += std::uint64_t{3} * length_count;

    std::array<std::uint8_t, most_literals + most_distances + 138> lengths;
    const unsigned count = literal_count + distance_count;
    for (unsigned i = 0; i < count;) {
        std::uint64_t word = bits_at(data, at);
        for (unsigned used = 0; used <= 57 - 14 && i < count;) {
            const unsigned entry = length_codes.table[word & 127];
            const unsigned symbol = entry >> 3;
            unsigned took = entry & 7;
            if (symbol < 16) {
                lengths[i++] = static_cast<std::uint8_t>(symbol);
            } else {
                if (symbol == 16 && i == 0) return false;
                const unsigned extra = symbol == 16 ? 2 : symbol == 17 ? 3 : 7;
                const unsigned repeated =
                    (symbol == 18 ? 11 : 3) + (static_cast<unsigned>(word >> took) & ((1U << extra) - 1));
                std::fill_n(lengths.data() + i, repeated, symbol == 16 ? lengths[i - 1] : std::uint8_t{0});
                i += repeated;
                took += extra;
            }
            word >>= took;
            used += took;
            at += took;
        }
        if (i > count || at > std::uint64_t{data.size()} * 8) return false;
    }
    if (lengths[end_of_block] == 0) return false;
    if (long_literals.open(lengths.data(), literal_count) != Canonical::Kind::complete) return false;
    if (far.open(lengths.data() + literal_count, distance_count) == Canonical::Kind::wrong) return false;
    if (quick) return true;
    make_literals(lengths.data(), literal_count);
    make_distances(lengths.data() + literal_count, distance_count);
    return true;
}

void Codes::fix() noexcept {
    std::array<std::uint8_t, 288> lengths;
    for (unsigned i = 0; i < lengths.size(); ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    (void)long_literals.open(lengths.data(), 288);
    make_literals(lengths.data(), 288);
    lengths.fill(5);
    (void)far.open(lengths.data(), 32);
    make_distances(lengths.data(), 32);
}

namespace {

// The bits where a block may begin: not the last one of its stream, with codes of its own, and no more of them than
// there may be. Valid for all but the 12 highest bits.
constexpr std::uint64_t find_candidates(std::uint64_t word) {
    const std::uint64_t kind = ~word & ~(word >> 1) & word >> 2;
    const std::uint64_t too_many_literals = word >> 4 & word >> 5 & word >> 6 & word >> 7;
    const std::uint64_t too_many_distances = word >> 9 & word >> 10 & word >> 11 & word >> 12;
    return kind & ~too_many_literals & ~too_many_distances;
}

} // namespace

std::uint64_t find_block(Bytes data, std::uint64_t from, std::uint64_t until, Codes& room) noexcept {
    constexpr unsigned at_once = 57 - 17 + 1; // the first 17 bits of each are in the word
    for (std::uint64_t begin = from; begin < until; begin += at_once) {
        const std::uint64_t word = bits_at(data, begin);
        std::uint64_t left = find_candidates(word) & ((std::uint64_t{1} << at_once) - 1);
        for (; left != 0; left &= left - 1) {
            const auto behind = static_cast<unsigned>(std::countr_zero(left));
            const std::uint64_t at = begin + behind;
            if (at >= until) return until;
            if (share_of(bits_at(data, at + 17), 4 + (word >> (behind + 13) & 15)) != 128) continue;
            std::uint64_t after = at + 3;
            if (room.read(data, after, true)) return at;
        }
    }
    return until;
}

} // namespace headrace::deflate
