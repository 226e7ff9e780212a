#include "core/protobuf/varints.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/protobuf/short_varints.hpp"

#if defined(HEADRACE_X86)
#include <immintrin.h>
#endif

namespace headrace::proto {
namespace {

constexpr std::size_t word = sizeof(std::uint64_t);
constexpr std::size_t longest = 10; // bytes of a varint

std::uint64_t number_at(const std::byte* numbers, std::size_t i) { return load_le<std::uint64_t>(numbers + i * word); }

std::size_t count_plain(Bytes run) {
    std::size_t count = 0;
    for (const std::byte byte : run) count += std::to_integer<unsigned>(byte) < 0x80;
    return count;
}

/// Widens one-byte varints; false if one of them is longer.
bool widen_plain(Bytes run, std::byte* to) {
    unsigned seen = 0;
    for (std::size_t i = 0; i < run.size(); ++i) {
        const auto byte = std::to_integer<unsigned>(run[i]);
        store_le<std::uint64_t>(to + i * word, byte);
        seen |= byte;
    }
    return seen < 0x80;
}

std::size_t decode_plain(Bytes run, std::byte* to, std::size_t room) {
    try {
        Cursor cursor(run);
        std::size_t count = 0;
        for (; !cursor.done(); ++count) {
            if (count == room) return irregular;
            store_le<std::uint64_t>(to + count * word, cursor.varint());
        }
        return count;
    } catch (const FormatError&) {
        return irregular;
    }
}

std::size_t size_plain(const std::byte* numbers, std::size_t count) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < count; ++i) size += varint_size(number_at(numbers, i));
    return size;
}

std::byte* write_plain(std::byte* to, const std::byte* numbers, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to = write_varint_in_room(to, number_at(numbers, i));
    return to;
}

#if defined(HEADRACE_X86)

#define HEADRACE_PEXT __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define HEADRACE_PEXT_INLINE __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt"), always_inline)) inline

constexpr std::uint64_t sevens = 0x7F7F7F7F7F7F7F7F; // the payload bits of eight bytes
constexpr std::uint64_t marks = 0x8080808080808080;  // their marks, set unless a varint ends
constexpr std::size_t window = 64;                   // bytes whose marks are read at once

HEADRACE_PEXT_INLINE __m256i get(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

/// One bit for each byte of a window; 1: it ends a varint.
HEADRACE_PEXT_INLINE std::uint64_t ends_in(const std::byte* from) {
    const auto low = static_cast<std::uint32_t>(_mm256_movemask_epi8(get(from)));
    const std::uint64_t high = static_cast<std::uint32_t>(_mm256_movemask_epi8(get(from + window / 2)));
    return ~(high << 32 | low);
}

HEADRACE_PEXT std::size_t count_pext(Bytes run) {
    std::size_t count = 0, at = 0;
    for (; at + window <= run.size(); at += window)
        count += static_cast<std::size_t>(_mm_popcnt_u64(ends_in(run.data() + at)));
    for (; at != run.size(); ++at) count += std::to_integer<unsigned>(run[at]) < 0x80;
    return count;
}

/// The first eight bytes from `at` on; past the end, zeros. The run has at least eight bytes.
HEADRACE_PEXT_INLINE std::uint64_t word_at(const std::byte* at, const std::byte* end) {
    if (end - at >= static_cast<std::ptrdiff_t>(word)) return load_le<std::uint64_t>(at);
    return load_le<std::uint64_t>(end - word) >> 8 * (word - static_cast<std::size_t>(end - at));
}

/// The varint of `size` bytes at `at`; `bytes` are its first eight.
HEADRACE_PEXT_INLINE std::uint64_t value_of(const std::byte* at, std::uint64_t bytes, std::size_t size) {
    if (size <= word) [[likely]]
        return _pext_u64(_bzhi_u64(bytes, static_cast<unsigned>(8 * size)), sevens);
    std::uint64_t value = _pext_u64(bytes, sevens) | (std::to_integer<std::uint64_t>(at[8]) & 0x7F) << 56;
    if (size == longest) value |= std::to_integer<std::uint64_t>(at[9]) << 63;
    return value;
}

/// A run of fewer than eight bytes.
HEADRACE_PEXT_INLINE std::size_t decode_short(Bytes run, std::byte* to, std::size_t room) {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < run.size(); ++i) bytes |= std::to_integer<std::uint64_t>(run[i]) << 8 * i;
    std::uint64_t ends = _bzhi_u64(~bytes & marks, static_cast<unsigned>(8 * run.size()));
    if (!run.empty() && std::to_integer<unsigned>(run.back()) >= 0x80) return irregular;
    const auto count = static_cast<std::size_t>(_mm_popcnt_u64(ends));
    if (count > room) return irregular;
    for (; ends != 0; to += word) {
        const std::uint64_t through = _blsmsk_u64(ends); // up to the end of the first varint
        store_le(to, _pext_u64(bytes & through, sevens));
        const auto shift = static_cast<unsigned>(64 - _lzcnt_u64(through));
        bytes >>= shift;
        ends = _blsr_u64(ends) >> shift;
    }
    return count;
}

/// Decodes `count` varints of at most eight bytes. `ends` has a bit for the last byte of each, from `start` on. Every
/// place is known before any varint is decoded, so many are decoded at once.
template <std::size_t count>
HEADRACE_PEXT_INLINE const std::byte* decode_many(const std::byte* start, std::uint64_t ends, std::byte* to) {
    const std::byte* at = start;
    for (std::size_t i = 0; i < count; ++i, ends = _blsr_u64(ends)) {
        const auto bytes = load_le<std::uint64_t>(at);
        const std::uint64_t through = _blsmsk_u64(~bytes & marks); // up to the end of the first varint
        store_le(to + i * word, _pext_u64(bytes & through, sevens));
        at = start + _tzcnt_u64(ends) + 1;
    }
    return at;
}

/// Whether eight bytes in a row end no varint.
HEADRACE_PEXT_INLINE bool has_long(std::uint64_t ends) {
    std::uint64_t inside = ~ends;
    inside &= inside >> 1;
    inside &= inside >> 2;
    inside &= inside >> 4;
    return inside != 0;
}

HEADRACE_PEXT_INLINE void widen(const std::byte* from, std::byte* to) {
    for (std::size_t i = 0; i < window; i += 4)
        _mm256_storeu_si256(
            reinterpret_cast<__m256i*>(to + i * word),
            _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(static_cast<int>(load_le<std::uint32_t>(from + i)))));
}

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // GCC 12 has this complaint about its own header.
#endif

#define HEADRACE_VBMI_TARGET "avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2"
#define HEADRACE_VBMI __attribute__((target(HEADRACE_VBMI_TARGET)))
#define HEADRACE_VBMI_INLINE __attribute__((target(HEADRACE_VBMI_TARGET), always_inline)) inline

/// The constants of `decode_windows`.
struct ByteOrders {
    std::array<std::uint8_t, window> each{};   ///< 0, 1, 2, ...
    std::array<std::uint8_t, window> fourth{}; ///< four of each
    std::array<std::uint8_t, window> eighth{}; ///< eight of each

    constexpr ByteOrders() {
        for (std::size_t i = 0; i < window; ++i) {
            each.at(i) = static_cast<std::uint8_t>(i);
            fourth.at(i) = static_cast<std::uint8_t>(i / 4);
            eighth.at(i) = static_cast<std::uint8_t>(i / 8);
        }
    }
};
constexpr ByteOrders byte_orders;

/// The varints of up to `most` bytes (4, 8 or 10) that start within a window, each in a lane of four or eight bytes.
/// `starts` are their places, `lanes` the numbers of those that are wanted.
template <std::size_t most> HEADRACE_VBMI_INLINE __m512i values_of(__m512i bytes, __m512i starts, __m512i lanes) {
    const __m512i mark = _mm512_set1_epi8(static_cast<char>(0x80)), ones = _mm512_set1_epi8(-1);
    const __m512i within = most == 4 ? _mm512_set1_epi32(0x03020100) : _mm512_set1_epi64(0x0706050403020100);
    const __m512i begin = _mm512_permutexvar_epi8(lanes, starts);
    const __m512i moved = _mm512_permutexvar_epi8(_mm512_add_epi8(begin, within), bytes); // places past the window: any
    const __m512i stops = _mm512_andnot_si512(moved, mark);
    const __m512i below = most == 4 ? _mm512_add_epi32(stops, ones) : _mm512_add_epi64(stops, ones);
    constexpr int through = 0xF0 & ~0xCC & 0xAA; // the bits of `moved` up to the first stop
    const __m512i sevens_of =
        _mm512_and_si512(_mm512_ternarylogic_epi64(moved, stops, below, through), _mm512_set1_epi8(0x7F));
    const __m512i pairs = _mm512_maddubs_epi16(_mm512_set1_epi16(static_cast<short>(0x8001)), sevens_of);
    const __m512i fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x40000001)); // low + high * 2^14
    if constexpr (most == 4) return fours;
    constexpr int select = (0xF0 & 0xAA) | (0xCC & ~0xAA);
    const __m512i value =
        _mm512_ternarylogic_epi64(fours, _mm512_srli_epi64(fours, 4), _mm512_set1_epi64(0xFFFFFFF), select);
    if constexpr (most == 8) return value;
    const __m512i more =
        _mm512_permutexvar_epi8(_mm512_add_epi8(begin, _mm512_set1_epi64(0x0908)), bytes); // the ninth and tenth byte
    const __mmask8 has_ninth = _mm512_testn_epi64_mask(stops, stops);
    const __mmask8 has_tenth = _mm512_mask_test_epi64_mask(has_ninth, more, _mm512_set1_epi64(0x80));
    const __m512i top = _mm512_and_si512(_mm512_slli_epi64(more, 55), _mm512_set1_epi64(INT64_MIN));
    const __m512i nine = _mm512_mask_or_epi64(value, has_ninth, value,
                                              _mm512_slli_epi64(_mm512_and_si512(more, _mm512_set1_epi64(0x7F)), 56));
    return _mm512_mask_or_epi64(nine, has_tenth, nine, top);
}

/// Writes numbers from number `i` on to a column with room for `room`: those up to `count`, or all if none can be too
/// many.
HEADRACE_VBMI_INLINE void put_eight(__m512i eight, std::size_t i, std::size_t count, std::byte* to, std::size_t room) {
    if (room >= window) [[likely]] {
        _mm512_storeu_si512(to + i * word, eight);
    } else if (i < count) {
        const auto wanted = static_cast<__mmask8>(_bzhi_u32(0xFF, static_cast<unsigned>(count - i)));
        _mm512_mask_storeu_epi64(to + i * word, wanted, eight);
    }
}

/// A run that is read part by part.
struct WindowReader {
    const std::byte* at;
    const std::byte* end;
    std::byte* to;
    std::size_t room;        ///< Numbers that may be written to `to`.
    std::uint64_t first = 1; ///< Whether a varint starts at `at`.

    /// Decodes the varints of up to `most` bytes that start in the first bytes of a window, of which `marked` are
    /// marked. False if there are too many.
    template <std::size_t most> HEADRACE_VBMI_INLINE bool read(__m512i bytes, std::uint64_t marked) {
        const std::size_t part = std::min(static_cast<std::size_t>(end - at), window - most + 1);
        const std::uint64_t starts = _bzhi_u64(~marked << 1 | first, static_cast<unsigned>(part));
        const auto count = static_cast<std::size_t>(_mm_popcnt_u64(starts));
        if (count > room) return false;
        const __m512i places = _mm512_maskz_compress_epi8(starts, _mm512_loadu_si512(byte_orders.each.data()));
        constexpr std::size_t lanes_in = most == 4 ? 16 : 8;
        __m512i lanes = _mm512_loadu_si512(most == 4 ? byte_orders.fourth.data() : byte_orders.eighth.data());
        for (std::size_t i = 0; i < count; i += lanes_in) {
            const __m512i values = values_of<most>(bytes, places, lanes);
            lanes = _mm512_add_epi8(lanes, _mm512_set1_epi8(static_cast<char>(lanes_in)));
            if constexpr (most == 4) {
                put_eight(_mm512_cvtepu32_epi64(_mm512_castsi512_si256(values)), i, count, to, room);
                put_eight(_mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(values, 1)), i + 8, count, to, room);
            } else {
                put_eight(values, i, count, to, room);
            }
        }
        first = ~marked >> (part - 1) & 1;
        at += part;
        to += count * word;
        room -= count;
        return true;
    }

    /// Decodes varints of up to four bytes, as long as there are whole windows, and room for what they can hold. The
    /// usual case of `read`, in half as many instructions.
    HEADRACE_VBMI_INLINE void read_usual() {
        constexpr std::size_t part = window - 3, round = 16;
        if (std::cmp_less(end - at, window) || room < window) return;
        const std::byte* const last = end - window;
        const std::byte* const last_to = to + (room - window) * word;
        std::byte* const begin_to = to;
        const __m512i lanes = _mm512_loadu_si512(byte_orders.fourth.data());
        const __m512i each = _mm512_loadu_si512(byte_orders.each.data());
        while (at <= last && to <= last_to) {
            const __m512i bytes = _mm512_loadu_si512(at);
            const auto marked = static_cast<std::uint64_t>(_mm512_movepi8_mask(bytes));
            const std::uint64_t twos = marked & marked >> 1;
            if (marked == 0 || (twos & twos >> 2) != 0) break;
            const std::uint64_t starts = (~marked << 1 | first) & ((std::uint64_t{1} << part) - 1);
            const auto count = static_cast<std::size_t>(_mm_popcnt_u64(starts));
            const __m512i places = _mm512_maskz_compress_epi8(starts, each);
            put_sixteen(bytes, places, lanes, to);
            put_sixteen(bytes, places, _mm512_add_epi8(lanes, _mm512_set1_epi8(round)), to + round * word);
            if (count > 2 * round) {
                put_sixteen(bytes, places, _mm512_add_epi8(lanes, _mm512_set1_epi8(2 * round)), to + 2 * round * word);
                put_sixteen(bytes, places, _mm512_add_epi8(lanes, _mm512_set1_epi8(3 * round)), to + 3 * round * word);
            }
            first = ~marked >> (part - 1) & 1;
            at += part;
            to += count * word;
        }
        room -= static_cast<std::size_t>(to - begin_to) / word;
    }

    HEADRACE_VBMI_INLINE static void put_sixteen(__m512i bytes, __m512i places, __m512i lanes, std::byte* to) {
        const __m512i values = values_of<4>(bytes, places, lanes);
        _mm512_storeu_si512(to, _mm512_cvtepu32_epi64(_mm512_castsi512_si256(values)));
        _mm512_storeu_si512(to + window, _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(values, 1)));
    }

    /// 64 varints of one byte.
    HEADRACE_VBMI_INLINE void widen(__m512i bytes) {
        for (std::size_t i = 0; i < word; ++i) {
            const __m512i eight = _mm512_permutexvar_epi64(_mm512_set1_epi64(static_cast<std::int64_t>(i)), bytes);
            _mm512_storeu_si512(to + i * window, _mm512_cvtepu8_epi64(_mm512_castsi512_si128(eight)));
        }
        at += window;
        to += window * word;
        room -= window;
    }
};

/// Decodes the varints that start in one part of the run after the other. A part is a few bytes shorter than a window,
/// so all bytes of a varint are in the window of its part, and parts do not wait for each other: whether the first byte
/// of one starts a varint follows from the last byte of the one before. The places of all starts are compressed into
/// one vector; then the bytes of each varint are moved into a lane of their own, and the groups of seven bits are
/// joined in every lane.
HEADRACE_VBMI std::size_t decode_windows(Bytes run, std::byte* to, std::size_t room) {
    if (!run.empty() && std::to_integer<unsigned>(run.back()) >= 0x80) return irregular;
    WindowReader reader{run.data(), run.data() + run.size(), to, room};
    while (reader.at != reader.end) {
        reader.read_usual();
        const auto rest = static_cast<std::size_t>(reader.end - reader.at);
        const std::uint64_t inside = _bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(std::min(rest, window)));
        const __m512i bytes = _mm512_maskz_loadu_epi8(inside, reader.at);
        const auto marked = static_cast<std::uint64_t>(_mm512_movepi8_mask(bytes));
        // Marks of as many bytes in a row. Branches, not moves, choose the size of a part, so the next load need not
        // wait.
        const std::uint64_t twos = marked & marked >> 1, fours = twos & twos >> 2;
        bool has_room = true;
        if (fours == 0) [[likely]] {
            if (marked == 0 && reader.first != 0 && rest >= window && reader.room >= window) reader.widen(bytes);
            else has_room = reader.read<4>(bytes, marked);
        } else {
            const std::uint64_t eights = fours & fours >> 4;
            if ((eights & eights >> 2) != 0) return irregular;
            has_room = eights == 0 ? reader.read<8>(bytes, marked) : reader.read<longest>(bytes, marked);
        }
        if (!has_room) return irregular;
    }
    return room - reader.room;
}

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

HEADRACE_PEXT std::size_t decode_pext(Bytes run, std::byte* to, std::size_t room) {
    if (run.size() < word) return decode_short(run, to, room);
    const std::byte* start = run.data(); // of the next varint
    const std::byte* const end = start + run.size();
    std::size_t left = room;
    if (std::to_integer<unsigned>(run.back()) >= 0x80) return irregular;
    constexpr std::size_t after_long = 16; // windows that are read here after a long varint, since more will come
    std::size_t windows = 0;
    while (end - start >= static_cast<std::ptrdiff_t>(window + word)) {
        const std::uint64_t ends = ends_in(start);
        auto count = static_cast<std::size_t>(_mm_popcnt_u64(ends));
        if (count != window && windows++ % after_long == 0) {
            const ShortVarints found = decode_short_varints(run, start, to, left);
            if (found.count > left) return irregular;
            if (found.count != 0) {
                start = found.next, to += found.count * word, left -= found.count;
                windows = 0;
                continue;
            }
        }
        if (count == window) {
            if (count > left) return irregular;
            widen(start, to);
            start += window;
        } else if (count >= 8 && !has_long(ends)) {
            count = count >= 32 ? 32 : count >= 16 ? 16 : 8;
            if (count > left) return irregular;
            start = count == 32   ? decode_many<32>(start, ends, to)
                    : count == 16 ? decode_many<16>(start, ends, to)
                                  : decode_many<8>(start, ends, to);
        } else {
            if (count > left) return irregular;
            const std::byte* const at = start;
            std::byte* each = to;
            for (std::uint64_t rest = ends; rest != 0; rest = _blsr_u64(rest), each += word) {
                const std::byte* const next = at + _tzcnt_u64(rest) + 1;
                const auto size = static_cast<std::size_t>(next - start);
                if (size > longest) return irregular;
                store_le(each, value_of(start, load_le<std::uint64_t>(start), size));
                start = next;
            }
            if (count == 0) return irregular;
        }
        to += count * word;
        left -= count;
    }
    if (run.size() >= short_varints_least) {
        const ShortVarints found = decode_short_varints(run, start, to, left);
        if (found.count > left) return irregular;
        start = found.next, to += found.count * word, left -= found.count;
    }
    const std::byte* at = start; // of the next marks
    while (at != end) {
        const auto rest = static_cast<std::size_t>(end - at);
        std::uint64_t ends = ~word_at(at, end) & marks;
        if (rest < word) ends = _bzhi_u64(ends, static_cast<unsigned>(8 * rest));
        const auto count = static_cast<std::size_t>(_mm_popcnt_u64(ends));
        if (count > left) return irregular;
        left -= count;
        for (; ends != 0; ends = _blsr_u64(ends), to += word) {
            const std::byte* const next = at + _tzcnt_u64(ends) / 8 + 1;
            const auto size = static_cast<std::size_t>(next - start);
            if (size > longest) return irregular;
            store_le(to, value_of(start, word_at(start, end), size));
            start = next;
        }
        at += std::min(rest, word);
    }
    return start == end ? room - left : irregular;
}

/// Without a fast PEXT.
std::size_t decode_avx2(Bytes run, std::byte* to, std::size_t room) {
    if (std::to_integer<unsigned>(run.back()) >= 0x80) return irregular;
    const ShortVarints found = decode_short_varints(run, run.data(), to, room);
    if (found.count > room) return irregular;
    const Bytes left = run.subspan(static_cast<std::size_t>(found.next - run.data()));
    const std::size_t rest = decode_plain(left, to + found.count * word, room - found.count);
    return rest == irregular ? irregular : found.count + rest;
}

HEADRACE_PEXT std::size_t size_pext(const std::byte* numbers, std::size_t count) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i more = zero; // minus the bytes after the first, in four lanes
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const std::byte* const at = numbers + i * word;
        const __m256i first = get(at), second = get(at + window / 2);
        for (int shift = 7; shift < 64; shift += 7) {
            const __m128i by = _mm_cvtsi32_si128(shift);
            const __m256i one = _mm256_srl_epi64(first, by), two = _mm256_srl_epi64(second, by);
            const __m256i rest = _mm256_or_si256(one, two);
            if (_mm256_testz_si256(rest, rest) != 0) break;
            more = _mm256_add_epi64(more, _mm256_set1_epi64x(2)); // one for each number, unless it is zero
            more =
                _mm256_add_epi64(more, _mm256_add_epi64(_mm256_cmpeq_epi64(one, zero), _mm256_cmpeq_epi64(two, zero)));
        }
    }
    std::uint64_t lanes[4];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), more);
    return i + lanes[0] + lanes[1] + lanes[2] + lanes[3] + size_plain(numbers + i * word, count - i);
}

/// The low bytes of eight numbers.
HEADRACE_PEXT_INLINE std::uint64_t low_bytes(__m256i first, __m256i second) {
    const auto none = static_cast<char>(-1);
    const __m256i place_first =
        _mm256_setr_epi8(0, 8, none, none, none, none, none, none, none, none, none, none, none, none, none, none, none,
                         none, 0, 8, none, none, none, none, none, none, none, none, none, none, none, none);
    const __m256i place_second = _mm256_slli_epi64(place_first, 32);
    const __m256i fill = _mm256_set1_epi64x(0x00000000FFFFFFFF); // the bytes that the shift cleared
    const __m256i packed = _mm256_or_si256(_mm256_shuffle_epi8(first, place_first),
                                           _mm256_shuffle_epi8(second, _mm256_or_si256(place_second, fill)));
    const __m128i joined = _mm_or_si128(_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1));
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(joined));
}

HEADRACE_PEXT_INLINE std::byte* write_one(std::byte* to, std::uint64_t value) {
    if (value >= std::uint64_t{1} << 56) [[unlikely]]
        return write_varint(to, value);
    const auto more = (70 - static_cast<std::size_t>(_lzcnt_u64(value | 1))) / 7 - 1; // bytes after the first
    store_le(to, _pdep_u64(value, sevens) | _bzhi_u64(marks, static_cast<unsigned>(8 * more)));
    return to + more + 1;
}

HEADRACE_PEXT std::byte* write_pext(std::byte* to, const std::byte* numbers, std::size_t count) {
    const __m256i longer = _mm256_set1_epi64x(~std::int64_t{0x7F});
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const std::byte* const at = numbers + i * word;
        const __m256i first = get(at), second = get(at + window / 2);
        if (_mm256_testz_si256(_mm256_or_si256(first, second), longer) != 0) {
            store_le(to, low_bytes(first, second));
            to += 8;
        } else {
            for (std::size_t k = 0; k < 8; ++k) to = write_one(to, number_at(numbers, i + k));
        }
    }
    for (; i != count; ++i) to = write_one(to, number_at(numbers, i));
    return to;
}

#endif

} // namespace

std::size_t count_varints(Bytes run, [[maybe_unused]] const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    if (cpu.pext) return count_pext(run);
#endif
    return count_plain(run);
}

std::size_t decode_varints(Bytes run, std::byte* to, std::size_t room, [[maybe_unused]] const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    if (cpu.vbmi && cpu.pext && run.size() >= word) return decode_windows(run, to, room);
    if (cpu.pext) return decode_pext(run, to, room);
    if (cpu.avx2 && cpu.bmi2 && run.size() >= short_varints_least) return decode_avx2(run, to, room);
#endif
    if (run.size() == room && widen_plain(run, to)) return room;
    return decode_plain(run, to, room);
}

std::size_t varints_size(const std::byte* numbers, std::size_t count, [[maybe_unused]] const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    if (cpu.pext) return size_pext(numbers, count);
#endif
    return size_plain(numbers, count);
}

std::byte* write_varints(std::byte* to, const std::byte* end, const std::byte* room, const std::byte* numbers,
                         std::size_t count, [[maybe_unused]] const Cpu& cpu) {
    if (count * longest > static_cast<std::size_t>(room - to)) // near the end of the block
        return write_measured<write_varint>(to, end, room, 0, count,
                                            [numbers](std::size_t i) { return number_at(numbers, i); });
#if defined(HEADRACE_X86)
    to = cpu.pext ? write_pext(to, numbers, count) : write_plain(to, numbers, count);
#else
    to = write_plain(to, numbers, count);
#endif
    if (to != end) throw FormatError(Fault::changed, 0);
    return to;
}

} // namespace headrace::proto
