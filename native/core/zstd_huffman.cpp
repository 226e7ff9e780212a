#include "core/zstd_huffman.hpp"

#include <algorithm>
#include <utility>

#include "core/zstd_bits.hpp"
#include "core/zstd_fse.hpp"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define PENSTOCK_ZSTD_BMI2 1
#define PENSTOCK_ZSTD_INLINE __attribute__((always_inline)) inline
#define PENSTOCK_ZSTD_LAMBDA __attribute__((always_inline))
#else
#define PENSTOCK_ZSTD_INLINE inline
#define PENSTOCK_ZSTD_LAMBDA
#endif

namespace penstock::zstd {
namespace {

constexpr std::size_t most_weights = 255; // That of the last symbol follows from the others.
constexpr unsigned most_weight_log = 6;

// Weights in four bits each.
std::size_t plain_weights(Bytes from, std::array<std::uint8_t, 256>& weights, std::size_t& count) noexcept {
    count = std::to_integer<std::size_t>(from[0]) - 127;
    const std::size_t bytes = 1 + (count + 1) / 2;
    if (bytes > from.size()) return 0;
    for (std::size_t i = 0; i < count; ++i) {
        const auto two = std::to_integer<std::uint8_t>(from[1 + i / 2]);
        weights[i] = static_cast<std::uint8_t>(i % 2 == 0 ? two >> 4 : two & 15);
    }
    return bytes;
}

// Weights in finite state entropy: two states take turns until the bits run out.
std::size_t packed_weights(Bytes from, std::array<std::uint8_t, 256>& weights, std::size_t& count) noexcept {
    const auto size = std::to_integer<std::size_t>(from[0]);
    if (size >= from.size()) return 0;
    const Bytes packed = from.subspan(1, size);
    FseCounts counts;
    const std::size_t head = read_fse_counts(packed, most_weight_log, 256, counts);
    if (head == 0) return 0;
    std::array<FseCell, std::size_t{1} << most_weight_log> cells;
    build_fse_cells(counts, cells);
    BackwardBits bits;
    if (!bits.open(packed.subspan(head))) return 0;
    FseCell one = cells[bits.take(counts.log)], other = cells[bits.take(counts.log)];
    if (bits.left() < 0) return 0;
    const auto last_ones = [&](std::uint8_t last) {
        weights[count++] = last;
        return size + 1;
    };
    while (count + 2 <= most_weights && bits.refill()) {
        for (int turn = 0; turn < 4 && count + 2 <= most_weights; ++turn) { // of at most twelve bits
            weights[count++] = one.symbol;
            one = cells[one.base + bits.take(one.bits)];
            if (bits.left() < 0) return last_ones(other.symbol);
            weights[count++] = other.symbol;
            other = cells[other.base + bits.take(other.bits)];
            if (bits.left() < 0) return last_ones(one.symbol);
        }
    }
    return 0;
}

// `width` cells for each of some symbols.
template <std::size_t width> std::uint16_t* fill(std::uint16_t* to, std::span<const std::uint8_t> symbols, unsigned length) noexcept {
    for (const std::uint8_t symbol : symbols) {
        std::array<std::uint16_t, width> cells;
        cells.fill(static_cast<std::uint16_t>(unsigned{symbol} << 8 | length));
        std::memcpy(to, cells.data(), sizeof cells);
        to += width;
    }
    return to;
}

PENSTOCK_ZSTD_INLINE void refill(HuffmanStream& stream) noexcept {
    const auto used = static_cast<unsigned>(std::countr_zero(stream.bits));
    stream.at -= used >> 3;
    stream.bits = (load_le<std::uint64_t>(stream.at) | 1) << (used & 7);
}

struct Code {
    const std::uint16_t* cells;
    unsigned shift; // what leaves as many bits of a word as there are cells for
};

template <int number> PENSTOCK_ZSTD_INLINE void decode(HuffmanStream& stream, const Code& code) noexcept {
    const unsigned cell = code.cells[stream.bits >> code.shift];
    stream.bits <<= cell & 63;
    stream.to[number] = static_cast<std::byte>(cell >> 8);
}

constexpr std::size_t between_refills = 5; // symbols of up to 11 bits, with the up to 7 that are used of a word before
constexpr std::ptrdiff_t most_back = 7;    // bytes that they take at most

// The rest of a stream, up to its beginning, which must be where its end is reached.
bool decode_rest(HuffmanStream stream, const Code& code) noexcept {
    while (stream.to != stream.end) {
        const auto used = std::countr_zero(stream.bits);
        if (stream.at - stream.begin - (used >> 3) < -readable_before) return false;
        refill(stream);
        decode<0>(stream, code);
        ++stream.to;
    }
    return (stream.at - stream.begin + readable_before) * 8 == std::countr_zero(stream.bits);
}

// How many turns neither read before what is readable nor write behind the end, whatever the bits are.
std::size_t safe_turns(const HuffmanTable::Four& four) noexcept {
    auto turns = static_cast<std::size_t>(four[3].end - four[3].to) / between_refills;
    for (const HuffmanStream& stream : four) {
        const std::ptrdiff_t back = stream.at - stream.begin + 2 * readable_before;
        turns = std::min(turns, back < 0 ? 0 : static_cast<std::size_t>(back / most_back));
    }
    return turns;
}

template <typename Each> PENSTOCK_ZSTD_INLINE void five_times(Each&& each) noexcept {
    each.template operator()<0>();
    each.template operator()<1>();
    each.template operator()<2>();
    each.template operator()<3>();
    each.template operator()<4>();
}

PENSTOCK_ZSTD_INLINE void end_turn(HuffmanStream& stream) noexcept {
    stream.to += between_refills;
    refill(stream);
}

// Streams by turns, so that none waits for what the one before it looks up.
PENSTOCK_ZSTD_INLINE void turns_of_four(HuffmanTable::Four& four, std::size_t turns, const Code code) noexcept {
    HuffmanStream a = four[0], b = four[1], c = four[2], d = four[3]; // in registers
    for (; turns != 0; --turns) {
        five_times([&]<int number>() PENSTOCK_ZSTD_LAMBDA {
            decode<number>(a, code);
            decode<number>(b, code);
            decode<number>(c, code);
            decode<number>(d, code);
        });
        end_turn(a);
        end_turn(b);
        end_turn(c);
        end_turn(d);
    }
    four = {a, b, c, d};
}

PENSTOCK_ZSTD_INLINE void turns_of_eight(HuffmanTable::Four& four, const Code code, HuffmanTable::Four& other, const Code other_code,
                                         std::size_t turns) noexcept {
    HuffmanStream a = four[0], b = four[1], c = four[2], d = four[3]; // in registers
    HuffmanStream e = other[0], f = other[1], g = other[2], h = other[3];
    for (; turns != 0; --turns) {
        five_times([&]<int number>() PENSTOCK_ZSTD_LAMBDA {
            decode<number>(a, code);
            decode<number>(b, code);
            decode<number>(c, code);
            decode<number>(d, code);
            decode<number>(e, other_code);
            decode<number>(f, other_code);
            decode<number>(g, other_code);
            decode<number>(h, other_code);
        });
        end_turn(a);
        end_turn(b);
        end_turn(c);
        end_turn(d);
        end_turn(e);
        end_turn(f);
        end_turn(g);
        end_turn(h);
    }
    four = {a, b, c, d};
    other = {e, f, g, h};
}

void four_plain(HuffmanTable::Four& four, std::size_t turns, const Code code) noexcept { turns_of_four(four, turns, code); }

void eight_plain(HuffmanTable::Four& four, const Code code, HuffmanTable::Four& other, const Code other_code, std::size_t turns) noexcept {
    turns_of_eight(four, code, other, other_code, turns);
}

#ifdef PENSTOCK_ZSTD_BMI2
__attribute__((target("bmi,bmi2"))) void four_bmi2(HuffmanTable::Four& four, std::size_t turns, const Code code) noexcept {
    turns_of_four(four, turns, code);
}

__attribute__((target("bmi,bmi2"))) void eight_bmi2(HuffmanTable::Four& four, const Code code, HuffmanTable::Four& other, const Code other_code,
                                                    std::size_t turns) noexcept {
    turns_of_eight(four, code, other, other_code, turns);
}
#endif

struct Best {
    decltype(&four_plain) four = four_plain;
    decltype(&eight_plain) eight = eight_plain;

    Best() noexcept {
#ifdef PENSTOCK_ZSTD_BMI2
        if (__builtin_cpu_supports("bmi2") == 0) return;
        four = four_bmi2;
        eight = eight_bmi2;
#endif
    }
};

const Best& best() noexcept {
    static const Best found;
    return found;
}

} // namespace

std::size_t HuffmanTable::read(Bytes from) noexcept {
    log_ = 0;
    if (from.empty()) return 0;
    std::array<std::uint8_t, 256> weights;
    std::size_t count = 0;
    const bool plain = std::to_integer<unsigned>(from[0]) >= 128;
    const std::size_t bytes = plain ? plain_weights(from, weights, count) : packed_weights(from, weights, count);
    if (bytes == 0) return 0;
    std::uint32_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (weights[i] > most_log) return 0;
        total += 1U << weights[i] >> 1;
    }
    const auto log = static_cast<unsigned>(std::bit_width(total));
    if (total == 0 || log > most_log) return 0;
    const std::uint32_t rest = (1U << log) - total; // what the last symbol has
    if (!std::has_single_bit(rest)) return 0;
    weights[count++] = static_cast<std::uint8_t>(std::bit_width(rest));
    log_ = log;
    if (!build({weights.data(), count})) log_ = 0;
    return log_ == 0 ? 0 : bytes;
}

bool HuffmanTable::build(std::span<const std::uint8_t> weights) noexcept {
    // The numbers are in four parts, so that counting one up need not wait for counting it up before.
    constexpr std::size_t parts = 4;
    const std::size_t part = (weights.size() + parts - 1) / parts;
    std::array<std::array<std::uint16_t, most_log + 2>, parts> places{};
    std::array<std::uint16_t, most_log + 3> begins{};
    const auto each = [&](auto&& act) {
        for (std::size_t i = 0; i < part; ++i)
            for (std::size_t p = 0; p < parts; ++p)
                if (const std::size_t symbol = part * p + i; symbol < weights.size()) act(places[p][weights[symbol]], symbol);
    };
    each([](std::uint16_t& place, std::size_t) { ++place; });
    std::uint16_t sum = 0;
    for (std::size_t weight = 0; weight < most_log + 2; ++weight) {
        begins[weight] = sum;
        for (auto& places_of_part : places) sum = static_cast<std::uint16_t>(sum + std::exchange(places_of_part[weight], sum));
    }
    begins[most_log + 2] = sum;
    if (begins[2] - begins[1] < 2) return false; // Two of the longest codes differ in their last bit.
    std::array<std::uint8_t, 256> symbols; // by weight, and by number
    each([&](std::uint16_t& place, std::size_t symbol) { symbols[place++] = static_cast<std::uint8_t>(symbol); });

    std::uint16_t* to = cells_.data();
    for (unsigned weight = 1; weight <= log_; ++weight) {
        const std::span<const std::uint8_t> these{symbols.data() + begins[weight], static_cast<std::size_t>(begins[weight + 1] - begins[weight])};
        const unsigned length = log_ + 1 - weight;
        if (weight == 1)
            to = fill<1>(to, these, length);
        else if (weight == 2)
            to = fill<2>(to, these, length);
        else if (weight == 3)
            to = fill<4>(to, these, length);
        else
            for (const std::uint8_t symbol : these)
                for (std::size_t part = 0; part < std::size_t{1} << (weight - 4); ++part) to = fill<8>(to, {&symbol, 1}, length);
    }
    return true;
}

bool HuffmanStream::open(Bytes stream, std::span<std::byte> target) noexcept {
    if (stream.empty() || stream.back() == std::byte{0}) return false;
    begin = stream.data();
    at = stream.data() + stream.size() - sizeof bits;
    bits = (load_le<std::uint64_t>(at) | 1) << (std::countl_zero(std::to_integer<std::uint8_t>(stream.back())) + 1);
    to = target.data();
    end = target.data() + target.size();
    return true;
}

bool HuffmanTable::decode_one(Bytes stream, std::span<std::byte> to) const noexcept {
    HuffmanStream one{};
    return one.open(stream, to) && decode_rest(one, {cells_.data(), 64 - log_});
}

bool HuffmanTable::open_four(Bytes streams, std::span<std::byte> to, Four& four) noexcept {
    constexpr std::size_t head = 6; // the sizes of the first three
    const std::size_t part = (to.size() + 3) / 4;
    if (streams.size() < head + 4 || to.size() < 6 || part * 3 > to.size()) return false;
    Bytes rest = streams.subspan(head);
    for (std::size_t i = 0; i < 4; ++i) {
        const std::size_t size = i == 3 ? rest.size() : load_le<std::uint16_t>(streams.data() + i * 2);
        if (size > rest.size() || !four[i].open(rest.first(size), i == 3 ? to.subspan(part * 3) : to.subspan(part * i, part))) return false;
        rest = rest.subspan(size);
    }
    return true;
}

bool HuffmanTable::decode_four(Four& four) const noexcept {
    const Code code{cells_.data(), 64 - log_};
    while (const std::size_t turns = safe_turns(four)) best().four(four, turns, code);
    return std::all_of(four.begin(), four.end(), [&](const HuffmanStream& stream) { return decode_rest(stream, code); });
}

void HuffmanTable::decode_eight(const HuffmanTable& table, Four& four, const HuffmanTable& other_table, Four& other) noexcept {
    const Code code{table.cells_.data(), 64 - table.log_}, other_code{other_table.cells_.data(), 64 - other_table.log_};
    while (const std::size_t turns = std::min(safe_turns(four), safe_turns(other))) best().eight(four, code, other, other_code, turns);
}

} // namespace penstock::zstd
