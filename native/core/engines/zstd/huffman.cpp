#include "core/engines/zstd/huffman.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>

#include "core/engines/zstd/sequences.hpp"

#if defined(__SSE2__) || defined(_M_X64)
#define HEADRACE_ZSTD_SSE2 1
#include <emmintrin.h>
#endif

namespace headrace::zstd {
namespace {

// Writes `width` cells for each symbol. Works on eight symbols at a time, so it reads and writes up to seven symbols
// too many.
template <std::size_t width>
std::uint16_t* fill(std::uint16_t* to, std::span<const std::uint8_t> symbols, unsigned length) noexcept {
#ifdef HEADRACE_ZSTD_SSE2
    const __m128i lengths = _mm_set1_epi8(static_cast<char>(length));
    const auto put = [&](std::size_t number, __m128i cells) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to) + number, cells);
    };
    for (std::size_t i = 0; i < symbols.size(); i += 8) {
        const __m128i cells =
            _mm_unpacklo_epi8(lengths, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(symbols.data() + i)));
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

// Writes cells for one symbol, eight at a time.
std::uint16_t* fill_eights(std::uint16_t* to, std::uint8_t symbol, std::size_t eights, unsigned length) noexcept {
    std::array<std::uint16_t, 8> cells;
    cells.fill(static_cast<std::uint16_t>(unsigned{symbol} << 8 | length));
    for (; eights != 0; --eights) {
        std::memcpy(to, cells.data(), sizeof cells);
        to += cells.size();
    }
    return to;
}

constexpr std::size_t at_a_time = 8; // symbols

// The symbols of each weight, in order, with room for those that are written too many.
struct SymbolsByWeight {
    std::array<std::array<std::uint8_t, 256 + at_a_time>, 16> of;
    std::array<std::size_t, 16> counts{};
};

#ifdef HEADRACE_ZSTD_SSE2
// For each byte: the numbers of its set bits, one in each byte of a word, and how many there are.
struct SetBits {
    std::array<std::uint64_t, 256> numbers{};
    std::array<std::uint8_t, 256> counts{};
};

constexpr SetBits set_bits = [] {
    SetBits made;
    for (unsigned bits = 0; bits < 256; ++bits)
        for (unsigned number = 0; number < 8; ++number)
            if ((bits >> number & 1) != 0) made.numbers[bits] |= std::uint64_t{number} << 8 * made.counts[bits]++;
    return made;
}();
#endif

// Writes the symbols of this weight in order, and up to eight bytes more. Returns the number of symbols.
std::size_t find_symbols(const Weights& weights, unsigned weight, std::uint8_t* const to) noexcept {
    std::size_t count = 0;
#ifdef HEADRACE_ZSTD_SSE2
    const __m128i wanted = _mm_set1_epi8(static_cast<char>(weight)), eight = _mm_set1_epi8(8);
    __m128i first = _mm_setzero_si128();
    for (std::size_t i = 0; i < weights.count; i += 2 * at_a_time) {
        const __m128i these = _mm_loadu_si128(reinterpret_cast<const __m128i*>(weights.of.data() + i));
        const auto found = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(these, wanted)));
        for (const unsigned bits : {found & 0xFF, found >> 8}) {
            const __m128i numbers = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&set_bits.numbers[bits]));
            _mm_storel_epi64(reinterpret_cast<__m128i*>(to + count), _mm_add_epi8(numbers, first));
            count += set_bits.counts[bits];
            first = _mm_add_epi8(first, eight);
        }
    }
#else
    for (std::size_t symbol = 0; symbol < weights.count; ++symbol)
        if (weights.of[symbol] == weight) to[count++] = static_cast<std::uint8_t>(symbol);
#endif
    return count;
}

} // namespace

std::size_t HuffmanTable::read(Bytes from, const Cpu& cpu) noexcept {
    Weights weights;
    const std::size_t size = read_weights(from, weights, cpu);
    if (size == 0 || !build(weights)) log_ = 0;
    return log_ == 0 ? 0 : size;
}

void HuffmanTable::read_pair(HuffmanTable& one, HuffmanTable& other, const std::array<Bytes, 2>& from,
                             std::array<std::size_t, 2>& sizes, const Cpu& cpu) noexcept {
    std::array<Weights, 2> weights;
    read_weights_pair(from, weights, sizes, cpu);
    for (std::size_t i = 0; i < 2; ++i) {
        HuffmanTable& table = i == 0 ? one : other;
        table.log_ = 0;
        if (sizes[i] != 0 && table.build(weights[i])) continue;
        table.log_ = 0;
        sizes[i] = 0;
    }
}

bool HuffmanTable::build(const Weights& weights) noexcept {
    SymbolsByWeight symbols;
    std::uint32_t total = 0;
    for (unsigned weight = 1; weight < symbols.of.size(); ++weight) {
        symbols.counts[weight] =
            (weights.present >> weight & 1) == 0 ? 0 : find_symbols(weights, weight, symbols.of[weight].data());
        total += static_cast<std::uint32_t>(symbols.counts[weight]) << weight >> 1;
    }
    const auto log = static_cast<unsigned>(std::bit_width(total));
    if (total == 0 || log > most_log) return false;
    const std::uint32_t rest = (1U << log) - total; // the share of the last symbol
    if (!std::has_single_bit(rest)) return false;
    const auto last = static_cast<std::size_t>(std::bit_width(rest));
    symbols.of[last][symbols.counts[last]++] = static_cast<std::uint8_t>(weights.count);
    if (symbols.counts[1] < 2) return false; // Two of the longest codes differ in their last bit.
    log_ = log;

    std::uint16_t* to = cells_.data();
    for (unsigned weight = 1; weight <= log_; ++weight) {
        const std::span<const std::uint8_t> these{symbols.of[weight].data(), symbols.counts[weight]};
        const unsigned length = log_ + 1 - weight;
        if (weight == 1) to = fill<1>(to, these, length);
        else if (weight == 2) to = fill<2>(to, these, length);
        else if (weight == 3) to = fill<4>(to, these, length);
        else
            for (const std::uint8_t symbol : these)
                to = fill_eights(to, symbol, std::size_t{1} << (weight - 4), length);
    }
    return true;
}

namespace {

constexpr std::size_t most_weights = 255; // That of the last symbol follows from the others.
constexpr unsigned most_weight_log = 6;

// Weights of four bits each.
std::size_t read_plain_weights(Bytes from, std::size_t first, Weights& weights) noexcept {
    weights.count = first - 127;
    const std::size_t bytes = 1 + (weights.count + 1) / 2;
    if (bytes > from.size()) return 0;
    for (std::size_t i = 0; i < weights.count; ++i) {
        const auto two = std::to_integer<std::uint8_t>(from[1 + i / 2]);
        weights.of[i] = static_cast<std::uint8_t>(i % 2 == 0 ? two >> 4 : two & 15);
        weights.present = static_cast<std::uint16_t>(weights.present | 1U << weights.of[i]);
    }
    return bytes;
}

// Calls `act` with the numbers below `number`, each a constant.
template <std::size_t number, typename Act> HEADRACE_INLINE void for_each(Act&& act) noexcept {
    [&]<std::size_t... i>(std::index_sequence<i...>) HEADRACE_INLINE_LAMBDA {
        (act(std::integral_constant<std::size_t, i>()), ...);
    }(std::make_index_sequence<number>());
}

using WeightCells = std::array<FseCell, std::size_t{1} << most_weight_log>;

// Weights in finite state entropy: two states alternate until the bits run out.
struct PackedWeights {
    const FseCell* cells;
    const std::byte* begin;
    const std::byte* at; // where the word was loaded
    std::uint64_t word;  // the next bits from the top down; the lowest set bit marks their end
    std::size_t one, other;
    std::uint16_t present;

    // `size` is its first byte. Returns the size of the description, or 0 if it is unsound. Eight bytes before it must
    // be readable.
    [[nodiscard]] std::size_t open(Bytes from, std::size_t size, WeightCells& room) noexcept {
        if (size >= from.size()) return 0;
        const Bytes packed = from.subspan(1, size);
        FseCounts counts;
        const std::size_t head = read_fse_counts(packed, most_weight_log, HuffmanTable::most_log + 1, counts);
        if (head == 0) return 0;
        build_fse_cells(counts, room);
        for (unsigned weight = 0; weight < counts.symbols; ++weight)
            if (counts.of[weight] != 0) present = static_cast<std::uint16_t>(present | 1U << weight);
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

    // The number of bits left; negative if more were taken than there were.
    [[nodiscard]] HEADRACE_INLINE std::ptrdiff_t left() const noexcept {
        return (at - begin + readable_before) * 8 - std::countr_zero(word);
    }

    HEADRACE_INLINE void refill() noexcept {
        const auto used = static_cast<unsigned>(std::countr_zero(word));
        at -= used >> 3;
        word = (load_le<std::uint64_t>(at) | 1) << (used & 7);
    }

    HEADRACE_INLINE std::uint8_t next(std::size_t& state) noexcept {
        const FseCell cell = cells[state];
        state = static_cast<std::size_t>(cell.base + (word >> 1 >> (63 - cell.bits)));
        word <<= cell.bits;
        return cell.symbol;
    }
};

constexpr std::size_t weights_at_once = 8; // of at most six bits each

// Reads most of the weights of several descriptions, interleaved. Returns how many of each. Where the bits of one run
// out, the last weights of all are read again, one by one, by `read_other_weights`.
template <std::size_t number>
HEADRACE_INLINE std::size_t read_most_weights(std::array<PackedWeights, number>& packed,
                                              const std::array<std::uint8_t*, number>& to) noexcept {
    std::array<PackedWeights, number> these = packed; // in registers
    const auto all_have = [&](std::ptrdiff_t bits) HEADRACE_INLINE_LAMBDA {
        bool all = true;
        for_each<number>([&](auto i) HEADRACE_INLINE_LAMBDA { all = all && these[i].left() >= bits; });
        return all;
    };
    std::size_t count = 0;
    for (; count + weights_at_once < most_weights; count += weights_at_once) {
        const bool is_sure = all_have(weights_at_once * most_weight_log);
        if (!is_sure) packed = these;
        for_each<number>([&](auto i) HEADRACE_INLINE_LAMBDA { these[i].refill(); });
        for_each<weights_at_once / 2>([&](auto k) HEADRACE_INLINE_LAMBDA {
            for_each<number>([&](auto i)
                                 HEADRACE_INLINE_LAMBDA { to[i][count + k * 2] = these[i].next(these[i].one); });
            for_each<number>([&](auto i)
                                 HEADRACE_INLINE_LAMBDA { to[i][count + k * 2 + 1] = these[i].next(these[i].other); });
        });
        if (is_sure || all_have(0)) continue;
        for_each<number>([&](auto i) HEADRACE_INLINE_LAMBDA { std::memset(to[i] + count, 0, weights_at_once); });
        return count;
    }
    packed = these;
    return count;
}

// Reads the remaining weights. False if there are too many.
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

// Reads descriptions and their sizes in bytes; 0 for one that is unsound.
template <std::size_t number>
HEADRACE_INLINE void read_interleaved(const std::array<Bytes, number>& from, std::array<Weights, number>& weights,
                                      std::array<std::size_t, number>& sizes) noexcept {
    std::array<WeightCells, number> cells;
    std::array<PackedWeights, number> packed{};
    std::array<std::uint8_t*, number> to;
    std::array<bool, number> is_packed{};
    for (std::size_t i = 0; i < number; ++i) {
        to[i] = weights[i].of.data();
        const std::size_t first = from[i].empty() ? 0 : std::to_integer<std::size_t>(from[i][0]);
        if (from[i].empty()) sizes[i] = 0;
        else if (first >= 128) sizes[i] = read_plain_weights(from[i], first, weights[i]);
        else is_packed[i] = (sizes[i] = packed[i].open(from[i], first, cells[i])) != 0;
    }
    const std::size_t most = std::all_of(is_packed.begin(), is_packed.end(), [](bool one) { return one; })
                                 ? read_most_weights(packed, to)
                                 : 0;
    for (std::size_t i = 0; i < number; ++i) {
        if (!is_packed[i]) continue;
        weights[i].count = most;
        weights[i].present = packed[i].present;
        if (!read_other_weights(packed[i], to[i], weights[i].count)) sizes[i] = 0;
    }
}

void read_one_plain(const std::array<Bytes, 1>& from, std::array<Weights, 1>& weights,
                    std::array<std::size_t, 1>& sizes) noexcept {
    read_interleaved(from, weights, sizes);
}
void read_pair_plain(const std::array<Bytes, 2>& from, std::array<Weights, 2>& weights,
                     std::array<std::size_t, 2>& sizes) noexcept {
    read_interleaved(from, weights, sizes);
}

#ifdef HEADRACE_X86
HEADRACE_FOR_BMI2 void read_one_bmi2(const std::array<Bytes, 1>& from, std::array<Weights, 1>& weights,
                                     std::array<std::size_t, 1>& sizes) noexcept {
    read_interleaved(from, weights, sizes);
}

HEADRACE_FOR_BMI2 void read_pair_bmi2(const std::array<Bytes, 2>& from, std::array<Weights, 2>& weights,
                                      std::array<std::size_t, 2>& sizes) noexcept {
    read_interleaved(from, weights, sizes);
}
#endif

} // namespace

std::size_t read_weights(Bytes from, Weights& weights, [[maybe_unused]] const Cpu& cpu) noexcept {
    std::array<Weights, 1> one;
    std::array<std::size_t, 1> sizes{};
    auto* read = &read_one_plain;
#ifdef HEADRACE_X86
    if (cpu.bmi2) read = &read_one_bmi2;
#endif
    read({from}, one, sizes);
    weights = one[0];
    return sizes[0];
}

void read_weights_pair(const std::array<Bytes, 2>& from, std::array<Weights, 2>& weights,
                       std::array<std::size_t, 2>& sizes, [[maybe_unused]] const Cpu& cpu) noexcept {
    auto* read = &read_pair_plain;
#ifdef HEADRACE_X86
    if (cpu.bmi2) read = &read_pair_bmi2;
#endif
    read(from, weights, sizes);
}

} // namespace headrace::zstd
