#include "core/engines/jpeg/decoder.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/engines/jpeg/scaled.hpp"

namespace headrace::jpeg {
namespace {

constexpr std::size_t most_blocks = 6; // of a unit: four of luma, two of chroma
constexpr std::size_t cached_bytes = std::size_t{1} << 19;
constexpr std::size_t padding = 64; // what kernels may read and write behind a row

constexpr std::size_t few_bytes = 12000; // of a scan for which small tables of codes are faster to make than to miss
constexpr unsigned end_of_image = 0xD9;

std::size_t ceiling(std::size_t value, std::size_t by) { return (value + by - 1) / by; }

/// Clears a block 16 bytes at a time. The string instruction that compilers use for 128 bytes takes longer than
/// decoding the block.
HEADRACE_INLINE void clear(std::int16_t* coefficients) noexcept {
    struct alignas(16) Sixteen {
        std::array<std::uint64_t, 2> words{};
    };
    for (std::size_t i = 0; i < 8; ++i) {
        const Sixteen zero;
        std::memcpy(coefficients + i * 8, &zero, sizeof zero);
    }
}

/// One block of a unit: its codes and its place.
struct Slot {
    const CodeTable* dc;
    const CodeTable* ac;
    const std::uint16_t* steps;
    std::size_t component;
    std::size_t column, row; ///< In blocks, inside the unit.
    std::uint8_t* out;       ///< Where its samples go in the first unit of the row.
    std::size_t width;       ///< Samples from one unit to the next.
    std::size_t stride;      ///< Samples from one row to the next.
};

} // namespace

/// All that the loop over the units of a scan needs, together, so that it stays in registers and the nearest cache.
struct Decoder::Work {
    alignas(64) std::array<std::array<std::uint16_t, 64>, 3> steps;
    alignas(64) std::array<std::array<std::int16_t, 96>, std::tuple_size_v<FourBlocks>> coefficients;
    std::array<Slot, most_blocks> slots;
    std::array<std::uint32_t, 3> means{};
    std::size_t count = 0;
};

/// Blocks that wait until four of them are there to be transformed together.
class Decoder::Waiting {
  public:
    explicit Waiting(const Kernels& kernels) : kernels_(kernels) {}

    /// Where the coefficients of the next block may be.
    [[nodiscard]] std::size_t count() const noexcept { return count_; }

    /// The next block, to be filled in. It is copied nowhere: that would wait until the processor has stored it.
    [[nodiscard]] HEADRACE_INLINE Block& next() noexcept { return blocks_[count_]; }

    /// Lets the next block wait.
    HEADRACE_INLINE void add_next() {
        if (++count_ == blocks_.size()) flush();
    }

    /// Transforms those that wait. The last one stands for those that are missing.
    void flush() {
        if (count_ == 0) return;
        std::fill(blocks_.begin() + static_cast<std::ptrdiff_t>(count_), blocks_.end(), blocks_[count_ - 1]);
        kernels_.transform_four(blocks_);
        count_ = 0;
    }

  private:
    const Kernels& kernels_;
    FourBlocks blocks_;
    std::size_t count_ = 0;
};

bool Decoder::decode(Bytes file, const Header& header, std::uint8_t* out) {
    return decode(file, header, {.width = header.width, .height = header.height}, out);
}

bool Decoder::decode(Bytes file, const Header& header, const Region& region, std::uint8_t* out) {
    if (std::size_t{header.height} * header.width > most_pixels) return false;
    if (header.is_progressive) {
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
        if (!std::exchange(has_dc[dc], true)) dc_[dc].build(*header.dc[dc], false, is_short);
        if (!std::exchange(has_ac[ac], true)) ac_[ac].build(*header.ac[ac], true, is_short);
    }
    return kernels_.cpu.bmi2 ? read_blocks_bmi2(header, region) : read_blocks(header, region);
}

void Decoder::transform_planes(const Header& header, const Region& region) {
    alignas(64) std::array<std::array<std::uint16_t, 64>, 3> steps;
    for (std::size_t i = 0; i < header.channels; ++i) steps[i] = header.steps[header.components[i].steps];
    Waiting waiting(kernels_);
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
                    Block& block = waiting.next();
                    block = {from.block(number), steps[i].data(), out + column * to.side, to.stride};
                    const bool is_flat = from.places[number] == 0;
                    if (to.side != 8) transform_shrunk(block, is_flat, to.side);
                    else if (is_flat) kernels_.flat(block);
                    else waiting.add_next();
                }
            }
        }
        waiting.flush();
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

void Decoder::transform_shrunk(const Block& block, bool is_flat, std::size_t side) const {
    if (is_flat) {
        flat_scaled(block, side);
    } else if (side == 8) {
        kernels_.transform(block, block);
    } else {
        transform_scaled(block, side);
    }
}

template <int> HEADRACE_INLINE bool Decoder::scan(const Header& header, const Region& region) {
    Work work;
    Waiting waiting(kernels_);
    const bool is_shrunk = planes_[0].side != 8;
    for (std::size_t i = 0; i < header.channels; ++i) {
        const Component& component = header.components[i];
        work.steps[i] = header.steps[component.steps];
        for (std::size_t place = 0; place < std::size_t{component.across} * component.down; ++place) {
            work.slots[work.count++] = {&dc_[component.dc],
                                        &ac_[component.ac],
                                        work.steps[i].data(),
                                        i,
                                        place % component.across,
                                        place / component.across,
                                        nullptr,
                                        component.across * planes_[i].side,
                                        planes_[i].stride};
        }
    }
    // A stretch depends on none before it, so reading begins with the one of the first unit that is needed.
    const std::size_t stretch_units = header.restart != 0 ? header.restart : units_.across * units_.down;
    std::size_t stretch = needed_.top * units_.across / stretch_units;
    const std::byte* begin = stretches_.bytes.data() + (stretch == 0 ? 0 : stretches_.ends[stretch - 1]);
    const std::byte* end = stretches_.bytes.data() + stretches_.ends[stretch];
    std::size_t left = stretch_units;
    Bits bits{begin};
    const auto is_used_up = [&] {
        const std::ptrdiff_t unused = (end - begin) * 8 - bits.consumed(begin);
        return unused >= 0 && unused < 8;
    };
    for (std::size_t y = stretch * stretch_units / units_.across; y < needed_.bottom; ++y) {
        const bool is_row_needed = y >= needed_.top;
        for (std::size_t i = 0; i < work.count; ++i) {
            Slot& slot = work.slots[i];
            Plane& plane = planes_[slot.component];
            const std::size_t row = (y * header.components[slot.component].down + slot.row) * plane.side;
            slot.out = plane.row(row) + slot.column * plane.side;
        }
        const bool begins_here = y == stretch * stretch_units / units_.across && left == stretch_units;
        for (std::size_t x = begins_here ? stretch * stretch_units % units_.across : 0; x < units_.across; ++x) {
            if (left-- == 0) {
                if (!is_used_up()) return false;
                begin = end;
                end = stretches_.bytes.data() + stretches_.ends[++stretch];
                bits = Bits{begin};
                work.means = {};
                left = stretch_units - 1;
            }
            const bool is_needed = is_row_needed && x >= needed_.left && x < needed_.right;
            for (std::size_t i = 0; i < work.count; ++i) {
                const Slot& slot = work.slots[i];
                std::int16_t* const coefficients = work.coefficients[waiting.count()].data();
                if (is_needed) clear(coefficients);
                const unsigned size = next_block(*slot.dc, *slot.ac, bits, work.means[slot.component], coefficients);
                if (size == 0 || bits.at > end + 8) return false;
                if (!is_needed) continue;
                Block& block = waiting.next();
                block = {coefficients, slot.steps, slot.out + x * slot.width, slot.stride};
                if (is_shrunk) transform_shrunk(block, size == 1, planes_[slot.component].side);
                else if (size == 1) kernels_.flat(block);
                else waiting.add_next();
            }
        }
        if (!is_row_needed) continue;
        waiting.flush();
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
