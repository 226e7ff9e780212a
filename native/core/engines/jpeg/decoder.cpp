#include "core/engines/jpeg/decoder.hpp"

#include <algorithm>
#include <cstring>

namespace headrace::jpeg {
namespace {

constexpr std::size_t most_blocks = 6; // of a unit: four of luma, two of chroma
constexpr std::size_t padding = 64;    // what kernels may read and write behind a row

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
};

} // namespace

/// All that the loop over the units of a scan needs, together, so that it stays in registers and the nearest cache.
struct Decoder::Work {
    alignas(32) std::array<std::array<std::uint16_t, 64>, 3> steps;
    alignas(32) std::array<std::array<std::int16_t, 80>, most_blocks> coefficients;
    std::array<Slot, most_blocks> slots;
    std::array<std::uint32_t, 3> means{};
    std::size_t count = 0;
};

bool Decoder::decode(Bytes file, const Header& header, std::uint8_t* out) {
    if (std::size_t{header.height} * header.width > most_pixels) return false;
    if (!stretches_.fill(file.subspan(header.scan))) return false;
    prepare(header);
    const std::size_t units = units_.across * units_.down;
    if (stretches_.ends.size() != (header.restart == 0 ? 1 : ceiling(units, header.restart))) return false;
    if (!(kernels_.has_bmi2 ? read_blocks_bmi2(header) : read_blocks(header))) return false;
    pixels(header, out);
    return true;
}

void Decoder::shrink() noexcept {
    if (stretches_.bytes.capacity() > kept_pixels) stretches_ = Stretches{};
    for (Plane& plane : planes_) {
        if (plane.samples.capacity() > kept_pixels * 2) plane.samples = {};
    }
}

void Decoder::prepare(const Header& header) {
    const std::size_t across = header.components[0].across;
    const std::size_t down = header.components[0].down;
    units_ = {ceiling(header.width, 8 * across), ceiling(header.height, 8 * down)};
    for (std::size_t i = 0; i < header.channels; ++i) {
        const Component& component = header.components[i];
        Plane& plane = planes_[i];
        plane.columns = ceiling(std::size_t{header.width} * component.across, across);
        plane.rows = ceiling(std::size_t{header.height} * component.down, down);
        plane.stride = units_.across * component.across * 8 + padding;
        plane.samples.resize(Plane::before + units_.down * component.down * 8 * plane.stride + padding);
        dc_[component.dc].build(*header.dc[component.dc], false);
        ac_[component.ac].build(*header.ac[component.ac], true);
    }
    for (auto& row : wide_) row.resize(header.width + 2 * padding);
}

template <int> HEADRACE_INLINE bool Decoder::scan(const Header& header) {
    Work work;
    for (std::size_t i = 0; i < header.channels; ++i) {
        const Component& component = header.components[i];
        work.steps[i] = header.steps[component.steps];
        for (std::size_t place = 0; place < std::size_t{component.across} * component.down; ++place) {
            work.slots[work.count++] = {&dc_[component.dc],       &ac_[component.ac],      work.steps[i].data(), i,
                                        place % component.across, place / component.across};
        }
    }
    const std::byte* begin = stretches_.bytes.data();
    const std::byte* end = begin + stretches_.ends[0];
    std::size_t stretch = 0;
    std::uint32_t left = header.restart;
    Bits bits{begin};
    const auto is_used_up = [&] {
        const std::ptrdiff_t unused = (end - begin) * 8 - bits.consumed(begin);
        return unused >= 0 && unused < 8;
    };
    for (std::size_t y = 0; y < units_.down; ++y) {
        for (std::size_t x = 0; x < units_.across; ++x) {
            if (header.restart != 0 && left-- == 0) {
                if (!is_used_up()) return false;
                begin = end;
                end = stretches_.bytes.data() + stretches_.ends[++stretch];
                bits = Bits{begin};
                work.means = {};
                left = header.restart - 1;
            }
            std::array<Block, most_blocks> blocks;
            std::array<bool, most_blocks> is_flat;
            for (std::size_t i = 0; i < work.count; ++i) {
                const Slot& slot = work.slots[i];
                std::int16_t* const coefficients = work.coefficients[i].data();
                clear(coefficients);
                const unsigned size = next_block(*slot.dc, *slot.ac, bits, work.means[slot.component], coefficients);
                if (size == 0 || bits.at > end + 8) return false;
                Plane& plane = planes_[slot.component];
                const Component& component = header.components[slot.component];
                const std::size_t row = (y * component.down + slot.row) * 8;
                blocks[i] = {coefficients, slot.steps, plane.row(row) + (x * component.across + slot.column) * 8,
                             plane.stride};
                is_flat[i] = size == 1;
            }
            for (std::size_t i = 0; i < work.count; i += 2) {
                const std::size_t other = std::min(i + 1, work.count - 1);
                if (is_flat[i] && is_flat[other]) {
                    kernels_.flat(blocks[i]);
                    if (other != i) kernels_.flat(blocks[other]);
                } else {
                    kernels_.transform(blocks[i], blocks[other]);
                }
            }
        }
    }
    return is_used_up() && stretch + 1 == stretches_.ends.size();
}

bool Decoder::read_blocks(const Header& header) { return scan<0>(header); }

#ifdef HEADRACE_FOR_BMI2
HEADRACE_FOR_BMI2
#endif
bool Decoder::read_blocks_bmi2(const Header& header) { return scan<1>(header); }

std::uint8_t* Decoder::chroma(Plane& plane, const Header& header, std::size_t row,
                              std::vector<std::uint8_t>& wide) const {
    const Component& luma = header.components[0];
    if (luma.across == 1) return plane.row(row);
    const auto ready = [&](std::size_t number) {
        std::uint8_t* const samples = plane.row(number);
        samples[-1] = samples[0];
        samples[plane.columns] = samples[plane.columns - 1];
        return samples;
    };
    if (luma.down == 1) {
        kernels_.widen(ready(row), plane.columns, wide.data());
        return wide.data();
    }
    const std::size_t near = row / 2;
    const std::size_t far = row % 2 == 0 ? near - (near == 0 ? 0 : 1) : std::min(near + 1, plane.rows - 1);
    kernels_.widen_two(ready(near), ready(far), plane.columns, wide.data());
    return wide.data();
}

void Decoder::pixels(const Header& header, std::uint8_t* out) {
    for (std::size_t row = 0; row < header.height; ++row) {
        if (header.channels == 1) {
            std::memcpy(out, planes_[0].row(row), header.width);
        } else {
            const std::uint8_t* const blue = chroma(planes_[1], header, row, wide_[0]);
            const std::uint8_t* const red = chroma(planes_[2], header, row, wide_[1]);
            kernels_.colours(planes_[0].row(row), blue, red, header.width, out);
        }
        out += std::size_t{header.width} * header.channels;
    }
}

} // namespace headrace::jpeg
