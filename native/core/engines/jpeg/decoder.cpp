#include "core/engines/jpeg/decoder.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/engines/jpeg/scaled.hpp"

namespace headrace::jpeg {
namespace {

constexpr std::size_t most_blocks = 6;     // of a unit: four of luma, two of chroma
constexpr std::size_t blocks_at_once = 48; // whose coefficients stay in the nearest cache until they are transformed
constexpr std::size_t cached_bytes = std::size_t{1} << 19;
constexpr std::size_t padding = 64; // what kernels may read and write behind a row

constexpr std::size_t few_bytes = 12000; // of a scan for which small tables of codes are faster to make than to miss

std::size_t ceiling(std::size_t value, std::size_t by) { return (value + by - 1) / by; }

/// One block of a unit: its codes and its place.
struct Slot {
    const CodeTable<false>* dc;
    const CodeTable<true>* ac;
    std::size_t component;
    std::size_t column, row; ///< In blocks, inside the unit.
    std::uint8_t* out;       ///< Where its samples go in the next unit.
    std::size_t width;       ///< Samples from one unit to the next.
};

/// Four of these blocks, with a bit for each that is left. The last one stands for those that are missing.
HEADRACE_INLINE FourBlocks take_four(const Block* blocks, std::uint64_t& left) noexcept {
    FourBlocks four;
    const Block* last = blocks;
    for (const Block*& each : four) {
        if (left != 0) last = blocks + std::countr_zero(left);
        left &= left - 1;
        each = last;
    }
    return four;
}

} // namespace

/// Blocks that are transformed together, at most `blocks_at_once`. Their sizes are as `next_block` returns them: the
/// first so many coefficients of the zigzag order are all that they have.
struct Decoder::Blocks {
    std::array<Block, blocks_at_once> blocks;
    std::array<std::uint8_t, blocks_at_once> sizes;

    /// Transforms some of them by kinds. No branch depends on the kind of one, which cannot be predicted.
    HEADRACE_INLINE void transform(const Kernels& kernels, std::size_t from, std::size_t to) const {
        std::uint64_t flat = 0, low = 0, full = 0;
        std::ptrdiff_t lows = 0, fulls = 0;
        for (std::size_t i = from; i < to; ++i) {
            const bool is_flat = sizes[i] <= 1, is_full = sizes[i] > low_coefficients;
            flat |= std::uint64_t{is_flat} << i;
            low |= std::uint64_t{!is_flat && !is_full} << i;
            full |= std::uint64_t{is_full} << i;
            lows += !is_flat && !is_full ? 1 : 0;
            fulls += is_full ? 1 : 0;
        }
        for (; lows % 4 == 1 || lows % 4 == 2; --lows, ++fulls, low &= low - 1) full |= low & (0 - low); // Too few.
        for (; flat != 0; flat &= flat - 1) kernels.flat(blocks[static_cast<std::size_t>(std::countr_zero(flat))]);
        for (; low != 0;) kernels.transform_low(take_four(blocks.data(), low));
        for (; fulls > 2; fulls -= 4) kernels.transform_four(take_four(blocks.data(), full));
        if (fulls <= 0) return;
        const FourBlocks last = take_four(blocks.data(), full);
        kernels.transform(*last[0], *last[1]);
    }
};

/// All that the loop over the units of a scan needs, together, so that it stays in registers and the nearest cache.
struct Decoder::Work : Blocks {
    alignas(64) std::array<std::array<std::uint16_t, 64>, 3> steps;
    alignas(64) std::array<std::int16_t, blocks_at_once * 64 + 1> coefficients;
    std::array<Slot, most_blocks> slots;
    std::array<std::uint32_t, 3> means{};
    std::size_t count = 0; ///< Blocks of a unit.

    /// Reads the coefficients of this many units. False if the bits are not that, or go past `end`.
    [[nodiscard]] HEADRACE_INLINE bool read(std::size_t units, Bits& bits, const std::byte* end) noexcept {
        std::memset(coefficients.data(), 0, units * count * 64 * sizeof coefficients[0]);
        Bits next = bits; // Its members stay in registers.
        std::size_t place = 0;
        for (std::size_t unit = 0; unit < units; ++unit) {
            for (std::size_t i = 0; i < count; ++i, ++place) {
                Slot& slot = slots[i];
                const unsigned size =
                    next_block(*slot.dc, *slot.ac, next, means[slot.component], coefficients.data() + place * 64);
                if (size == 0 || next.at > end + 8) return false;
                sizes[place] = static_cast<std::uint8_t>(size);
                blocks[place].out = slot.out;
                slot.out += slot.width;
            }
        }
        bits = next;
        return true;
    }
};

bool Decoder::decode(Bytes file, const Header& header, std::uint8_t* out) {
    return decode(file, header, {.width = header.width, .height = header.height}, out);
}

bool Decoder::decode(Bytes file, const Header& header, const Region& region, std::uint8_t* out) {
    if (header.is_progressive) {
        if (std::size_t{header.height} * header.width > most_progressive_pixels) return false;
        if (!progressive_.read(file, header)) return false;
        prepare(header, region);
        out_ = out;
        transform_planes(header, region);
    } else {
        if (stretches_.fill(file.subspan(header.scan.begin)) == 0 || stretches_.marker != end_of_image) return false;
        prepare(header, region);
        out_ = out;
        if (!read_sequential(header, region)) return false;
    }
    return true;
}

bool Decoder::read_sequential(const Header& header, const Region& region) {
    const std::size_t units = units_.across * units_.down;
    if (stretches_.ends.size() != (header.restart == 0 ? 1 : ceiling(units, header.restart))) return false;
    const bool is_short = stretches_.ends.back() < few_bytes;
    std::array<bool, 4> has_dc{}, has_ac{}; // Planes share tables.
    for (std::size_t i = 0; i < header.channels; ++i) {
        const auto [dc, ac] = std::pair(header.components[i].dc, header.components[i].ac);
        if (!std::exchange(has_dc[dc], true)) dc_[dc].build(*header.dc[dc], is_short);
        if (!std::exchange(has_ac[ac], true)) ac_[ac].build(*header.ac[ac], is_short);
    }
    return kernels_.cpu.bmi2 ? read_blocks_bmi2(header, region) : read_blocks(header, region);
}

void Decoder::transform_planes(const Header& header, const Region& region) {
    alignas(64) std::array<std::array<std::uint16_t, 64>, 3> steps;
    for (std::size_t i = 0; i < header.channels; ++i) steps[i] = header.steps[header.components[i].steps];
    Blocks waiting;
    std::size_t count = 0;
    const auto transform = [&](std::size_t side) {
        transform_blocks(waiting, 0, count, side);
        count = 0;
    };
    for (std::size_t y = needed_.top; y < needed_.bottom; ++y) {
        for (std::size_t i = 0; i < header.channels; ++i) {
            const Component& component = header.components[i];
            CoefficientPlane& from = progressive_.plane(i);
            Plane& to = planes_[i];
            for (std::size_t row = y * component.down; row < (y + 1) * component.down; ++row) {
                std::uint8_t* const out = to.row(row * to.side);
                for (std::size_t column = needed_.left * component.across; column < needed_.right * component.across;
                     ++column) {
                    const std::size_t number = row * from.stride + column;
                    waiting.blocks[count] = {from.block(number), steps[i].data(), out + column * to.side, to.stride};
                    const std::uint64_t places = from.places[number];
                    waiting.sizes[count] = static_cast<std::uint8_t>(places == 0 ? 1 : 64 - std::countr_zero(places));
                    if (++count == blocks_at_once) transform(to.side);
                }
            }
            transform(to.side);
        }
        if (y + 1 == needed_.bottom || (y + 1 - needed_.top) % units_at_once_ == 0) write_rows(header, region, y + 1);
    }
}

void Decoder::shrink() noexcept {
    if (stretches_.bytes.capacity() > kept_pixels) stretches_ = Stretches{};
    progressive_.shrink();
    for (Plane& plane : planes_) {
        if (plane.samples.capacity() > kept_pixels * 2) plane.samples = {};
    }
}

std::size_t most_shrink(const Header& header) noexcept {
    // libjpeg does not smooth chroma of half the width where its blocks have one sample, or its rows two.
    const Component& luma = header.components[0];
    if (header.channels == 1 || luma.across == luma.down) return 8;
    return header.width > 16 ? 4 : 1;
}

void Decoder::prepare(const Header& header, const Region& region) {
    const std::size_t across = header.components[0].across;
    const std::size_t down = header.components[0].down;
    const std::size_t side = 8 / region.shrink;
    units_ = {ceiling(header.width, 8 * across), ceiling(header.height, 8 * down)};
    for (std::size_t i = 0; i < header.channels; ++i) {
        const Component& component = header.components[i];
        // Smaller planes are shrunk less, if that spares widening them.
        const bool is_small = component.across < across && component.down < down;
        planes_[i].side = is_small && region.shrink > 1 ? 2 * side : side;
    }
    // Widening chroma looks at one sample on each side.
    const std::size_t unit_width = across * side;
    const std::size_t unit_height = down * side;
    const std::size_t more_columns = unit_width > planes_[header.channels - 1].side ? 2 : 0;
    const std::size_t more_rows = unit_height > planes_[header.channels - 1].side ? 2 : 0;
    needed_.left = (region.left - std::min(region.left, more_columns)) / unit_width;
    needed_.right = std::min(units_.across, ceiling(region.left + region.width + more_columns, unit_width));
    needed_.top = (region.top - std::min(region.top, more_rows)) / unit_height;
    needed_.bottom = std::min(units_.down, ceiling(region.top + region.height + more_rows, unit_height));
    std::size_t row_bytes = 0;
    for (std::size_t i = 0; i < header.channels; ++i) {
        const Component& component = header.components[i];
        Plane& plane = planes_[i];
        const std::size_t unit_rows = component.down * plane.side;
        plane.columns = ceiling(std::size_t{header.width} * component.across * plane.side, across * 8);
        plane.rows = ceiling(std::size_t{header.height} * component.down * plane.side, down * 8);
        plane.stride = units_.across * component.across * plane.side + padding;
        plane.is_narrow = component.across * plane.side < unit_width;
        plane.is_low = unit_rows < unit_height;
        row_bytes += unit_rows * plane.stride;
    }
    // Pixels are made of rows of units that are still in the nearer cache, but of many at once, because making them
    // takes the tables of codes out of the nearest one.
    std::size_t kept = 2;
    while (kept <= needed_.bottom - needed_.top && 2 * kept * row_bytes <= cached_bytes) kept *= 2;
    units_at_once_ = kept - 1; // One row of units is kept from the last time.
    for (std::size_t i = 0; i < header.channels; ++i) {
        Plane& plane = planes_[i];
        plane.kept = kept * header.components[i].down * plane.side;
        plane.samples.resize(Plane::before + plane.kept * plane.stride + padding);
        plane.next = needed_.top * header.components[i].down * plane.side;
    }
    next_row_ = region.top;
    for (auto& row : wide_) row.resize(2 * region.width + 4 * padding);
}

HEADRACE_INLINE void Decoder::transform_blocks(const Blocks& blocks, std::size_t from, std::size_t to,
                                               std::size_t side) const {
    if (side == 8) return blocks.transform(kernels_, from, to);
    for (std::size_t i = from; i < to; ++i) {
        if (blocks.sizes[i] <= 1) flat_scaled(blocks.blocks[i], side);
        else transform_scaled(blocks.blocks[i], side);
    }
}

template <int> HEADRACE_INLINE bool Decoder::scan(const Header& header, const Region& region) {
    Work work;
    for (std::size_t i = 0; i < header.channels; ++i) {
        const Component& component = header.components[i];
        work.steps[i] = header.steps[component.steps];
        for (std::size_t place = 0; place < std::size_t{component.across} * component.down; ++place) {
            work.slots[work.count++] = {&dc_[component.dc],
                                        &ac_[component.ac],
                                        i,
                                        place % component.across,
                                        place / component.across,
                                        nullptr,
                                        component.across * planes_[i].side};
        }
    }
    std::size_t units_at_once = 0;
    for (std::size_t place = 0; place + work.count <= blocks_at_once && units_at_once < units_.across;
         ++units_at_once) {
        for (std::size_t i = 0; i < work.count; ++i, ++place) {
            const std::size_t component = work.slots[i].component;
            work.blocks[place] = {work.coefficients.data() + place * 64, work.steps[component].data(), nullptr,
                                  planes_[component].stride};
        }
    }
    const bool is_shrunk = planes_[0].side != 8;
    // A stretch depends on none before it, so reading begins with the one of the first unit that is needed.
    const std::size_t stretch_units = header.restart != 0 ? header.restart : units_.across * units_.down;
    std::size_t stretch = needed_.top * units_.across / stretch_units;
    const std::byte* begin = stretches_.bytes.data() + (stretch == 0 ? 0 : stretches_.ends[stretch - 1]);
    const std::byte* end = stretches_.bytes.data() + stretches_.ends[stretch];
    std::size_t left = stretch_units;
    Bits bits{begin};
    bits.refill();
    const auto is_used_up = [&] {
        const std::ptrdiff_t unused = (end - begin) * 8 - bits.consumed(begin);
        return unused >= 0 && unused < 8;
    };
    for (std::size_t y = stretch * stretch_units / units_.across; y < needed_.bottom; ++y) {
        const bool is_row_needed = y >= needed_.top;
        const bool begins_here = y == stretch * stretch_units / units_.across && left == stretch_units;
        std::size_t x = begins_here ? stretch * stretch_units % units_.across : 0;
        for (std::size_t i = 0; i < work.count; ++i) {
            Slot& slot = work.slots[i];
            Plane& plane = planes_[slot.component];
            const std::size_t row = (y * header.components[slot.component].down + slot.row) * plane.side;
            slot.out = plane.row(row) + slot.column * plane.side + x * slot.width;
        }
        while (x < units_.across) {
            if (left == 0) {
                if (!is_used_up()) return false;
                begin = end;
                end = stretches_.bytes.data() + stretches_.ends[++stretch];
                bits = Bits{begin};
                bits.refill();
                work.means = {};
                left = stretch_units;
            }
            const std::size_t units = std::min({units_.across - x, left, units_at_once});
            if (!work.read(units, bits, end)) return false;
            const std::size_t first = std::max(x, needed_.left), last = std::min(x + units, needed_.right);
            if (is_row_needed && first < last) {
                if (is_shrunk) {
                    for (std::size_t i = (first - x) * work.count; i < (last - x) * work.count; ++i)
                        transform_blocks(work, i, i + 1, planes_[work.slots[i % work.count].component].side);
                } else {
                    work.transform(kernels_, (first - x) * work.count, (last - x) * work.count);
                }
            }
            x += units;
            left -= units;
        }
        if (!is_row_needed) continue;
        if (y + 1 == needed_.bottom || (y + 1 - needed_.top) % units_at_once_ == 0) write_rows(header, region, y + 1);
    }
    return needed_.bottom < units_.down || (is_used_up() && stretch + 1 == stretches_.ends.size());
}

bool Decoder::read_blocks(const Header& header, const Region& region) { return scan<0>(header, region); }

#ifdef HEADRACE_FOR_BMI2
HEADRACE_FOR_BMI2
#endif
bool Decoder::read_blocks_bmi2(const Header& header, const Region& region) { return scan<1>(header, region); }

/// Repeats the first and the last sample of the complete rows of chroma, for widening. All rows are done together,
/// because a load of a sample just stored waits until the stores before it, those of pixels, have left the processor.
void Decoder::repeat_edges(Plane& plane, const Region& region, std::size_t rows) {
    const bool is_first = region.left < 2, is_last = (region.left + region.width + 1) / 2 >= plane.columns;
    for (; plane.next < std::min(rows, plane.rows); ++plane.next) {
        std::uint8_t* const samples = plane.row(plane.next);
        if (is_first) samples[-1] = samples[0];
        if (is_last) samples[plane.columns] = samples[plane.columns - 1];
    }
}

const std::uint8_t* Decoder::chroma(Plane& plane, const Region& region, std::size_t row,
                                    std::vector<std::uint8_t>& wide) const {
    if (!plane.is_narrow) return plane.row(row) + region.left;
    // Columns of chroma, from an even column of the image on.
    const std::size_t begin = region.left / 2;
    const std::size_t end = std::min(plane.columns, (region.left + region.width + 1) / 2);
    if (!plane.is_low) {
        kernels_.widen(plane.row(row) + begin, end - begin, wide.data());
    } else {
        const std::size_t near = row / 2;
        const std::size_t far = row % 2 == 0 ? near - (near == 0 ? 0 : 1) : std::min(near + 1, plane.rows - 1);
        kernels_.widen_two(plane.row(near) + begin, plane.row(far) + begin, end - begin, wide.data());
    }
    return wide.data() + region.left % 2;
}

/// Writes the rows of pixels whose planes are complete after this many rows of units.
void Decoder::write_rows(const Header& header, const Region& region, std::size_t units) {
    const Plane& last = planes_[header.channels - 1];
    std::size_t until = region.top + region.height;
    if (units < needed_.bottom) {
        const std::size_t rows = units * header.components[0].down * planes_[0].side;
        until = std::min(until, rows - (last.is_low ? 1 : 0)); // The last one looks at a row of chroma below.
    }
    for (std::size_t i = 1; i < header.channels; ++i) {
        if (Plane& plane = planes_[i]; plane.is_narrow)
            repeat_edges(plane, region, units * header.components[i].down * plane.side);
    }
    for (; next_row_ < until; ++next_row_) {
        const std::uint8_t* const luma = planes_[0].row(next_row_) + region.left;
        if (header.channels == 1) {
            std::memcpy(out_, luma, region.width);
        } else {
            const std::uint8_t* const blue = chroma(planes_[1], region, next_row_, wide_[0]);
            const std::uint8_t* const red = chroma(planes_[2], region, next_row_, wide_[1]);
            kernels_.colours(luma, blue, red, region.width, out_);
        }
        out_ += region.width * header.channels;
    }
}

} // namespace headrace::jpeg
