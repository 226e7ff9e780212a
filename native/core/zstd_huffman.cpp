#include "core/zstd_huffman.hpp"

#include <bit>

#include "core/zstd_weights.hpp"

#if defined(__SSE2__) || defined(_M_X64)
#define HEADRACE_ZSTD_SSE2 1
#include <emmintrin.h>
#endif

namespace headrace::zstd {
namespace {

// `width` cells for each of some symbols. Eight symbols are taken at a time: up to seven are read, and as many filled in, that come behind
// them.
template <std::size_t width> std::uint16_t* fill(std::uint16_t* to, std::span<const std::uint8_t> symbols, unsigned length) noexcept {
#ifdef HEADRACE_ZSTD_SSE2
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

constexpr std::size_t at_a_time = 8; // symbols

// The symbols of each weight, in order, and room for those that are written with them.
struct SymbolsByWeight {
    std::array<std::array<std::uint8_t, 256 + at_a_time>, 16> of;
    std::array<std::size_t, 16> counts{};
};

#ifdef HEADRACE_ZSTD_SSE2
// For each set of eight bits: the numbers of those that are set, one behind the other in bytes; and how many they are.
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

// The symbols that have this weight, in order. Returns how many. Up to eight are written behind them.
std::size_t with_weight(const Weights& weights, unsigned weight, std::uint8_t* const to) noexcept {
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

std::size_t HuffmanTable::read(Bytes from) noexcept {
    Weights weights;
    const std::size_t size = read_weights(from, weights);
    if (size == 0 || !build(weights)) log_ = 0;
    return log_ == 0 ? 0 : size;
}

void HuffmanTable::read_two(HuffmanTable& one, HuffmanTable& other, const std::array<Bytes, 2>& from, std::array<std::size_t, 2>& sizes) noexcept {
    std::array<Weights, 2> weights;
    read_two_weights(from, weights, sizes);
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
        symbols.counts[weight] = (weights.present >> weight & 1) == 0 ? 0 : with_weight(weights, weight, symbols.of[weight].data());
        total += static_cast<std::uint32_t>(symbols.counts[weight]) << weight >> 1;
    }
    const auto log = static_cast<unsigned>(std::bit_width(total));
    if (total == 0 || log > most_log) return false;
    const std::uint32_t rest = (1U << log) - total; // what the last symbol has
    if (!std::has_single_bit(rest)) return false;
    const auto last = static_cast<std::size_t>(std::bit_width(rest));
    symbols.of[last][symbols.counts[last]++] = static_cast<std::uint8_t>(weights.count);
    if (symbols.counts[1] < 2) return false; // Two of the longest codes differ in their last bit.
    log_ = log;

    std::uint16_t* to = cells_.data();
    for (unsigned weight = 1; weight <= log_; ++weight) {
        const std::span<const std::uint8_t> these{symbols.of[weight].data(), symbols.counts[weight]};
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

} // namespace headrace::zstd
