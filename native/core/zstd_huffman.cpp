#include "core/zstd_huffman.hpp"

#include <algorithm>
#include <utility>

#include "core/zstd_bits.hpp"
#include "core/zstd_fse.hpp"

#if defined(__SSE2__) || defined(_M_X64)
#define PENSTOCK_ZSTD_SSE2 1
#include <emmintrin.h>
#endif
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

struct Weights {
    std::array<std::uint8_t, 256> of{};
    std::size_t count = 0;
};

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

// Calls `act` with the numbers below `number`, each a constant.
template <std::size_t number, typename Act> PENSTOCK_ZSTD_INLINE void for_each(Act&& act) noexcept {
    [&]<std::size_t... i>(std::index_sequence<i...>) PENSTOCK_ZSTD_LAMBDA { (act(std::integral_constant<std::size_t, i>()), ...); }(std::make_index_sequence<number>());
}

using WeightCells = std::array<FseCell, std::size_t{1} << most_weight_log>;

// Weights in finite state entropy: two states take turns until the bits run out.
struct PackedWeights {
    const FseCell* cells;
    const std::byte* begin;
    const std::byte* at; // where the word was loaded
    std::uint64_t word;  // the next bits at its top; the lowest one set marks where they end
    std::size_t one, other;

    // Returns how many bytes the description takes; 0 where it is unsound. Eight bytes before it are readable.
    [[nodiscard]] std::size_t open(Bytes from, WeightCells& room) noexcept {
        const auto size = std::to_integer<std::size_t>(from[0]);
        if (size >= from.size()) return 0;
        const Bytes packed = from.subspan(1, size);
        FseCounts counts;
        const std::size_t head = read_fse_counts(packed, most_weight_log, HuffmanTable::most_log + 1, counts);
        if (head == 0) return 0;
        build_fse_cells(counts, room);
        const Bytes stream = packed.subspan(head);
        if (stream.empty() || stream.back() == std::byte{0}) return 0;
        cells = room.data();
        begin = stream.data();
        at = stream.data() + stream.size() - sizeof word;
        word = (load_le<std::uint64_t>(at) | 1) << (std::countl_zero(std::to_integer<std::uint8_t>(stream.back())) + 1);
        for (std::size_t* const state : {&one, &other}) {
            *state = static_cast<std::size_t>(word >> (64 - counts.log));
            word <<= counts.log;
        }
        return left() < 0 ? 0 : size + 1;
    }

    // How many bits are left; negative where more were taken than there were.
    [[nodiscard]] PENSTOCK_ZSTD_INLINE std::ptrdiff_t left() const noexcept { return (at - begin + readable_before) * 8 - std::countr_zero(word); }

    PENSTOCK_ZSTD_INLINE void refill() noexcept {
        const auto used = static_cast<unsigned>(std::countr_zero(word));
        at -= used >> 3;
        word = (load_le<std::uint64_t>(at) | 1) << (used & 7);
    }

    PENSTOCK_ZSTD_INLINE std::uint8_t next(std::size_t& state) noexcept {
        const FseCell cell = cells[state];
        state = static_cast<std::size_t>(cell.base + (word >> 1 >> (63 - cell.bits)));
        word <<= cell.bits;
        return cell.symbol;
    }
};

constexpr std::size_t weights_at_once = 8; // of at most six bits each

// Most of the weights of several descriptions, by turns, so that none waits for what it looks up. Returns how many of each.
template <std::size_t number>
PENSTOCK_ZSTD_INLINE std::size_t read_most_weights(std::array<PackedWeights, number>& packed, const std::array<std::uint8_t*, number>& to) noexcept {
    std::array<PackedWeights, number> these = packed; // in registers
    std::size_t count = 0;
    for (; count + weights_at_once < most_weights; count += weights_at_once) {
        bool all = true;
        for_each<number>([&](auto i) PENSTOCK_ZSTD_LAMBDA { all = all && these[i].left() >= static_cast<std::ptrdiff_t>(weights_at_once * most_weight_log); });
        if (!all) break;
        for_each<number>([&](auto i) PENSTOCK_ZSTD_LAMBDA { these[i].refill(); });
        for_each<weights_at_once / 2>([&](auto k) PENSTOCK_ZSTD_LAMBDA {
            for_each<number>([&](auto i) PENSTOCK_ZSTD_LAMBDA { to[i][count + k * 2] = these[i].next(these[i].one); });
            for_each<number>([&](auto i) PENSTOCK_ZSTD_LAMBDA { to[i][count + k * 2 + 1] = these[i].next(these[i].other); });
        });
    }
    packed = these;
    return count;
}

// All the others; false where there are too many.
bool read_other_weights(PackedWeights& packed, std::uint8_t* weights, std::size_t& count) noexcept {
    while (count + 2 <= most_weights) {
        packed.refill();
        weights[count++] = packed.next(packed.one);
        if (packed.left() < 0) {
            weights[count++] = packed.cells[packed.other].symbol;
            return true;
        }
        std::swap(packed.one, packed.other);
    }
    return false;
}

// `width` cells for each of some symbols. Eight symbols are taken at a time: up to seven are read, and as many filled in, that come behind
// them.
template <std::size_t width> std::uint16_t* fill(std::uint16_t* to, std::span<const std::uint8_t> symbols, unsigned length) noexcept {
#ifdef PENSTOCK_ZSTD_SSE2
    const __m128i lengths = _mm_set1_epi8(static_cast<char>(length));
    const auto put = [&](std::size_t number, __m128i cells) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to) + number, cells); };
    for (std::size_t i = 0; i < symbols.size(); i += 8) {
        const __m128i cells = _mm_unpacklo_epi8(lengths, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(symbols.data() + i)));
        if constexpr (width == 1) {
            put(0, cells);
        } else {
            const __m128i low = _mm_unpacklo_epi16(cells, cells), high = _mm_unpackhi_epi16(cells, cells);
            if constexpr (width == 2) {
                put(0, low);
                put(1, high);
            } else {
                static_assert(width == 4);
                put(0, _mm_unpacklo_epi32(low, low));
                put(1, _mm_unpackhi_epi32(low, low));
                put(2, _mm_unpacklo_epi32(high, high));
                put(3, _mm_unpackhi_epi32(high, high));
            }
        }
        to += 8 * width;
    }
    return to - (8 - symbols.size() % 8) % 8 * width;
#else
    for (const std::uint8_t symbol : symbols) {
        std::array<std::uint16_t, width> cells;
        cells.fill(static_cast<std::uint16_t>(unsigned{symbol} << 8 | length));
        std::memcpy(to, cells.data(), sizeof cells);
        to += width;
    }
    return to;
#endif
}

// Eight cells as often as `symbol` has them.
std::uint16_t* fill_eights(std::uint16_t* to, std::uint8_t symbol, std::size_t eights, unsigned length) noexcept {
    std::array<std::uint16_t, 8> cells;
    cells.fill(static_cast<std::uint16_t>(unsigned{symbol} << 8 | length));
    for (; eights != 0; --eights) {
        std::memcpy(to, cells.data(), sizeof cells);
        to += cells.size();
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

PENSTOCK_ZSTD_INLINE bool all_eight(HuffmanTable::Four& four, const Code code, HuffmanTable::Four& other, const Code other_code) noexcept {
    const std::size_t turns = std::min(safe_turns(four), safe_turns(other));
    if (turns != 0) turns_of_eight(four, code, other, other_code, turns);
    return turns != 0;
}

// These say whether there is more that could be done.
bool eight_plain(HuffmanTable::Four& four, const Code code, HuffmanTable::Four& other, const Code other_code) noexcept {
    return all_eight(four, code, other, other_code);
}

#ifdef PENSTOCK_ZSTD_BMI2

// The same for processors that shift by any register. Compilers move eight streams to and from the stack all the time, which takes longer
// than decoding: hence the instructions as such, four for a symbol. What they decode goes to lanes behind one pointer, and is copied from
// there; that leaves a register for everything. Not all streams are filled up at the same time: what they wait for then is hidden behind
// the symbols of the others.
constexpr std::size_t lane_size = 1088; // not a multiple of what a cache is made of

// How many turns can be done without reading before what is readable, if every code is of `log` bits.
PENSTOCK_ZSTD_INLINE std::size_t turns_left(const std::byte* at, const std::byte* begin, unsigned log) noexcept {
    constexpr std::ptrdiff_t used = 7; // bits, of the word at `at`
    const std::ptrdiff_t bits = (at - begin + readable_before) * 8 - used;
    return bits < 0 ? 0 : static_cast<std::size_t>(bits) / (between_refills * log);
}

#define PENSTOCK_ZSTD_SYMBOL(bits, cells, place) \
    "shrx %[shift], %[" bits "], %q[cell]\n\t" \
    "movzwl (%[" cells "], %q[cell], 2), %k[cell]\n\t" \
    "shlx %q[cell], %[" bits "], %[" bits "]\n\t" /* by the lowest six bits: the length of the code */ \
    "movb %h[cell], " place "(%[to])\n\t"

#define PENSTOCK_ZSTD_ROUND(number) \
    PENSTOCK_ZSTD_SYMBOL("a", "cells", #number) \
    PENSTOCK_ZSTD_SYMBOL("b", "cells", "1088+" #number) \
    PENSTOCK_ZSTD_SYMBOL("c", "cells", "2176+" #number) \
    PENSTOCK_ZSTD_SYMBOL("d", "cells", "3264+" #number) \
    PENSTOCK_ZSTD_SYMBOL("e", "other_cells", "4352+" #number) \
    PENSTOCK_ZSTD_SYMBOL("f", "other_cells", "5440+" #number) \
    PENSTOCK_ZSTD_SYMBOL("g", "other_cells", "6528+" #number) \
    PENSTOCK_ZSTD_SYMBOL("h", "other_cells", "7616+" #number)

// As `refill` does it.
#define PENSTOCK_ZSTD_REFILL(bits, at) \
    "tzcntq %[" bits "], %q[cell]\n\t" \
    "movl %k[cell], %k[" bits "]\n\t" \
    "shrl $3, %k[" bits "]\n\t" \
    "negq %[" bits "]\n\t" \
    "addq " at ", %[" bits "]\n\t" \
    "movq %[" bits "], " at "\n\t" \
    "movq (%[" bits "]), %[" bits "]\n\t" \
    "andl $7, %k[cell]\n\t" \
    "orq $1, %[" bits "]\n\t" \
    "shlxq %q[cell], %[" bits "], %[" bits "]\n\t"

__attribute__((target("bmi,bmi2"))) bool eight_bmi2(HuffmanTable::Four& four, const Code code, HuffmanTable::Four& other, const Code other_code) noexcept {
    if (code.shift != other_code.shift) return all_eight(four, code, other, other_code);
    std::byte lanes[8 * lane_size];
    std::uint64_t a = four[0].bits, b = four[1].bits, c = four[2].bits, d = four[3].bits;
    std::uint64_t e = other[0].bits, f = other[1].bits, g = other[2].bits, h = other[3].bits;
    using Two = std::array<const std::byte*, 2>; // %[at] and %H[at], eight bytes behind it
    Two at_ab = {four[0].at, four[1].at}, at_cd = {four[2].at, four[3].at}, at_ef = {other[0].at, other[1].at}, at_gh = {other[2].at, other[3].at};
    const std::uint64_t shift = code.shift;
    const std::size_t room = std::min<std::size_t>({lane_size, static_cast<std::size_t>(four[3].end - four[3].to), static_cast<std::size_t>(other[3].end - other[3].to)}) / between_refills;
    const auto turns_of = [log = 64 - code.shift](const HuffmanTable::Four& these, const Two& one, const Two& two) {
        return std::min({turns_left(one[0], these[0].begin, log), turns_left(one[1], these[1].begin, log), turns_left(two[0], these[2].begin, log),
                         turns_left(two[1], these[3].begin, log)});
    };
    std::byte* to = lanes;
    const std::byte* const most = lanes + room * between_refills;
    while (const std::size_t turns = std::min({static_cast<std::size_t>(most - to) / between_refills, turns_of(four, at_ab, at_cd), turns_of(other, at_ef, at_gh)}))
    for (const std::byte* const end = to + turns * between_refills; to != end; to += between_refills) {
        std::uint64_t cell;
        asm(PENSTOCK_ZSTD_ROUND(0)
            PENSTOCK_ZSTD_REFILL("a", "%[at_ab]") PENSTOCK_ZSTD_REFILL("e", "%[at_ef]")
            PENSTOCK_ZSTD_ROUND(1)
            PENSTOCK_ZSTD_REFILL("b", "%H[at_ab]") PENSTOCK_ZSTD_REFILL("f", "%H[at_ef]")
            PENSTOCK_ZSTD_ROUND(2)
            PENSTOCK_ZSTD_REFILL("c", "%[at_cd]") PENSTOCK_ZSTD_REFILL("g", "%[at_gh]")
            PENSTOCK_ZSTD_ROUND(3)
            PENSTOCK_ZSTD_REFILL("d", "%H[at_cd]")
            PENSTOCK_ZSTD_ROUND(4)
            PENSTOCK_ZSTD_REFILL("h", "%H[at_gh]")
            : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [e] "+r"(e), [f] "+r"(f), [g] "+r"(g), [h] "+r"(h), [cell] "=&Q"(cell),
              [at_ab] "+m"(at_ab), [at_cd] "+m"(at_cd), [at_ef] "+m"(at_ef), [at_gh] "+m"(at_gh)
            : [shift] "r"(shift), [cells] "r"(code.cells), [other_cells] "r"(other_code.cells), [to] "R"(to)
            : "memory", "cc");
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

#undef PENSTOCK_ZSTD_SYMBOL
#undef PENSTOCK_ZSTD_ROUND
#undef PENSTOCK_ZSTD_REFILL

__attribute__((target("bmi,bmi2"))) void four_bmi2(HuffmanTable::Four& four, std::size_t turns, const Code code) noexcept {
    turns_of_four(four, turns, code);
}
#endif

// Reads descriptions, and says how many bytes they take; 0 where one is unsound.
template <std::size_t number> PENSTOCK_ZSTD_INLINE void read_weights(const std::array<Bytes, number>& from, std::array<Weights, number>& weights,
                                                                     std::array<std::size_t, number>& sizes) noexcept {
    std::array<WeightCells, number> cells;
    std::array<PackedWeights, number> packed{};
    std::array<std::uint8_t*, number> to;
    std::array<bool, number> goes_on{};
    for (std::size_t i = 0; i < number; ++i) {
        to[i] = weights[i].of.data();
        if (from[i].empty())
            sizes[i] = 0;
        else if (std::to_integer<unsigned>(from[i][0]) >= 128)
            sizes[i] = plain_weights(from[i], weights[i].of, weights[i].count);
        else
            goes_on[i] = (sizes[i] = packed[i].open(from[i], cells[i])) != 0;
    }
    const std::size_t most = std::all_of(goes_on.begin(), goes_on.end(), [](bool one) { return one; }) ? read_most_weights(packed, to) : 0;
    for (std::size_t i = 0; i < number; ++i) {
        if (!goes_on[i]) continue;
        weights[i].count = most;
        if (!read_other_weights(packed[i], to[i], weights[i].count)) sizes[i] = 0;
    }
}

void one_plain(const std::array<Bytes, 1>& from, std::array<Weights, 1>& weights, std::array<std::size_t, 1>& sizes) noexcept { read_weights(from, weights, sizes); }
void two_plain(const std::array<Bytes, 2>& from, std::array<Weights, 2>& weights, std::array<std::size_t, 2>& sizes) noexcept { read_weights(from, weights, sizes); }

#ifdef PENSTOCK_ZSTD_BMI2
__attribute__((target("bmi,bmi2"))) void one_bmi2(const std::array<Bytes, 1>& from, std::array<Weights, 1>& weights, std::array<std::size_t, 1>& sizes) noexcept {
    read_weights(from, weights, sizes);
}

__attribute__((target("bmi,bmi2"))) void two_bmi2(const std::array<Bytes, 2>& from, std::array<Weights, 2>& weights, std::array<std::size_t, 2>& sizes) noexcept {
    read_weights(from, weights, sizes);
}
#endif

struct Best {
    decltype(&one_plain) one = one_plain;
    decltype(&two_plain) two = two_plain;
    decltype(&four_plain) four = four_plain;
    decltype(&eight_plain) eight = eight_plain;

    Best() noexcept {
#ifdef PENSTOCK_ZSTD_BMI2
        if (__builtin_cpu_supports("bmi2") == 0) return;
        one = one_bmi2;
        two = two_bmi2;
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
    std::array<Weights, 1> weights;
    std::array<std::size_t, 1> sizes{};
    best().one({from}, weights, sizes);
    if (sizes[0] == 0 || !build(weights[0].of, weights[0].count)) log_ = 0;
    return log_ == 0 ? 0 : sizes[0];
}

void HuffmanTable::read_two(HuffmanTable& one, HuffmanTable& other, const std::array<Bytes, 2>& from, std::array<std::size_t, 2>& sizes) noexcept {
    std::array<Weights, 2> weights;
    best().two(from, weights, sizes);
    for (std::size_t i = 0; i < 2; ++i) {
        HuffmanTable& table = i == 0 ? one : other;
        table.log_ = 0;
        if (sizes[i] != 0 && table.build(weights[i].of, weights[i].count)) continue;
        table.log_ = 0;
        sizes[i] = 0;
    }
}

bool HuffmanTable::build(std::array<std::uint8_t, 256>& weights, std::size_t count) noexcept {
    // The numbers are in four parts, so that counting one up need not wait for counting it up before.
    constexpr std::size_t parts = 4;
    const std::size_t part = (count + 1 + 15) / 16 * 16 / parts;
    std::array<std::array<std::uint16_t, 16>, parts> places{};
    const auto each = [&](auto&& act) {
        for (std::size_t i = 0; i < part; ++i)
            for (std::size_t p = 0; p < parts; ++p) act(places[p][weights[part * p + i] & 15], part * p + i);
    };
    each([](std::uint16_t& place, std::size_t) { ++place; });
    std::uint32_t total = 0;
    for (std::size_t weight = 1; weight < places[0].size(); ++weight)
        for (const auto& places_of_part : places) total += std::uint32_t{places_of_part[weight]} << weight >> 1;
    const auto log = static_cast<unsigned>(std::bit_width(total));
    if (total == 0 || log > most_log) return false;
    const std::uint32_t rest = (1U << log) - total; // what the last symbol has
    if (!std::has_single_bit(rest)) return false;
    weights[count] = static_cast<std::uint8_t>(std::bit_width(rest));
    --places[count / part][0];
    ++places[count / part][weights[count]];
    log_ = log;

    std::array<std::uint16_t, most_log + 3> begins{};
    std::uint16_t sum = 0;
    for (std::size_t weight = 0; weight < most_log + 2; ++weight) {
        begins[weight] = sum;
        for (auto& places_of_part : places) sum = static_cast<std::uint16_t>(sum + std::exchange(places_of_part[weight], sum));
    }
    begins[most_log + 2] = sum;
    if (begins[2] - begins[1] < 2) return false; // Two of the longest codes differ in their last bit.
    std::array<std::uint8_t, 256 + slack> symbols; // by weight, and by number
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
            for (const std::uint8_t symbol : these) to = fill_eights(to, symbol, std::size_t{1} << (weight - 4), length);
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
    while (best().eight(four, code, other, other_code)) {}
}

} // namespace penstock::zstd
