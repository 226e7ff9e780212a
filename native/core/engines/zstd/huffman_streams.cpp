#include "core/engines/zstd/huffman_streams.hpp"

#include <algorithm>
#include <bit>

#include "core/engines/zstd/huffman.hpp"
#include "core/engines/zstd/sequences.hpp"

namespace headrace::zstd {
namespace {

HEADRACE_ZSTD_INLINE void refill(HuffmanStream& stream) noexcept {
    const auto used = static_cast<unsigned>(std::countr_zero(stream.bits));
    stream.at -= used >> 3;
    stream.bits = (load_le<std::uint64_t>(stream.at) | 1) << (used & 7);
}

struct Code {
    const std::uint16_t* cells;
    unsigned shift; // what leaves as many bits of a word as there are cells for
};

template <int number> HEADRACE_ZSTD_INLINE void decode(HuffmanStream& stream, const Code& code) noexcept {
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

template <typename Each> HEADRACE_ZSTD_INLINE void five_times(Each&& each) noexcept {
    each.template operator()<0>();
    each.template operator()<1>();
    each.template operator()<2>();
    each.template operator()<3>();
    each.template operator()<4>();
}

HEADRACE_ZSTD_INLINE void end_turn(HuffmanStream& stream) noexcept {
    stream.to += between_refills;
    refill(stream);
}

// Streams by turns, so that none waits for what the one before it looks up.
HEADRACE_ZSTD_INLINE void turns_of_four(HuffmanTable::Four& four, std::size_t turns, const Code code) noexcept {
    HuffmanStream a = four[0], b = four[1], c = four[2], d = four[3]; // in registers
    for (; turns != 0; --turns) {
        five_times([&]<int number>() HEADRACE_ZSTD_LAMBDA {
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

HEADRACE_ZSTD_INLINE void turns_of_eight(HuffmanTable::Four& four, const Code code, HuffmanTable::Four& other,
                                         const Code other_code, std::size_t turns) noexcept {
    HuffmanStream a = four[0], b = four[1], c = four[2], d = four[3]; // in registers
    HuffmanStream e = other[0], f = other[1], g = other[2], h = other[3];
    for (; turns != 0; --turns) {
        five_times([&]<int number>() HEADRACE_ZSTD_LAMBDA {
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

void four_plain(HuffmanTable::Four& four, std::size_t turns, const Code code) noexcept {
    turns_of_four(four, turns, code);
}

HEADRACE_ZSTD_INLINE bool all_eight(HuffmanTable::Four& four, const Code code, HuffmanTable::Four& other,
                                    const Code other_code) noexcept {
    const std::size_t turns = std::min(safe_turns(four), safe_turns(other));
    if (turns != 0) turns_of_eight(four, code, other, other_code, turns);
    return turns != 0;
}

// These say whether there is more that could be done.
bool eight_plain(HuffmanTable::Four& four, const Code code, HuffmanTable::Four& other, const Code other_code) noexcept {
    return all_eight(four, code, other, other_code);
}

#ifdef HEADRACE_ZSTD_BMI2

// The same for processors that shift by any register. Compilers move eight streams to and from the stack all the time,
// which takes longer than decoding: hence the instructions as such, four for a symbol. What they decode goes to lanes
// behind one pointer, and is copied from there; that leaves a register for everything. Not all streams are filled up at
// the same time: what they wait for then is hidden behind the symbols of the others.
constexpr std::size_t lane_size = 1088; // not a multiple of what a cache is made of

#define HEADRACE_ZSTD_SYMBOL(bits, cells, place)                                                                       \
    "shrx %[shift], %[" bits "], %q[cell]\n\t"                                                                         \
    "movzwl (%[" cells "], %q[cell], 2), %k[cell]\n\t"                                                                 \
    "shlx %q[cell], %[" bits "], %[" bits "]\n\t" /* by the lowest six bits: the length of the code */                 \
    "movb %h[cell], " place "(%[to])\n\t"

#define HEADRACE_ZSTD_ROUND(number)                                                                                    \
    HEADRACE_ZSTD_SYMBOL("a", "cells", #number)                                                                        \
    HEADRACE_ZSTD_SYMBOL("b", "cells", "1088+" #number)                                                                \
    HEADRACE_ZSTD_SYMBOL("c", "cells", "2176+" #number)                                                                \
    HEADRACE_ZSTD_SYMBOL("d", "cells", "3264+" #number)                                                                \
    HEADRACE_ZSTD_SYMBOL("e", "other_cells", "4352+" #number)                                                          \
    HEADRACE_ZSTD_SYMBOL("f", "other_cells", "5440+" #number)                                                          \
    HEADRACE_ZSTD_SYMBOL("g", "other_cells", "6528+" #number)                                                          \
    HEADRACE_ZSTD_SYMBOL("h", "other_cells", "7616+" #number)

// As `refill` does it.
#define HEADRACE_ZSTD_REFILL(bits, at)                                                                                 \
    "tzcntq %[" bits "], %q[cell]\n\t"                                                                                 \
    "movl %k[cell], %k[" bits "]\n\t"                                                                                  \
    "shrl $3, %k[" bits "]\n\t"                                                                                        \
    "negq %[" bits "]\n\t"                                                                                             \
    "addq " at ", %[" bits "]\n\t"                                                                                     \
    "movq %[" bits "], " at "\n\t"                                                                                     \
    "movq (%[" bits "]), %[" bits "]\n\t"                                                                              \
    "andl $7, %k[cell]\n\t"                                                                                            \
    "orq $1, %[" bits "]\n\t"                                                                                          \
    "shlxq %q[cell], %[" bits "], %[" bits "]\n\t"

__attribute__((target("bmi,bmi2"))) bool eight_bmi2(HuffmanTable::Four& four, const Code code,
                                                    HuffmanTable::Four& other, const Code other_code) noexcept {
    if (code.shift != other_code.shift) return all_eight(four, code, other, other_code);
    std::byte lanes[8 * lane_size];
    std::uint64_t a = four[0].bits, b = four[1].bits, c = four[2].bits, d = four[3].bits;
    std::uint64_t e = other[0].bits, f = other[1].bits, g = other[2].bits, h = other[3].bits;
    using Two = std::array<const std::byte*, 2>; // %[at] and %H[at], eight bytes behind it
    Two at_ab = {four[0].at, four[1].at}, at_cd = {four[2].at, four[3].at}, at_ef = {other[0].at, other[1].at},
        at_gh = {other[2].at, other[3].at};
    const std::uint64_t shift = code.shift;
    const std::size_t room = std::min<std::size_t>({lane_size, static_cast<std::size_t>(four[3].end - four[3].to),
                                                    static_cast<std::size_t>(other[3].end - other[3].to)}) /
                             between_refills;
    // How many turns can be done without reading before what is readable, if every code is of the most bits.
    const auto turns_left = [&] {
        const std::ptrdiff_t least =
            std::min({at_ab[0] - four[0].begin, at_ab[1] - four[1].begin, at_cd[0] - four[2].begin,
                      at_cd[1] - four[3].begin, at_ef[0] - other[0].begin, at_ef[1] - other[1].begin,
                      at_gh[0] - other[2].begin, at_gh[1] - other[3].begin});
        constexpr std::ptrdiff_t used = 7; // bits, of the words there
        const std::ptrdiff_t bits = (least + readable_before) * 8 - used;
        return bits < 0 ? 0
                        : static_cast<std::uint32_t>(bits) / static_cast<std::uint32_t>(between_refills * (64 - shift));
    };
    std::byte* to = lanes;
    const std::byte* const most = lanes + room * between_refills;
    while (const std::size_t turns =
               std::min<std::size_t>(static_cast<std::size_t>(most - to) / between_refills, turns_left())) {
        for (const std::byte* const end = to + turns * between_refills; to != end; to += between_refills) {
            std::uint64_t cell;
            asm(HEADRACE_ZSTD_ROUND(0) HEADRACE_ZSTD_REFILL("a", "%[at_ab]") HEADRACE_ZSTD_REFILL("e", "%[at_ef]")
                    HEADRACE_ZSTD_ROUND(1) HEADRACE_ZSTD_REFILL("b", "%H[at_ab]") HEADRACE_ZSTD_REFILL("f", "%H[at_ef]")
                        HEADRACE_ZSTD_ROUND(2) HEADRACE_ZSTD_REFILL("c", "%[at_cd]")
                            HEADRACE_ZSTD_REFILL("g", "%[at_gh]") HEADRACE_ZSTD_ROUND(3)
                                HEADRACE_ZSTD_REFILL("d", "%H[at_cd]") HEADRACE_ZSTD_ROUND(4)
                                    HEADRACE_ZSTD_REFILL("h", "%H[at_gh]")
                : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [e] "+r"(e), [f] "+r"(f), [g] "+r"(g),
                  [h] "+r"(h), [cell] "=&Q"(cell), [at_ab] "+m"(at_ab), [at_cd] "+m"(at_cd), [at_ef] "+m"(at_ef),
                  [at_gh] "+m"(at_gh)
                : [shift] "r"(shift), [cells] "r"(code.cells), [other_cells] "r"(other_code.cells), [to] "R"(to)
                : "memory", "cc");
        }
    }
    const std::uint64_t bits[] = {a, b, c, d, e, f, g, h};
    const std::byte* const at[] = {at_ab[0], at_ab[1], at_cd[0], at_cd[1], at_ef[0], at_ef[1], at_gh[0], at_gh[1]};
    for (std::size_t lane = 0; lane < 8; ++lane) {
        HuffmanStream& stream = lane < 4 ? four[lane] : other[lane - 4];
        stream.bits = bits[lane];
        stream.at = at[lane];
        const auto size = static_cast<std::size_t>(to - lanes);
        std::memcpy(stream.to, lanes + lane * lane_size, size);
        stream.to += size;
        refill(stream);
    }
    return to != lanes;
}

#undef HEADRACE_ZSTD_SYMBOL
#undef HEADRACE_ZSTD_ROUND
#undef HEADRACE_ZSTD_REFILL

__attribute__((target("bmi,bmi2"))) void four_bmi2(HuffmanTable::Four& four, std::size_t turns,
                                                   const Code code) noexcept {
    turns_of_four(four, turns, code);
}
#endif

struct Best {
    decltype(&four_plain) four = four_plain;
    decltype(&eight_plain) eight = eight_plain;

    Best() noexcept {
#ifdef HEADRACE_ZSTD_BMI2
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
        if (size > rest.size() ||
            !four[i].open(rest.first(size), i == 3 ? to.subspan(part * 3) : to.subspan(part * i, part)))
            return false;
        rest = rest.subspan(size);
    }
    return true;
}

bool HuffmanTable::decode_four(Four& four) const noexcept {
    const Code code{cells_.data(), 64 - log_};
    while (const std::size_t turns = safe_turns(four)) best().four(four, turns, code);
    return std::all_of(four.begin(), four.end(),
                       [&](const HuffmanStream& stream) { return decode_rest(stream, code); });
}

void HuffmanTable::decode_eight(const HuffmanTable& table, Four& four, const HuffmanTable& other_table,
                                Four& other) noexcept {
    const Code code{table.cells_.data(), 64 - table.log_}, other_code{other_table.cells_.data(), 64 - other_table.log_};
    while (best().eight(four, code, other, other_code)) {}
}

} // namespace headrace::zstd
