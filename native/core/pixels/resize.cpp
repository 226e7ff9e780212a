#include "core/pixels/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <span>

#include "core/pixels/alpha.hpp"

// The filters, the order of the passes and every rounding are those of Image.resize in Pillow 13.

namespace headrace::pixels {
namespace {

constexpr int fraction = 22;
constexpr int low_bits = 15;
constexpr std::size_t most_strip = 32;  ///< Rows that are resized together.
constexpr std::size_t least_shrink = 4; ///< Halves take as long to decode as whole images, and their pixels are worse.
constexpr std::size_t most_samples = std::size_t{1} << 26; ///< Of resized rows in memory.
constexpr std::size_t kept_samples = std::size_t{1} << 22;

double sinc(double x) { return x == 0.0 ? 1.0 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi); }

double support_of(Filter filter) {
    switch (filter) {
    case Filter::bilinear: return 1.0;
    case Filter::bicubic: return 2.0;
    case Filter::lanczos: return 3.0;
    default: return 0.5;
    }
}

double weight_of(Filter filter, double x) {
    const double distance = std::abs(x);
    switch (filter) {
    case Filter::bilinear: return distance < 1.0 ? 1.0 - distance : 0.0;
    case Filter::bicubic: {
        constexpr double a = -0.5;
        if (distance < 1.0) return ((a + 2.0) * distance - (a + 3.0)) * distance * distance + 1;
        return distance < 2.0 ? (((distance - 5) * distance + 8) * distance - 4) * a : 0.0;
    }
    case Filter::lanczos: return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
    default: return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    }
}

std::int32_t fixed(double weight) {
    return static_cast<std::int32_t>(weight * (1 << fraction) + (weight < 0 ? -0.5 : 0.5));
}

void put(WeightPair& pair, std::size_t which, std::int32_t weight) {
    pair.low[which] = static_cast<std::int16_t>(weight & ((1 << low_bits) - 1));
    pair.high[which] = static_cast<std::int16_t>(weight >> low_bits);
}

std::int32_t weight_in(const WeightPair& pair, std::size_t which) {
    return pair.high[which] * (1 << low_bits) + pair.low[which];
}

void weigh(const std::uint8_t* rows, std::size_t step, const WeightPair* pairs, std::size_t count, std::size_t columns,
           std::uint8_t* out) {
    constexpr std::size_t block = 64;
    for (std::size_t begin = 0; begin < columns; begin += block) {
        const std::size_t width = std::min(block, columns - begin);
        std::array<std::int32_t, block> sums;
        sums.fill(1 << (fraction - 1));
        for (std::size_t j = 0; j < count; ++j) {
            const std::int32_t weight = weight_in(pairs[j / 2], j % 2);
            const std::uint8_t* const row = rows + j * step + begin;
            for (std::size_t i = 0; i < width; ++i) sums[i] += row[i] * weight;
        }
        for (std::size_t i = 0; i < width; ++i) {
            out[begin + i] = static_cast<std::uint8_t>(std::clamp(sums[i] >> fraction, 0, 255));
        }
    }
}

void transpose(const std::uint8_t* from, std::size_t from_step, std::size_t rows, std::size_t columns, std::uint8_t* to,
               std::size_t to_step) {
    for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j) to[j * to_step + i] = from[i * from_step + j];
    }
}

constexpr ResizeKernels plain{&weigh, &transpose};

/// How much shorter a side becomes.
double loss(std::size_t from, std::size_t to) { return static_cast<double>(from) - static_cast<double>(to); }

/// One side of the part of a shrunk image that holds [begin, begin + length) of the image.
struct Cover {
    std::size_t begin, length;
    double from, to; ///< Where the part begins and ends, counted from `begin`.
};

Cover cover_of(std::size_t begin, std::size_t length, std::size_t side, std::size_t shrink) {
    const std::size_t first = begin / shrink;
    const std::size_t last = std::min((begin + length + shrink - 1) / shrink, (side + shrink - 1) / shrink);
    const auto place = [&](std::size_t at) {
        return static_cast<double>(at) / static_cast<double>(shrink) - static_cast<double>(first);
    };
    return {first, last - first, place(begin), place(begin + length)};
}

} // namespace

const ResizeKernels& plain_resize_kernels() noexcept { return plain; }

void Taps::fill(std::size_t length, double from, double to, std::size_t count, std::size_t first, std::size_t last,
                Filter filter) {
    samples.clear();
    pairs.clear();
    is_copy = from == 0.0 && to == static_cast<double>(length) && length == count;
    const double scale = (to - from) / static_cast<double>(count);
    const double filter_scale = std::max(scale, 1.0);
    const double support = support_of(filter) * filter_scale;
    if (is_copy || filter == Filter::nearest) {
        double place = from + 0.5 * scale; // Added up, since Pillow's roundings decide where it falls between two.
        for (std::size_t i = 0; i < last; ++i, place += scale) {
            if (i < first) continue;
            samples.push_back({is_copy ? i : std::min(static_cast<std::size_t>(place), length - 1), 1, pairs.size()});
            put(pairs.emplace_back(), 0, 1 << fraction);
        }
        return rebase(length);
    }
    std::vector<double> weights;
    for (std::size_t i = first; i < last; ++i) {
        const double centre = from + (static_cast<double>(i) + 0.5) * scale;
        const auto edge = [&](double place) {
            return static_cast<std::size_t>(std::clamp(place + 0.5, 0.0, static_cast<double>(length)));
        };
        const std::size_t begin_at = std::min(edge(centre - support), length - 1);
        const std::size_t end_at = std::max(edge(centre + support), begin_at + 1);
        weights.clear();
        double sum = 0;
        for (std::size_t at = begin_at; at < end_at; ++at) {
            const double distance = static_cast<double>(at) - centre + 0.5;
            sum += weights.emplace_back(weight_of(filter, distance * (1.0 / filter_scale)));
        }
        samples.push_back({begin_at, weights.size(), pairs.size()});
        for (std::size_t k = 0; k < weights.size(); ++k) {
            if (k % 2 == 0) pairs.emplace_back();
            put(pairs.back(), k % 2, fixed(sum != 0.0 ? weights[k] / sum : weights[k]));
        }
    }
    rebase(length);
}

void Taps::rebase(std::size_t length) {
    begin = length, end = 0;
    for (const Sample& sample : samples) {
        begin = std::min(begin, sample.begin);
        end = std::max(end, sample.begin + sample.count);
    }
    for (Sample& sample : samples) sample.begin -= begin;
}

void Resizer::plan(const View& view, Size image, Filter filter, std::size_t shrink) {
    const Box& window = view.window;
    const Cover columns = cover_of(view.box.left, view.box.width, image.width, shrink);
    const Cover rows = cover_of(view.box.top, view.box.height, image.height, shrink);
    across_.fill(columns.length, columns.from, columns.to, view.size.width, window.left, window.left + window.width,
                 filter);
    down_.fill(rows.length, rows.from, rows.to, view.size.height, window.top, window.top + window.height, filter);
    needed_ = {rows.begin + down_.begin, columns.begin + across_.begin, down_.end - down_.begin,
               across_.end - across_.begin};
    window_ = {window.height, window.width};
    is_flipped_ = view.is_flipped;
    is_weighed_ = filter != Filter::nearest && !(across_.is_copy && down_.is_copy);
    are_columns_first_ = !across_.is_copy && !down_.is_copy &&
                         loss(rows.length, view.size.height) > 2 * std::max(0.0, loss(columns.length, view.size.width));
}

void Resizer::run(Pixels from, std::size_t channels, std::uint8_t* out) {
    const bool is_alpha = is_weighed_ && has_alpha(channels);
    if (is_alpha) {
        multiplied_.resize(needed_.height * needed_.width * channels);
        multiply_by_alpha(from, {needed_.height, needed_.width}, channels, multiplied_.data());
        from = {multiplied_.data(), needed_.width * channels};
    }
    are_columns_first_ ? run_columns_first(from, channels, out) : run_rows_first(from, channels, out);
    if (is_alpha) divide_by_alpha(out, window_.height * window_.width, channels);
}

void Resizer::run_columns_first(const Pixels& from, std::size_t channels, std::uint8_t* out) {
    const std::size_t wide = needed_.width * channels, narrow = window_.width * channels;
    const std::size_t at_once = std::clamp<std::size_t>(most_samples / std::max(wide, narrow), 1, window_.height);
    flat_.resize(at_once * wide);
    for (std::size_t first = 0; first < window_.height; first += at_once) {
        const std::size_t rows = std::min(at_once, window_.height - first);
        resize_columns(from, wide, first, rows, flat_.data(), wide);
        resize_rows({flat_.data(), wide}, rows, channels, 0, window_.width);
        std::memcpy(out + first * narrow, narrow_.data(), rows * narrow);
    }
}

void Resizer::run_rows_first(Pixels from, std::size_t channels, std::uint8_t* out) {
    const std::size_t row_size = window_.width * channels;
    if (across_.is_copy) {
        if (is_flipped_) {
            mirror_rows(from, channels);
            from = {narrow_.data(), row_size};
        }
        return resize_columns(from, row_size, 0, window_.height, out, row_size);
    }
    // All rows are resized before the first column. Those of a tall image could take thousands of times the memory of
    // the image, so some columns of the result are made at a time.
    const std::size_t rows = std::max(needed_.height, most_strip);
    const std::size_t at_once = std::max<std::size_t>(1, most_samples / (rows * channels));
    for (std::size_t first = 0; first < window_.width; first += at_once) {
        const std::size_t columns = std::min(at_once, window_.width - first);
        resize_rows(from, needed_.height, channels, first, columns);
        resize_columns({narrow_.data(), columns * channels}, columns * channels, 0, window_.height,
                       out + first * channels, row_size);
    }
}

void Resizer::resize_columns(const Pixels& from, std::size_t row_size, std::size_t first_row, std::size_t rows_out,
                             std::uint8_t* out, std::size_t out_stride) const {
    for (const Taps::Sample& sample : std::span(down_.samples).subspan(first_row, rows_out)) {
        const std::uint8_t* const rows = from.data + sample.begin * from.stride;
        if (down_.is_copy) {
            std::memcpy(out, rows, row_size);
        } else {
            kernels_.weigh(rows, from.stride, down_.pairs.data() + sample.pairs, sample.count, row_size, out);
        }
        out += out_stride;
    }
}

void Resizer::mirror_rows(const Pixels& from, std::size_t channels) {
    const std::size_t row_size = window_.width * channels;
    narrow_.resize(needed_.height * row_size);
    for (std::size_t row = 0; row < needed_.height; ++row) {
        std::uint8_t* to = narrow_.data() + (row + 1) * row_size - channels;
        const std::uint8_t* at = from.data + row * from.stride;
        for (std::size_t i = 0; i < window_.width; ++i, at += channels, to -= channels) std::memcpy(to, at, channels);
    }
}

void Resizer::resize_rows(const Pixels& from, std::size_t height, std::size_t channels, std::size_t first_column,
                          std::size_t columns) {
    const std::size_t first_sample = is_flipped_ ? window_.width - first_column - columns : first_column;
    const auto samples = std::span(across_.samples).subspan(first_sample, columns);
    std::size_t left = samples.front().begin, right = 0;
    for (const Taps::Sample& sample : samples) {
        left = std::min(left, sample.begin);
        right = std::max(right, sample.begin + sample.count);
    }
    // With its columns as rows, a strip of rows is resized like columns are.
    const std::size_t wide = (right - left) * channels, narrow = columns * channels;
    const std::size_t strip = std::clamp<std::size_t>(most_samples / wide, 1, most_strip);
    const std::size_t rows = std::max(height, strip);
    narrow_.resize(rows * narrow);
    turned_.resize(wide * strip);
    turned_narrow_.resize(narrow * strip);
    const std::size_t one = strip * channels;
    const std::uint8_t* const begin = from.data + left * channels;
    for (std::size_t row = 0; row < rows; row += strip) {
        const std::size_t first = std::min(row, rows - strip); // The last strip begins in the one before.
        Pixels at{begin + first * from.stride, from.stride};
        if (height < strip) {
            few_.assign(strip * wide, 0);
            for (std::size_t i = 0; i < height; ++i) {
                std::memcpy(few_.data() + i * wide, begin + i * from.stride, wide);
            }
            at = {few_.data(), wide};
        }
        kernels_.transpose(at.data, at.stride, strip, wide, turned_.data(), strip);
        for (std::size_t i = 0; i < columns; ++i) {
            const Taps::Sample& sample = samples[is_flipped_ ? columns - 1 - i : i];
            kernels_.weigh(turned_.data() + (sample.begin - left) * one, one, across_.pairs.data() + sample.pairs,
                           sample.count, one, turned_narrow_.data() + i * one);
        }
        kernels_.transpose(turned_narrow_.data(), strip, narrow, strip, narrow_.data() + first * narrow, narrow);
    }
}

void Resizer::shrink() noexcept {
    for (auto* each : {&multiplied_, &flat_, &narrow_, &turned_, &turned_narrow_, &few_}) {
        if (each->capacity() > kept_samples) *each = {};
    }
}

std::size_t shrink_for(const View& view, std::size_t most, double room) noexcept {
    const auto leaves_room = [&](std::size_t by) {
        const auto is_enough = [&](std::size_t from, std::size_t to) {
            return static_cast<double>(from) >= room * static_cast<double>(by) * static_cast<double>(to);
        };
        return is_enough(view.box.height, view.size.height) && is_enough(view.box.width, view.size.width);
    };
    for (std::size_t by = most; by >= least_shrink; by /= 2) {
        if (leaves_room(by)) return by;
    }
    return 1;
}

} // namespace headrace::pixels
