#include "core/engines/gzip/member.hpp"

#include <algorithm>

#include "core/engines/gzip/codes.hpp"

namespace headrace {
namespace {

using deflate::length_base, deflate::length_extra;

constexpr std::array<std::uint16_t, 30> distance_base{1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                                      33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                                      1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr std::array<std::uint8_t, 30> distance_extra{0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                                      6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
constexpr std::array<std::uint8_t, 19> order_of_lengths{16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                        11, 4,  12, 3, 13, 2, 14, 1, 15};
constexpr unsigned end_of_block = 256;
constexpr std::size_t header_bytes = 2, checksum_bytes = 4;

[[nodiscard]] std::uint32_t big_endian(const std::byte* at) noexcept {
    return std::to_integer<std::uint32_t>(at[0]) << 24 | std::to_integer<std::uint32_t>(at[1]) << 16 |
           std::to_integer<std::uint32_t>(at[2]) << 8 | std::to_integer<std::uint32_t>(at[3]);
}

[[nodiscard]] constexpr unsigned reversed(unsigned code, unsigned bits) noexcept {
    unsigned out = 0;
    for (unsigned i = 0; i < bits; ++i) out |= ((code >> i) & 1U) << (bits - 1 - i);
    return out;
}

/// Copies `size` bytes from `distance` before `to`. The two may overlap.
void repeat(std::byte* to, std::size_t distance, std::size_t size, std::size_t room) noexcept {
    const std::byte* from = to - distance;
    if (distance >= 8 && room >= size + 8) { // whole words; the last may write too much, which later bytes replace
        for (std::size_t i = 0; i < size; i += 8) std::memcpy(to + i, from + i, 8);
    } else if (distance == 1) {
        std::memset(to, std::to_integer<int>(*from), size);
    } else {
        for (std::size_t i = 0; i < size; ++i) to[i] = from[i];
    }
}

} // namespace

/// Bits of a stream, the lowest of each byte first.
class Inflater::Bits {
  public:
    explicit Bits(Bytes stream) noexcept : stream_(stream), at_(stream.data()), end_(stream.data() + stream.size()) {}

    /// Loads at least 56 bits, or all that are left.
    void fill() noexcept {
        if (end_ - at_ >= 8) {
            bits_ |= load_le<std::uint64_t>(at_) << ready_;
            at_ += (63 - ready_) >> 3;
            ready_ |= 56;
            return;
        }
        while (ready_ <= 56 && at_ != end_) {
            bits_ |= std::to_integer<std::uint64_t>(*at_++) << ready_;
            ready_ += 8;
        }
    }

    /// The next bits, with zeros behind the end.
    [[nodiscard]] std::uint64_t ahead() const noexcept { return bits_; }

    void drop(unsigned bits) {
        if (bits > ready_) throw FormatError(Fault::truncated, stream_.size(), 1, 0);
        bits_ >>= bits;
        ready_ -= bits;
    }

    [[nodiscard]] unsigned take(unsigned bits) {
        const auto value = static_cast<unsigned>(bits_ & ((std::uint64_t{1} << bits) - 1));
        drop(bits);
        return value;
    }

    /// Goes to the next whole byte, and returns the bytes from there on.
    [[nodiscard]] Bytes rest() {
        drop(ready_ & 7U);
        at_ -= ready_ / 8;
        bits_ = 0;
        ready_ = 0;
        return {at_, static_cast<std::size_t>(end_ - at_)};
    }

    /// Skips some bytes of `rest`.
    void pass(std::size_t bytes) noexcept { at_ += bytes; }

    [[nodiscard]] FormatError bad(std::uint64_t found) const noexcept {
        return {Fault::structure, static_cast<std::uint64_t>(at_ - stream_.data()), 0, found};
    }

  private:
    Bytes stream_;
    const std::byte* at_;
    const std::byte* end_;
    std::uint64_t bits_ = 0;
    unsigned ready_ = 0;
};

template <unsigned DirectBits, std::size_t Symbols>
void Inflater::Code<DirectBits, Symbols>::make(std::span<const std::uint8_t> lengths, bool may_be_partial) {
    count.fill(0);
    for (const std::uint8_t length : lengths) ++count[length];
    count[0] = 0;
    std::array<std::uint16_t, most_bits + 2> start{}, code{};
    unsigned free = 1, longest = 0; // codes of this length that are not used yet
    for (unsigned bits = 1; bits <= most_bits; ++bits) {
        start[bits + 1] = static_cast<std::uint16_t>(start[bits] + count[bits]);
        code[bits + 1] = static_cast<std::uint16_t>((code[bits] + count[bits]) << 1);
        if (count[bits] > 2 * free) throw FormatError(Fault::structure, 0, bits, count[bits]);
        free = 2 * free - count[bits];
        if (count[bits] != 0) longest = bits;
    }
    if (free != 0 && !(may_be_partial && longest <= 1)) throw FormatError(Fault::structure, 0, 0, free);
    direct.fill(0);
    for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
        const unsigned bits = lengths[symbol];
        if (bits == 0) continue;
        symbols[start[bits]++] = static_cast<std::uint16_t>(symbol);
        const unsigned own = code[bits]++;
        if (bits > DirectBits) continue;
        const auto entry = static_cast<std::uint16_t>(symbol << 4 | bits);
        for (std::size_t i = reversed(own, bits); i < direct.size(); i += std::size_t{1} << bits) direct[i] = entry;
    }
}

template <unsigned DirectBits, std::size_t Symbols>
unsigned Inflater::Code<DirectBits, Symbols>::next(Bits& bits) const {
    const unsigned entry = direct[bits.ahead() & (direct.size() - 1)];
    if (entry == 0) return search(bits);
    bits.drop(entry & 15U);
    return entry >> 4;
}

template <unsigned DirectBits, std::size_t Symbols>
unsigned Inflater::Code<DirectBits, Symbols>::search(Bits& bits) const {
    std::uint64_t ahead = bits.ahead();
    unsigned code = 0, first = 0, before = 0;
    for (unsigned length = 1; length <= most_bits; ++length) {
        code |= static_cast<unsigned>(ahead & 1U);
        ahead >>= 1;
        if (code < first + count[length]) {
            bits.drop(length);
            return symbols[before + code - first];
        }
        before += count[length];
        first = (first + count[length]) << 1;
        code <<= 1;
    }
    throw bits.bad(code);
}

void Inflater::copy_stored(Bits& bits, std::span<std::byte> out, std::size_t& done) {
    const Bytes rest = bits.rest();
    Cursor cursor(rest);
    const auto size = cursor.le<std::uint16_t>(), inverse = cursor.le<std::uint16_t>();
    if ((size ^ inverse) != 0xFFFF) throw bits.bad(size);
    const Bytes taken = cursor.take(size);
    if (size > out.size() - done) throw FormatError(Fault::wrong_count, 0, out.size(), done + size);
    if (size != 0) std::memcpy(out.data() + done, taken.data(), size);
    done += size;
    bits.pass(4 + taken.size());
}

void Inflater::read_codes(Bits& bits) {
    bits.fill();
    const unsigned values = bits.take(5) + 257, distances = bits.take(5) + 1, ordered = bits.take(4) + 4;
    if (values > 286 || distances > 30) throw bits.bad(values);
    std::array<std::uint8_t, 320> lengths{};
    for (unsigned i = 0; i < ordered; ++i) {
        bits.fill();
        lengths[order_of_lengths[i]] = static_cast<std::uint8_t>(bits.take(3));
    }
    lengths_.make({lengths.data(), 19}, false);
    std::array<std::uint8_t, 320> found{};
    for (unsigned i = 0; i < values + distances;) {
        bits.fill();
        const unsigned symbol = lengths_.next(bits);
        if (symbol < 16) {
            found[i++] = static_cast<std::uint8_t>(symbol);
            continue;
        }
        if (symbol == 16 && i == 0) throw bits.bad(symbol);
        const std::uint8_t value = symbol == 16 ? found[i - 1] : std::uint8_t{0};
        const unsigned times = symbol == 16 ? 3 + bits.take(2) : symbol == 17 ? 3 + bits.take(3) : 11 + bits.take(7);
        if (times > values + distances - i) throw bits.bad(times);
        std::fill_n(found.begin() + i, times, value);
        i += times;
    }
    if (found[end_of_block] == 0) throw bits.bad(end_of_block);
    values_.make({found.data(), values}, true);
    distances_.make({found.data() + values, distances}, true);
}

void Inflater::use_fixed_codes() {
    std::array<std::uint8_t, 288> lengths{};
    for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
        lengths[symbol] = static_cast<std::uint8_t>(symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8);
    }
    values_.make(lengths, false);
    std::array<std::uint8_t, 32> distances{};
    distances.fill(5);
    distances_.make(distances, false);
}

void Inflater::inflate_block(Bits& bits, std::span<std::byte> out, std::size_t& done) const {
    std::size_t at = done;
    const std::size_t size = out.size();
    while (true) {
        bits.fill(); // 56 bits: a length and a distance take at most 48
        unsigned symbol = values_.next(bits);
        if (symbol < end_of_block) {
            if (at == size) throw FormatError(Fault::wrong_count, 0, size, size + 1);
            out[at++] = static_cast<std::byte>(symbol);
            continue;
        }
        if (symbol == end_of_block) break;
        symbol -= end_of_block + 1;
        if (symbol >= length_base.size()) throw bits.bad(symbol);
        const std::size_t length = length_base[symbol] + bits.take(length_extra[symbol]);
        const unsigned far = distances_.next(bits);
        if (far >= distance_base.size()) throw bits.bad(far);
        const std::size_t distance = distance_base[far] + bits.take(distance_extra[far]);
        if (distance > at) throw bits.bad(distance);
        if (length > size - at) throw FormatError(Fault::wrong_count, 0, size, at + length);
        repeat(out.data() + at, distance, length, size - at);
        at += length;
    }
    done = at;
}

void Inflater::inflate(Bytes stream, std::span<std::byte> out) {
    if (stream.size() < header_bytes) throw FormatError(Fault::truncated, 0, header_bytes, stream.size());
    const auto first = std::to_integer<unsigned>(stream[0]), second = std::to_integer<unsigned>(stream[1]);
    const bool is_deflate = (first & 15U) == 8 && (first >> 4) <= 7, has_dictionary = (second & 0x20U) != 0;
    if (!is_deflate || has_dictionary || (first << 8 | second) % 31 != 0)
        throw FormatError(Fault::header, 0, 0, first << 8 | second);
    Bits bits(stream.subspan(header_bytes));
    std::size_t done = 0;
    for (bool is_last = false; !is_last;) {
        bits.fill();
        is_last = bits.take(1) != 0;
        switch (bits.take(2)) {
        case 0: copy_stored(bits, out, done); continue;
        case 1: use_fixed_codes(); break;
        case 2: read_codes(bits); break;
        default: throw bits.bad(3);
        }
        inflate_block(bits, out, done);
    }
    const Bytes rest = bits.rest();
    if (done != out.size()) throw FormatError(Fault::wrong_count, 0, out.size(), done);
    if (rest.size() < checksum_bytes) throw FormatError(Fault::truncated, stream.size(), checksum_bytes, rest.size());
    const std::uint32_t stored = big_endian(rest.data()), found = adler32(out);
    if (stored != found) throw FormatError(Fault::payload_checksum, 0, stored, found);
}

std::uint32_t adler32(Bytes bytes) noexcept {
    constexpr std::uint32_t prime = 65521;
    constexpr std::uint32_t block = 32, most = 5536; // the largest multiple of the block for which no sum overflows
    std::uint32_t low = 1, high = 0;
    while (!bytes.empty()) {
        Bytes part = bytes.first(std::min<std::size_t>(bytes.size(), most));
        bytes = bytes.subspan(part.size());
        for (; part.size() >= block; part = part.subspan(block)) { // independent sums
            std::uint32_t sum = 0, weighted = 0;
            for (std::uint32_t i = 0; i < block; ++i) {
                const auto value = std::to_integer<std::uint32_t>(part[i]);
                sum += value;
                weighted += (block - i) * value;
            }
            high += block * low + weighted;
            low += sum;
        }
        for (const std::byte value : part) {
            low += std::to_integer<std::uint32_t>(value);
            high += low;
        }
        low %= prime;
        high %= prime;
    }
    return high << 16 | low;
}

} // namespace headrace
