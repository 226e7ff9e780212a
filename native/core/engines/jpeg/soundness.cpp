#include "core/engines/jpeg/soundness.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/engines/jpeg/progressive.hpp"
#include "core/engines/jpeg/segments.hpp"

namespace headrace::jpeg {
namespace {

constexpr std::size_t most_planes = 4;
constexpr std::size_t most_scans = 100; // each may walk over the whole image
constexpr unsigned most_size_of_means = 15;

/// Thrown for the verdict; never leaves this file.
struct Verdict {
    Soundness is;
};

void need(bool is_fulfilled, Soundness otherwise = Soundness::damaged) {
    if (!is_fulfilled) throw Verdict{otherwise};
}

std::size_t ceiling(std::size_t value, std::size_t by) { return (value + by - 1) / by; }

/// A code and the size of what follows it.
struct Code {
    unsigned run, size;
};

Code take_code(const ScanTable& table, Bits& bits) {
    bits.refill(); // A code and what follows it take at most 31 bits.
    const std::uint32_t entry = table.next(bits.next);
    need(entry != 0);
    bits.drop(entry >> 8 & 31);
    return {entry >> 20, entry >> 16 & 15};
}

/// The number of blocks that a code of size 0 ends, this one included.
std::size_t take_run(unsigned run, Bits& bits) {
    const std::size_t blocks = (std::size_t{1} << run) | static_cast<std::size_t>(bits.next >> 1 >> (63 - run));
    bits.drop(run);
    return blocks;
}

struct Plane {
    unsigned id = 0;
    std::size_t across = 1, down = 1;  ///< Blocks of a unit.
    std::size_t columns = 0, rows = 0; ///< Blocks of the image.
    std::size_t stride = 0;            ///< Blocks of a row, up to a whole unit.
    std::array<int, 64> lows{};        ///< The lowest bit of each coefficient so far; -1: none yet.
    std::vector<std::uint64_t> places; ///< Of a progressive file: the coefficients of each block that are not 0.
    bool is_read = false;
};

struct Band {
    unsigned first = 0, last = 0; ///< Places of the zigzag order.
    unsigned high = 0, low = 0;   ///< Their lowest bit before and after the scan.
};

class Reader {
  public:
    explicit Reader(Bytes file) : file_(file), at_(file) {}

    void read() {
        need(pair(at_) == (0xFF00 | start));
        for (unsigned found = marker(); found != end_of_image; found = marker()) segment(found);
        for (std::size_t i = 0; i < count_; ++i) need(planes_[i].is_read);
        need(count_ != 0);
    }

  private:
    [[nodiscard]] unsigned marker() {
        need(byte(at_) == 0xFF);
        unsigned found = byte(at_);
        while (found == 0xFF) found = byte(at_); // Any number of these may come before a marker.
        return found;
    }

    void segment(unsigned marker) {
        if (marker == temporary || (marker >= first_restart && marker <= last_restart)) return; // These stand alone.
        const unsigned size = pair(at_);
        need(size >= 2);
        Cursor inside(at_.take(size - 2));
        if (marker == huffman) return codes(inside);
        if (marker == start_of_scan) return scan(inside);
        if (marker == restart_interval) restart_ = pair(inside);
        if (marker < start_of_frame || marker > last_frame) return;
        need(marker <= start_of_progressive, Soundness::unknown);
        is_progressive_ = marker == start_of_progressive;
        frame(inside);
    }

    void frame(Cursor& inside) {
        need(count_ == 0);
        need(byte(inside) == 8, Soundness::unknown);
        const std::size_t height = pair(inside), width = pair(inside), count = byte(inside);
        need(height != 0 && width != 0 && count >= 1 && count <= most_planes);
        std::size_t across = 1, down = 1;
        for (std::size_t i = 0; i < count; ++i) {
            Plane& plane = planes_[i];
            plane.id = byte(inside);
            const unsigned sampling = byte(inside);
            plane.across = sampling >> 4, plane.down = sampling & 15;
            need(plane.across >= 1 && plane.across <= 4 && plane.down >= 1 && plane.down <= 4);
            across = std::max(across, plane.across), down = std::max(down, plane.down);
            static_cast<void>(byte(inside));
            plane.lows.fill(-1);
        }
        count_ = count;
        units_across_ = ceiling(width, 8 * across), units_down_ = ceiling(height, 8 * down);
        std::size_t blocks = 0;
        for (std::size_t i = 0; i < count; ++i) {
            Plane& plane = planes_[i];
            plane.columns = ceiling(width * plane.across, 8 * across);
            plane.rows = ceiling(height * plane.down, 8 * down);
            plane.stride = units_across_ * plane.across;
            blocks += plane.columns * plane.rows;
        }
        need(blocks <= file_.size() * 8); // Each takes a bit at least.
        if (!is_progressive_) return;
        for (std::size_t i = 0; i < count; ++i) {
            planes_[i].places.assign(planes_[i].stride * units_down_ * planes_[i].down, 0);
        }
    }

    void codes(Cursor& inside) {
        while (!inside.done()) {
            const unsigned which = byte(inside);
            need(which >> 4 <= 1 && (which & 15) < 4);
            const bool is_ac = which >> 4 == 1; // A symbol of these may be any byte.
            std::optional<Codes> read = take_codes(inside, is_ac ? 0 : 255, most_size_of_means);
            need(read.has_value());
            codes_[which >> 4][which & 15] = read;
        }
    }

    /// The table of these codes, which are looked up when a scan begins.
    const ScanTable& table(std::size_t place, bool is_ac, unsigned which) {
        need(which < 4);
        need(codes_[is_ac ? 1 : 0][which].has_value(), Soundness::unknown);
        ScanTable& made = tables_[is_ac ? 1 : 0][place];
        made.build(*codes_[is_ac ? 1 : 0][which]);
        return made;
    }

    void scan(Cursor& inside) {
        need(count_ != 0 && ++scans_ <= most_scans);
        const std::size_t count = byte(inside);
        need(count >= 1 && count <= count_);
        std::array<Plane*, most_planes> planes{};
        std::array<unsigned, most_planes> tables{};
        for (std::size_t i = 0; i < count; ++i) {
            const unsigned id = byte(inside);
            const auto found = std::find_if(planes_.begin(), planes_.begin() + static_cast<std::ptrdiff_t>(count_),
                                            [&](const Plane& plane) { return plane.id == id; });
            need(found != planes_.begin() + static_cast<std::ptrdiff_t>(count_));
            planes[i] = &*found;
            tables[i] = byte(inside);
        }
        Band band;
        band.first = byte(inside);
        band.last = byte(inside);
        const unsigned bits = byte(inside);
        band.high = bits >> 4, band.low = bits & 15;
        const std::size_t begin = file_.size() - at_.remaining();
        const std::size_t size = stretches_.fill(file_.subspan(begin));
        need(size != 0);
        const std::span<Plane*> used = std::span(planes).first(count);
        if (!is_progressive_) {
            need(band.first == 0 && band.last == 63 && bits == 0);
            read_sequential(used, tables);
        } else {
            follow(used, band);
            if (band.first == 0) read_means(used, tables, band.high);
            else read_band(*planes[0], table(0, true, tables[0] & 15), band);
        }
        if (!is_progressive_ || band.first == 0) {
            for (Plane* plane : used) plane->is_read = true;
        }
        at_.skip(size);
    }

    /// A scan has to go on where the ones before it ended.
    static void follow(std::span<Plane*> planes, const Band& band) {
        need(band.first <= band.last && band.last <= 63);
        need(band.high == 0 || band.high == band.low + 1);
        need(band.first == 0 ? band.last == 0 : planes.size() == 1);
        for (Plane* plane : planes) {
            need(band.first == 0 || plane->lows[0] >= 0);
            for (unsigned k = band.first; k <= band.last; ++k) {
                need(std::cmp_equal(band.high, std::max(plane->lows[k], 0)));
                plane->lows[k] = static_cast<int>(band.low);
            }
        }
    }

    /// Calls `begin` before each stretch between restart markers and `block` for each block of the planes.
    template <class Begin, class Block>
    void each_block(std::span<Plane*> planes, const Begin& begin, const Block& block) {
        const bool is_single = planes.size() == 1; // Then units are blocks, without those beside the image.
        const std::size_t across = is_single ? planes[0]->columns : units_across_;
        const std::size_t units = across * (is_single ? planes[0]->rows : units_down_);
        const std::size_t stretch_units = restart_ != 0 ? restart_ : units;
        need(stretches_.ends.size() == ceiling(units, stretch_units));
        const std::byte* start = stretches_.bytes.data();
        std::size_t unit = 0;
        for (const std::size_t stretch_end : stretches_.ends) {
            const std::byte* const end = stretches_.bytes.data() + stretch_end;
            begin();
            Bits bits{start};
            for (const std::size_t behind = std::min(units, unit + stretch_units); unit < behind; ++unit) {
                const std::size_t x = unit % across, y = unit / across;
                for (std::size_t i = 0; i < planes.size(); ++i) {
                    const std::size_t wide = is_single ? 1 : planes[i]->across, high = is_single ? 1 : planes[i]->down;
                    for (std::size_t k = 0; k < wide * high; ++k) {
                        block(i, bits, (y * high + k / wide) * planes[i]->stride + x * wide + k % wide);
                        need(bits.at <= end + 8);
                    }
                }
            }
            const std::ptrdiff_t unused = (end - start) * 8 - bits.consumed(start);
            need(unused >= 0 && unused < 8);
            start = end;
        }
    }

    void read_sequential(std::span<Plane*> planes, std::span<const unsigned> which) {
        std::array<const ScanTable*, most_planes> means{}, others{};
        for (std::size_t i = 0; i < planes.size(); ++i) {
            means[i] = &table(i, false, which[i] >> 4);
            others[i] = &table(i, true, which[i] & 15);
        }
        each_block(
            planes, [] {},
            [&](std::size_t i, Bits& bits, std::size_t) {
                bits.drop(take_code(*means[i], bits).size);
                for (unsigned k = 1; k < 64; ++k) {
                    const Code code = take_code(*others[i], bits);
                    if (code.size == 0 && code.run != 15) break;
                    k += code.run;
                    bits.drop(code.size);
                }
            });
    }

    void read_means(std::span<Plane*> planes, std::span<const unsigned> which, unsigned high) {
        std::array<const ScanTable*, most_planes> means{};
        for (std::size_t i = 0; i < planes.size() && high == 0; ++i) means[i] = &table(i, false, which[i] >> 4);
        each_block(
            planes, [] {},
            [&](std::size_t i, Bits& bits, std::size_t) {
                if (high == 0) return bits.drop(take_code(*means[i], bits).size);
                bits.refill();
                bits.drop(1);
            });
    }

    void read_band(Plane& plane, const ScanTable& table, const Band& band) {
        std::array<Plane*, 1> planes{&plane};
        std::size_t ended = 0; // Blocks that the last code ended, which are still to come.
        const auto begin = [&] { ended = 0; };
        each_block(planes, begin, [&](std::size_t, Bits& bits, std::size_t number) {
            std::uint64_t& places = plane.places[number];
            if (band.high != 0) return refine(table, band, bits, places, ended);
            if (ended != 0) return static_cast<void>(--ended);
            for (unsigned k = band.first; k <= band.last; ++k) {
                const Code code = take_code(table, bits);
                if (code.size == 0 && code.run != 15) {
                    ended = take_run(code.run, bits) - 1;
                    return;
                }
                k += code.run;
                bits.drop(code.size);
                if (code.size != 0 && k < 64) places |= std::uint64_t{1} << k;
            }
        });
    }

    /// One more bit of each coefficient that is not 0, and the coefficients that begin with it.
    static void refine(const ScanTable& table, const Band& band, Bits& bits, std::uint64_t& places,
                       std::size_t& ended) {
        unsigned k = band.first;
        const std::uint64_t before = places;
        const auto pass = [&] { // A coefficient that is not 0 takes a bit.
            if ((before >> k & 1) == 0) return false;
            bits.refill();
            bits.drop(1);
            return true;
        };
        for (; ended == 0 && k <= band.last; ++k) {
            const Code code = take_code(table, bits);
            need(code.size <= 1);
            if (code.size == 0 && code.run != 15) {
                ended = take_run(code.run, bits);
                break;
            }
            bits.drop(code.size);
            for (unsigned run = code.run; k <= band.last; ++k) {
                if (!pass() && run-- == 0) break;
            }
            if (code.size != 0 && k < 64) places |= std::uint64_t{1} << k;
        }
        if (ended == 0) return;
        for (; k <= band.last; ++k) pass();
        --ended;
    }

    Bytes file_;
    Cursor at_;
    std::array<Plane, most_planes> planes_;
    std::size_t count_ = 0; ///< The used entries of `planes_`.
    std::size_t units_across_ = 0, units_down_ = 0, restart_ = 0, scans_ = 0;
    bool is_progressive_ = false;
    std::array<std::array<std::optional<Codes>, 4>, 2> codes_; ///< Of means, and of other coefficients.
    std::array<std::array<ScanTable, most_planes>, 2> tables_;
    Stretches stretches_;
};

} // namespace

Soundness soundness(Bytes file) {
    try {
        Reader(file).read();
        return Soundness::sound;
    } catch (const Verdict& verdict) {
        return verdict.is;
    } catch (const FormatError&) {
        return Soundness::damaged;
    }
}

} // namespace headrace::jpeg
