#include "core/engines/zstd/huffman.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/engines/zstd/sequences.hpp"

#ifdef HEADRACE_X86
#include <immintrin.h>
#endif

namespace headrace::zstd {
namespace {

HEADRACE_INLINE void refill(HuffmanStream& stream) noexcept {
    const auto used = static_cast<unsigned>(std::countr_zero(stream.bits));
    stream.at -= used >> 3;
    stream.bits = (load_le<std::uint64_t>(stream.at) | 1) << (used & 7);
}

struct Code {
    const std::uint16_t* cells;
    unsigned shift; // leaves as many bits of a word as the table has
};

template <int number> HEADRACE_INLINE void decode(HuffmanStream& stream, const Code& code) noexcept {
    const unsigned cell = code.cells[stream.bits >> code.shift];
    stream.bits <<= cell & 63;
    stream.to[number] = static_cast<std::byte>(cell >> 8);
}

constexpr std::size_t between_refills = 5; // symbols of up to 11 bits; up to 7 bits of the word are used already
constexpr std::ptrdiff_t most_back = 7;    // bytes that one turn takes at most

// The rest of a stream. Its last symbol must come from the first bits of its bytes.
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

// The number of turns that stay inside what is readable and what may be written, whatever the bits are.
std::size_t safe_turns(const HuffmanTable::Four& four) noexcept {
    auto turns = static_cast<std::size_t>(four[3].end - four[3].to) / between_refills;
    for (const HuffmanStream& stream : four) {
        const std::ptrdiff_t back = stream.at - stream.begin + 2 * readable_before;
        turns = std::min(turns, back < 0 ? 0 : static_cast<std::size_t>(back / most_back));
    }
    return turns;
}

template <typename Each> HEADRACE_INLINE void five_times(Each&& each) noexcept {
    each.template operator()<0>();
    each.template operator()<1>();
    each.template operator()<2>();
    each.template operator()<3>();
    each.template operator()<4>();
}

template <int number, typename... Streams>
HEADRACE_INLINE void decode_each(const Code code, Streams&... streams) noexcept {
    (decode<number>(streams, code), ...);
}

HEADRACE_INLINE void end_turn(HuffmanStream& stream) noexcept {
    stream.to += between_refills;
    refill(stream);
}

template <typename... Streams> HEADRACE_INLINE void end_turn_of_each(Streams&... streams) noexcept {
    (end_turn(streams), ...);
}

// Symbols of several streams, interleaved: the lookup of one symbol hides the wait for another one's.
HEADRACE_INLINE void turns_of_four(HuffmanTable::Four& four, std::size_t turns, const Code code) noexcept {
    HuffmanStream a = four[0], b = four[1], c = four[2], d = four[3]; // in registers
    for (; turns != 0; --turns) {
        five_times([&]<int number>() HEADRACE_INLINE_LAMBDA { decode_each<number>(code, a, b, c, d); });
        end_turn_of_each(a, b, c, d);
    }
    four = {a, b, c, d};
}

HEADRACE_INLINE void turns_of_eight(HuffmanTable::Four& four, const Code code, HuffmanTable::Four& other,
                                    const Code other_code, std::size_t turns) noexcept {
    HuffmanStream a = four[0], b = four[1], c = four[2], d = four[3]; // in registers
    HuffmanStream e = other[0], f = other[1], g = other[2], h = other[3];
    for (; turns != 0; --turns) {
        five_times([&]<int number>() HEADRACE_INLINE_LAMBDA {
            decode_each<number>(code, a, b, c, d);
            decode_each<number>(other_code, e, f, g, h);
        });
        end_turn_of_each(a, b, c, d);
        end_turn_of_each(e, f, g, h);
    }
    four = {a, b, c, d};
    other = {e, f, g, h};
}

void four_plain(HuffmanTable::Four& four, std::size_t turns, const Code code) noexcept {
    turns_of_four(four, turns, code);
}

HEADRACE_INLINE bool all_eight(HuffmanTable::Four& four, const Code code, HuffmanTable::Four& other,
                               const Code other_code) noexcept {
    const std::size_t turns = std::min(safe_turns(four), safe_turns(other));
    if (turns != 0) turns_of_eight(four, code, other, other_code, turns);
    return turns != 0;
}

// Whether anything was decoded: only then another call may decode more.
bool eight_plain(HuffmanTable::Four& four, const Code code, HuffmanTable::Four& other, const Code other_code) noexcept {
    return all_eight(four, code, other, other_code);
}

#ifdef HEADRACE_X86

HEADRACE_FOR_BMI2 void four_bmi2(HuffmanTable::Four& four, std::size_t turns, const Code code) noexcept {
    turns_of_four(four, turns, code);
}

// Eight pointers to outputs would push the streams out of the registers. So the symbols go to lanes behind one pointer
// first. They are written from back to front, each as a whole cell: the next symbol overwrites the length of its code,
// which saves the shift. Four instructions remain for a symbol; compilers then keep all eight words in registers.
constexpr std::size_t lane_count = 8;
constexpr std::size_t lane_size = 1088; // no multiple of the size of a page

template <typename Each, std::size_t... lane>
HEADRACE_INLINE void for_each_lane(Each&& each, std::index_sequence<lane...> /*lanes*/) noexcept {
    (each.template operator()<lane>(), ...);
}

#define HEADRACE_FOR_AVX2 __attribute__((target("bmi,bmi2,lzcnt,avx2")))

HEADRACE_FOR_AVX2 void copy_reversed(std::byte* to, const std::byte* from_end, std::size_t size) noexcept {
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    constexpr std::size_t width = sizeof order;
    for (; size >= width; size -= width, to += width) {
        from_end -= width;
        const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from_end));
        constexpr int swap_halves = 0x4E;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                            _mm256_permute4x64_epi64(_mm256_shuffle_epi8(bytes, order), swap_halves));
    }
    for (; size != 0; --size) *to++ = *--from_end;
}

HEADRACE_FOR_AVX2 bool eight_avx2(HuffmanTable::Four& four, const Code code, HuffmanTable::Four& other,
                                  const Code other_code) noexcept {
    if (code.shift != other_code.shift) return all_eight(four, code, other, other_code);
    constexpr auto lanes = std::make_index_sequence<lane_count>();
    const auto stream_of = [&](std::size_t lane) HEADRACE_INLINE_LAMBDA -> HuffmanStream& {
        return lane < 4 ? four[lane] : other[lane - 4];
    };
    std::array<std::uint64_t, lane_count> bits;
    std::array<const std::byte*, lane_count> at;
    for_each_lane(
        [&]<std::size_t lane>() HEADRACE_INLINE_LAMBDA {
            bits[lane] = stream_of(lane).bits;
            at[lane] = stream_of(lane).at;
        },
        lanes);
    const std::uint64_t shift = code.shift;
    // As in `safe_turns`, but by the length of the longest code.
    const auto safe_turns_here = [&] {
        std::ptrdiff_t least = at[0] - four[0].begin;
        for (std::size_t lane = 1; lane < lane_count; ++lane) least = std::min(least, at[lane] - stream_of(lane).begin);
        constexpr std::ptrdiff_t most_used = 7; // bits of a word after `refill`
        const std::ptrdiff_t left = (least + readable_before) * 8 - most_used;
        return left < 0 ? 0 : static_cast<std::size_t>(left) / (between_refills * (64 - shift));
    };
    std::array<std::byte, lane_count * lane_size + 1> decoded;
    std::byte* const first = decoded.data() + lane_size;
    std::byte* to = first;
    std::size_t room = std::min({lane_size, static_cast<std::size_t>(four[3].end - four[3].to),
                                 static_cast<std::size_t>(other[3].end - other[3].to)}) /
                       between_refills;
    while (std::size_t turns = std::min(room, safe_turns_here())) {
        room -= turns;
        for (; turns != 0; --turns, to -= between_refills) {
            five_times([&]<int number>() HEADRACE_INLINE_LAMBDA {
                for_each_lane(
                    [&]<std::size_t lane>() HEADRACE_INLINE_LAMBDA {
                        const std::uint16_t cell = (lane < 4 ? code : other_code).cells[bits[lane] >> shift];
                        std::memcpy(to + lane * lane_size - number - 1, &cell, sizeof cell);
                        bits[lane] <<= cell & 63;
                    },
                    lanes);
            });
            asm("" : "+m"(at)); // stays in memory: the registers are for `bits`
            for_each_lane(
                [&]<std::size_t lane>() HEADRACE_INLINE_LAMBDA {
                    const auto used = static_cast<unsigned>(std::countr_zero(bits[lane]));
                    at[lane] -= used >> 3;
                    bits[lane] = (load_le<std::uint64_t>(at[lane]) | 1) << (used & 7);
                },
                lanes);
        }
    }
    const auto size = static_cast<std::size_t>(first - to);
    for_each_lane(
        [&]<std::size_t lane>() HEADRACE_INLINE_LAMBDA {
            HuffmanStream& stream = stream_of(lane);
            stream.bits = bits[lane];
            stream.at = at[lane];
            copy_reversed(stream.to, first + lane * lane_size + 1, size);
            stream.to += size;
        },
        lanes);
    return size != 0;
}

#endif

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

bool HuffmanTable::decode_four(Four& four, [[maybe_unused]] const Cpu& cpu) const noexcept {
    const Code code{cells_.data(), 64 - log_};
    auto* decode = &four_plain;
#ifdef HEADRACE_X86
    if (cpu.bmi2) decode = &four_bmi2;
#endif
    while (const std::size_t turns = safe_turns(four)) decode(four, turns, code);
    return std::all_of(four.begin(), four.end(),
                       [&](const HuffmanStream& stream) { return decode_rest(stream, code); });
}

void HuffmanTable::decode_eight(const HuffmanTable& table, Four& four, const HuffmanTable& other_table, Four& other,
                                [[maybe_unused]] const Cpu& cpu) noexcept {
    const Code code{table.cells_.data(), 64 - table.log_}, other_code{other_table.cells_.data(), 64 - other_table.log_};
    auto* decode = &eight_plain;
#ifdef HEADRACE_X86
    if (cpu.bmi2 && cpu.avx2) decode = &eight_avx2;
#endif
    while (decode(four, code, other, other_code)) {}
}

} // namespace headrace::zstd
