#include "core/engines/jpeg/progressive.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#ifdef HEADRACE_X86
#include <immintrin.h>
#endif

namespace headrace::jpeg {
namespace {

constexpr std::size_t most_scans = 100; // the library's own has 10; each may walk over the whole image
constexpr std::size_t kept_blocks = std::size_t{1} << 15;

std::size_t ceiling(std::size_t value, std::size_t by) { return (value + by - 1) / by; }

/// `size` bits as a coefficient: one that begins with 0 is that of a negative number, less by all ones.
HEADRACE_INLINE std::int32_t extended(std::uint64_t bits, unsigned size) noexcept {
    const auto ones = static_cast<std::int32_t>((1U << size) - 1);
    const auto is_negative = static_cast<std::int32_t>(static_cast<std::int64_t>(~bits) >> 63);
    return static_cast<std::int32_t>(bits >> 1 >> (63 - size)) - (is_negative & ones);
}

/// Takes the next code and what follows it.
struct Code {
    unsigned run = 0;
    unsigned size = 0;
    std::uint64_t behind = 0; ///< The bits behind the code, the first one uppermost.
    bool is_one = false;
    [[nodiscard]] HEADRACE_INLINE bool ends() const noexcept {
        return size == 0 && run != 15;
    } ///< This block and others.
};

HEADRACE_INLINE Code take_code(const ScanTable& table, Bits& bits) noexcept {
    const std::uint32_t entry = table.next(bits.next);
    Code code{entry >> 20, entry >> 16 & 15, bits.next << (entry >> 8 & 31), entry != 0};
    bits.drop(entry);
    return code;
}

/// The number of blocks that a code of size 0 ends, this one included.
HEADRACE_INLINE std::size_t take_run(unsigned run, Bits& bits) noexcept {
    const std::size_t blocks = (std::size_t{1} << run) | static_cast<std::size_t>(bits.next >> 1 >> (63 - run));
    bits.drop(run);
    return blocks;
}

/// Places of the zigzag order as bits, the first one uppermost.
HEADRACE_INLINE std::uint64_t bit_of(std::size_t place) noexcept { return std::uint64_t{1} << 63 >> place; }
HEADRACE_INLINE std::uint64_t from_on(std::size_t place) noexcept {
    return place > 63 ? 0 : ~std::uint64_t{0} >> place;
}
HEADRACE_INLINE std::size_t place_of(std::uint64_t places) noexcept {
    return static_cast<std::size_t>(std::countl_zero(places));
}

/// The band of coefficients of a scan, in one plane.
struct Band {
    const ScanTable& table;
    unsigned first, last, low;
    [[nodiscard]] HEADRACE_INLINE std::uint64_t places() const noexcept { return from_on(first) & ~from_on(last + 1); }
};

/// Reads the first bits of a band in one block. Returns how many blocks the last code ends, 0 for a fault.
HEADRACE_INLINE std::size_t read_band(const Band& band, Bits& bits, std::int16_t* block,
                                      std::uint64_t& places) noexcept {
    std::uint64_t found = 0;
    unsigned k = band.first;
    while (true) {
        bits.refill(); // A code and its magnitude take at most 26 bits, the length of a run 14.
        const Code code = take_code(band.table, bits);
        if (!code.is_one) [[unlikely]]
            return 0;
        k += code.run;
        if (code.size == 0) {
            if (code.run != 15) {
                places |= found;
                return take_run(code.run, bits);
            }
        } else {
            if (k > band.last) return 0;
            const auto value = static_cast<std::uint32_t>(extended(code.behind, code.size)) << band.low;
            block[zigzag[k]] = static_cast<std::int16_t>(value);
            found |= bit_of(k);
        }
        if (++k > band.last) {
            places |= found;
            return k == band.last + 1 ? 1 : 0;
        }
    }
}

/// Adds the bit `low` to a coefficient, away from zero.
HEADRACE_INLINE void grow(std::int16_t& number, std::uint32_t bit, unsigned low) noexcept {
    const auto sign = static_cast<std::uint32_t>(number >> 15);
    number = static_cast<std::int16_t>(static_cast<std::uint32_t>(number) + (((bit << low) ^ sign) - sign));
}

/// A coefficient that begins in a scan of one more bit.
HEADRACE_INLINE std::int16_t new_number(std::uint64_t behind_code, unsigned low) noexcept {
    return static_cast<std::int16_t>((behind_code >> 63 != 0 ? 1 : -1) * (1 << low));
}

/// Reads one more bit of each of these coefficients.
inline void refine(std::uint64_t places, unsigned low, Bits& bits, std::int16_t* block) noexcept {
    for (; places != 0; places &= ~bit_of(place_of(places))) {
        bits.refill();
        grow(block[zigzag[place_of(places)]], static_cast<std::uint32_t>(bits.next >> 63), low);
        bits.drop(1);
    }
}

/// Reads one more bit of the coefficients of a band in one block, and the coefficients that begin with it. Returns how
/// many blocks the last code ends, 0 for a fault.
inline std::size_t refine_band(const Band& band, Bits& bits, std::int16_t* block, std::uint64_t& places) noexcept {
    const std::uint64_t before = places & band.places();
    std::uint64_t left = band.places(); // what no code has passed
    while (left != 0) {
        bits.refill();
        const Code code = take_code(band.table, bits);
        if (!code.is_one || code.size > 1) return 0;
        if (code.ends()) {
            const std::size_t blocks = take_run(code.run, bits);
            refine(before & left, band.low, bits, block);
            return blocks;
        }
        std::uint64_t free = left & ~before;
        for (unsigned i = 0; i < code.run && free != 0; ++i) free &= ~bit_of(place_of(free));
        if (free == 0) return 0; // A run went past the end.
        const std::size_t place = place_of(free);
        refine(before & left & ~from_on(place), band.low, bits, block);
        left &= from_on(place + 1);
        if (code.size == 0) continue;
        block[zigzag[place]] = new_number(code.behind, band.low);
        places |= bit_of(place);
    }
    return 1;
}

/// The blocks of a scan of one more bit, one after the other.
struct PlainRefiner {
    static std::size_t band(const Band& band, Bits& bits, std::int16_t* block, std::uint64_t& places) noexcept {
        return refine_band(band, bits, block, places);
    }
    static void rest(const Band& band, Bits& bits, std::int16_t* block, std::uint64_t places) noexcept {
        refine(places & band.places(), band.low, bits, block);
    }
};

#ifdef HEADRACE_X86
#define HEADRACE_PDEP __attribute__((target("bmi,bmi2,lzcnt,popcnt")))
#define HEADRACE_PDEP_INLINE __attribute__((target("bmi,bmi2,lzcnt,popcnt"), always_inline)) inline

/// The places among these whose bit is 1. The first bit is that of the first place, the uppermost.
HEADRACE_PDEP_INLINE std::uint64_t take_bits(std::uint64_t places, Bits& bits) noexcept {
    bits.refill();
    auto count = static_cast<unsigned>(_mm_popcnt_u64(places));
    std::uint64_t found = 0;
    if (count > 56) [[unlikely]] {
        const std::uint64_t upper = _pdep_u64(~std::uint64_t{0} << (count - 32), places);
        found = _pdep_u64(bits.next >> 32, upper);
        bits.drop(32);
        bits.refill();
        places &= ~upper;
        count -= 32;
    }
    found |= _pdep_u64(bits.next >> 1 >> (63 - count), places);
    bits.drop(count);
    return found;
}

HEADRACE_PDEP_INLINE void grow_all(std::uint64_t places, unsigned low, std::int16_t* block) noexcept {
    for (; places != 0; places = _blsr_u64(places)) grow(block[zigzag[63 - _tzcnt_u64(places)]], 1, low);
}

/// The same without a branch for each coefficient, because no processor foresees those.
struct FastRefiner {
    HEADRACE_PDEP static std::size_t band(const Band& given, Bits& at, std::int16_t* block,
                                          std::uint64_t& all_places) noexcept {
        const Band band = given;
        Bits bits = at; // A copy may stay in registers.
        std::uint64_t places = all_places;
        std::uint64_t left = band.places();
        const std::uint64_t before = places & left;
        std::uint64_t grown = 0;
        std::size_t blocks = 1;
        while (left != 0) {
            bits.refill();
            const Code code = take_code(band.table, bits);
            if (!code.is_one || code.size > 1) [[unlikely]]
                return 0;
            if (code.ends()) {
                blocks = take_run(code.run, bits);
                grown |= take_bits(before & left, bits);
                break;
            }
            const std::uint64_t free = left & ~before;
            const auto count = static_cast<unsigned>(_mm_popcnt_u64(free));
            if (code.run >= count) [[unlikely]]
                return 0;
            const std::uint64_t place = _pdep_u64(std::uint64_t{1} << (count - 1 - code.run), free);
            grown |= take_bits(before & left & ~(place | (place - 1)), bits);
            left &= place - 1;
            if (code.size == 0) continue;
            block[zigzag[_lzcnt_u64(place)]] = new_number(code.behind, band.low);
            places |= place;
        }
        at = bits;
        all_places = places;
        grow_all(grown, band.low, block);
        return blocks;
    }
    HEADRACE_PDEP static void rest(const Band& band, Bits& bits, std::int16_t* block, std::uint64_t places) noexcept {
        grow_all(take_bits(places & band.places(), bits), band.low, block);
    }
};
#endif

} // namespace

void ScanTable::build(const Codes& codes) noexcept {
    symbols_ = codes.symbols;
    entries_.fill(0);
    std::uint32_t code = 0;
    std::int32_t place = 0;
    for (unsigned length = 1; length <= 16; ++length, code <<= 1) {
        offsets_[length] = place - static_cast<std::int32_t>(code);
        for (unsigned i = 0; i < codes.counts[length - 1]; ++i, ++code, ++place) {
            if (length > table_bits) continue;
            const std::uint32_t symbol = symbols_[static_cast<std::size_t>(place)];
            const unsigned free_bits = table_bits - length;
            std::fill_n(entries_.data() + (std::size_t{code} << free_bits), std::size_t{1} << free_bits,
                        symbol << 16 | length << 8 | (length + (symbol & 15)));
        }
        limits_[length] = code << (16 - length);
    }
}

std::uint32_t ScanTable::longer(std::uint64_t bits) const noexcept {
    const auto next = static_cast<unsigned>(bits >> 48);
    for (unsigned length = table_bits + 1; length <= 16; ++length) {
        if (next >= limits_[length]) continue;
        const std::int32_t place = static_cast<std::int32_t>(next >> (16 - length)) + offsets_[length];
        const std::uint32_t symbol = symbols_[static_cast<std::size_t>(place) & 255];
        return symbol << 16 | length << 8 | (length + (symbol & 15));
    }
    return 0;
}

bool ProgressiveReader::read(Bytes file, const Header& first) {
    const std::size_t units_across = ceiling(first.width, 8 * std::size_t{first.components[0].across});
    const std::size_t units_down = ceiling(first.height, 8 * std::size_t{first.components[0].down});
    if (units_across * units_down > file.size() * 8) return false; // Every unit takes a bit.
    prepare(first);
    Header header = first;
    for (std::size_t scans = 0; scans < most_scans; ++scans) {
        if (!follows(header.scan)) return false;
        const std::size_t size = stretches_.fill(file.subspan(header.scan.begin));
        if (size == 0 || !read_scan(header)) return false;
        switch (next_scan(file, header.scan.begin + size, header)) {
        case Next::scan: continue;
        case Next::end: return is_complete(header.channels);
        case Next::fault: return false;
        }
    }
    return false;
}

void ProgressiveReader::shrink() noexcept {
    if (stretches_.bytes.capacity() > kept_blocks * 64) stretches_ = Stretches{};
    for (CoefficientPlane& plane : planes_) {
        if (plane.places.capacity() > kept_blocks) plane = CoefficientPlane{};
    }
}

void ProgressiveReader::prepare(const Header& header) {
    const std::size_t across = header.components[0].across, down = header.components[0].down;
    units_across_ = ceiling(header.width, 8 * across);
    units_down_ = ceiling(header.height, 8 * down);
    for (std::size_t i = 0; i < header.channels; ++i) {
        const Component& component = header.components[i];
        CoefficientPlane& plane = planes_[i];
        plane.stride = units_across_ * component.across;
        plane.across = ceiling(std::size_t{header.width} * component.across, across * 8);
        plane.down = ceiling(std::size_t{header.height} * component.down, down * 8);
        const std::size_t blocks = plane.stride * units_down_ * component.down;
        plane.places.assign(blocks, 0);
        plane.blocks.assign(blocks, {});
        lows_[i].fill(-1);
    }
}

/// Whether a scan refines what the ones before it left, as the library wants.
bool ProgressiveReader::follows(const Scan& scan) noexcept {
    for (std::size_t i = 0; i < scan.count; ++i) {
        auto& lows = lows_[scan.planes[i]];
        if (scan.first != 0 && lows[0] < 0) return false;
        for (unsigned k = scan.first; k <= scan.last; ++k) {
            if (std::cmp_not_equal(scan.high, std::max<int>(lows[k], 0))) return false;
            if (scan.high == 0 && lows[k] == 0) return false; // It came before.
            lows[k] = static_cast<std::int8_t>(scan.low);
        }
    }
    return true;
}

bool ProgressiveReader::is_complete(std::size_t channels) const noexcept {
    return std::all_of(lows_.begin(), lows_.begin() + static_cast<std::ptrdiff_t>(channels), [](const auto& lows) {
        return std::all_of(lows.begin(), lows.end(), [](std::int8_t low) { return low == 0; });
    });
}

namespace {

/// Calls `begin` at the begin of each stretch between restart markers and `read` for each unit. False if one says so,
/// or if a stretch is not used up to its last byte.
template <class Begin, class Read>
HEADRACE_INLINE bool each_unit(const Stretches& stretches, std::size_t units, std::size_t restart, const Begin& begin,
                               const Read& read) {
    const std::size_t stretch_units = restart != 0 ? restart : units;
    if (stretches.ends.size() != ceiling(units, stretch_units)) return false;
    std::size_t unit = 0;
    const std::byte* start = stretches.bytes.data();
    for (const std::size_t stretch_end : stretches.ends) {
        const std::byte* const end = stretches.bytes.data() + stretch_end;
        const std::size_t last_unit = std::min(units, unit + stretch_units);
        if (!begin()) return false;
        Bits bits{start};
        for (; unit < last_unit; ++unit) {
            if (!read(bits) || bits.at > end + 8) return false;
        }
        const std::ptrdiff_t unused = (end - start) * 8 - bits.consumed(start);
        if (unused < 0 || unused >= 8) return false;
        start = end;
    }
    return begin();
}

/// Calls `band` for each block with codes and `rest` for each without, one of the run that a code ended.
template <class ReadBand, class ReadRest>
HEADRACE_INLINE bool each_block(CoefficientPlane& plane, const Stretches& stretches, std::size_t restart,
                                const ReadBand& band, const ReadRest& rest) {
    std::size_t x = 0, row = 0, ended = 0;
    return each_unit(
        stretches, plane.across * plane.down, restart, [&]() HEADRACE_INLINE_LAMBDA { return ended == 0; },
        [&](Bits& bits) HEADRACE_INLINE_LAMBDA {
            std::uint64_t& places = plane.places[row + x];
            if (ended == 0) {
                ended = band(bits, plane.block(row + x), places);
                if (ended == 0) return false;
            } else {
                rest(bits, plane.block(row + x), places);
            }
            --ended;
            if (++x == plane.across) {
                x = 0;
                row += plane.stride;
            }
            return true;
        });
}

template <int>
HEADRACE_INLINE bool read_bands_with(CoefficientPlane& plane, const Stretches& stretches, std::size_t restart,
                                     const Band& band) {
    return each_block(
        plane, stretches, restart,
        [&](Bits& bits, std::int16_t* block, std::uint64_t& places)
            HEADRACE_INLINE_LAMBDA { return read_band(band, bits, block, places); },
        [](Bits&, std::int16_t*, std::uint64_t) HEADRACE_INLINE_LAMBDA {});
}

bool read_bands(CoefficientPlane& plane, const Stretches& stretches, std::size_t restart, const Band& band) {
    return read_bands_with<0>(plane, stretches, restart, band);
}

#ifdef HEADRACE_FOR_BMI2
HEADRACE_FOR_BMI2
#endif
bool read_bands_bmi2(CoefficientPlane& plane, const Stretches& stretches, std::size_t restart, const Band& band) {
    return read_bands_with<1>(plane, stretches, restart, band);
}

template <class Refiner>
bool refine_bands(CoefficientPlane& plane, const Stretches& stretches, std::size_t restart, const Band& band) {
    return each_block(
        plane, stretches, restart,
        [&](Bits& bits, std::int16_t* block, std::uint64_t& places)
            HEADRACE_INLINE_LAMBDA { return Refiner::band(band, bits, block, places); },
        [&](Bits& bits, std::int16_t* block, std::uint64_t places) HEADRACE_INLINE_LAMBDA {
            if ((places & band.places()) != 0) Refiner::rest(band, bits, block, places);
        });
}

} // namespace

bool ProgressiveReader::read_scan(const Header& header) {
    const Scan& scan = header.scan;
    CoefficientPlane& plane = planes_[scan.planes[0]];
    if (scan.first == 0) return scan.high == 0 ? read_means(header) : refine_means(header);
    tables_[0].build(*header.ac[header.components[scan.planes[0]].ac]);
    const Band band{tables_[0], scan.first, scan.last, scan.low};
    if (scan.high == 0) {
        return cpu_.bmi2 ? read_bands_bmi2(plane, stretches_, header.restart, band)
                         : read_bands(plane, stretches_, header.restart, band);
    }
#ifdef HEADRACE_X86
    if (cpu_.pext) return refine_bands<FastRefiner>(plane, stretches_, header.restart, band);
#endif
    return refine_bands<PlainRefiner>(plane, stretches_, header.restart, band);
}

/// Calls `read` for the mean of each block of a scan, in its order.
template <class Begin, class Read>
HEADRACE_INLINE bool ProgressiveReader::each_mean(const Header& header, const Begin& begin, const Read& read) {
    struct Slot {
        CoefficientPlane* plane;
        std::size_t across, down;
    };
    const Scan& scan = header.scan;
    const bool is_single = scan.count == 1; // Then units are blocks, without those beside the image.
    std::array<Slot, 3> slots{};
    for (std::size_t i = 0; i < scan.count; ++i) {
        const Component& component = header.components[scan.planes[i]];
        slots[i] = {&planes_[scan.planes[i]], is_single ? std::size_t{1} : component.across,
                    is_single ? std::size_t{1} : component.down};
    }
    const std::size_t across = is_single ? slots[0].plane->across : units_across_;
    const std::size_t units = across * (is_single ? slots[0].plane->down : units_down_);
    std::size_t x = 0, y = 0;
    return each_unit(stretches_, units, header.restart, begin, [&](Bits& bits) HEADRACE_INLINE_LAMBDA {
        for (std::size_t i = 0; i < scan.count; ++i) {
            const Slot& slot = slots[i];
            for (std::size_t row = y * slot.down; row < (y + 1) * slot.down; ++row) {
                for (std::size_t column = x * slot.across; column < (x + 1) * slot.across; ++column) {
                    if (!read(i, bits, *slot.plane->block(row * slot.plane->stride + column))) return false;
                }
            }
        }
        if (++x == across) {
            x = 0;
            ++y;
        }
        return true;
    });
}

bool ProgressiveReader::read_means(const Header& header) {
    const Scan& scan = header.scan;
    for (std::size_t i = 0; i < scan.count; ++i) {
        tables_[i].build(*header.dc[header.components[scan.planes[i]].dc]);
    }
    std::array<std::uint32_t, 3> means{};
    return each_mean(
        header,
        [&] {
            means = {};
            return true;
        },
        [&](std::size_t i, Bits& bits, std::int16_t& mean) HEADRACE_INLINE_LAMBDA {
            bits.refill();
            const Code code = take_code(tables_[i], bits);
            means[i] += static_cast<std::uint32_t>(extended(code.behind, code.size)); // Unsigned: forged sums may wrap.
            mean = static_cast<std::int16_t>(means[i] << scan.low);
            return code.is_one;
        });
}

bool ProgressiveReader::refine_means(const Header& header) {
    return each_mean(
        header, [] { return true; },
        [&](std::size_t, Bits& bits, std::int16_t& mean) HEADRACE_INLINE_LAMBDA {
            bits.refill();
            const auto bit = static_cast<std::uint32_t>(bits.next >> 63);
            mean = static_cast<std::int16_t>(static_cast<std::uint32_t>(mean) | bit << header.scan.low);
            bits.drop(1);
            return true;
        });
}

} // namespace headrace::jpeg
