#include "core/parquet/levels.hpp"

#include <algorithm>
#include <utility>

namespace headrace::parquet {
namespace {

constexpr unsigned most_width = 32;
constexpr std::size_t group = 8; // numbers that are packed together

template <unsigned Width> void unpack_groups(const std::byte* from, std::span<std::uint32_t> to) noexcept {
    constexpr std::uint64_t mask = (std::uint64_t{1} << Width) - 1;
    for (std::size_t i = 0; i + group <= to.size(); i += group, from += Width) {
        [&]<std::size_t... K>(std::index_sequence<K...>) {
            ((to[i + K] =
                  static_cast<std::uint32_t>(load_le<std::uint64_t>(from + K * Width / 8) >> K * Width % 8 & mask)),
             ...);
        }(std::make_index_sequence<group>{});
    }
}

using Unpack = void (*)(const std::byte*, std::span<std::uint32_t>) noexcept;

template <std::size_t... Widths> constexpr auto table_of(std::index_sequence<Widths...>) {
    return std::array<Unpack, sizeof...(Widths)>{&unpack_groups<Widths>...};
}

constexpr auto unpackers = table_of(std::make_index_sequence<most_width + 1>{});

[[noreturn]] void refuse(const Cursor& cursor) { throw FormatError(Fault::structure, cursor.offset()); }

unsigned width_of(std::uint32_t most) noexcept { return static_cast<unsigned>(std::bit_width(most)); }

// Whether `count` packed numbers are all `value`.
bool are_packed_equal(const std::byte* packed, std::uint64_t count, unsigned width, std::uint32_t value) noexcept {
    std::array<std::uint32_t, 256> some{};
    for (std::uint64_t at = 0; at < count; at += some.size()) {
        const auto left = std::min<std::uint64_t>(count - at, some.size());
        unpack(packed + at / group * width, width, std::span(some).first((left + group - 1) / group * group));
        if (!std::all_of(some.begin(), some.begin() + static_cast<std::ptrdiff_t>(left),
                         [&](std::uint32_t found) { return found == value; }))
            return false;
    }
    return true;
}

// Appends the positions of the zeros among `count` packed bits; the first bit is at `position`.
void add_zeros(const std::byte* packed, std::uint64_t count, std::uint64_t position, std::vector<std::uint32_t>& to) {
    for (std::uint64_t at = 0; at < count; at += 64) {
        std::uint64_t word = 0;
        const auto bits = std::min<std::uint64_t>(count - at, 64);
        std::memcpy(&word, packed + at / 8, (bits + 7) / 8);
        std::uint64_t zeros = ~word;
        if (bits < 64) zeros &= (std::uint64_t{1} << bits) - 1;
        for (; zeros != 0; zeros &= zeros - 1)
            to.push_back(static_cast<std::uint32_t>(position + at + static_cast<unsigned>(std::countr_zero(zeros))));
    }
}

// The same as `add_levels` where all are those of values. False, with nothing added, if they are not.
bool add_values(std::span<const std::uint32_t> again, std::span<const std::uint32_t> levels, const LevelForm& form,
                PageRows& rows) {
    std::uint32_t other = 0, any = 0, repeated = 0;
    for (std::size_t i = 0; i < levels.size(); ++i) {
        other |= levels[i] ^ form.most;
        any |= again[i];
        repeated += again[i];
    }
    if (other != 0 || any > 1 || (rows.ends_empty && again[0] != 0)) return false;
    const auto values = static_cast<std::uint32_t>(rows.values);
    if (repeated != levels.size()) {
        std::size_t starts = rows.starts.size();
        rows.starts.resize(starts + levels.size());
        for (std::size_t i = 0; i < levels.size(); ++i) {
            rows.starts[starts] = values + static_cast<std::uint32_t>(i);
            starts += again[i] == 0 ? 1 : 0;
        }
        rows.starts.resize(starts);
    }
    rows.values += levels.size();
    rows.ends_empty = false;
    return true;
}

// Adds what some levels of lists say, at least one, without a branch for each: empty lists may be anywhere.
void add_levels(std::span<const std::uint32_t> again, std::span<const std::uint32_t> levels, const LevelForm& form,
                PageRows& rows) {
    const auto empty = static_cast<std::uint32_t>(form.empty);
    if (add_values(again, levels, form, rows)) return;
    std::size_t starts = rows.starts.size(), nulls = rows.nulls.size();
    rows.starts.resize(starts + levels.size());
    rows.nulls.resize(nulls + levels.size());
    auto values = static_cast<std::uint32_t>(rows.values);
    bool ends_empty = rows.ends_empty, is_wrong = false;
    for (std::size_t i = 0; i < levels.size(); ++i) {
        const bool goes_on = again[i] != 0, is_empty = levels[i] <= empty;
        // Nothing follows an empty list in its row.
        is_wrong |= levels[i] > form.most;
        is_wrong |= again[i] > 1;
        is_wrong |= goes_on & is_empty;
        is_wrong |= goes_on & ends_empty;
        rows.starts[starts] = rows.nulls[nulls] = values;
        starts += goes_on ? 0 : 1;
        nulls += levels[i] > empty && levels[i] < form.most ? 1 : 0;
        values += is_empty ? 0 : 1;
        ends_empty = is_empty;
    }
    rows.starts.resize(starts);
    rows.nulls.resize(nulls);
    rows.values = values;
    rows.ends_empty = ends_empty;
    if (is_wrong) throw FormatError(Fault::structure, values);
}

} // namespace

void unpack(const std::byte* from, unsigned width, std::span<std::uint32_t> to) noexcept { unpackers[width](from, to); }

HybridReader::HybridReader(Bytes bytes, unsigned width) : cursor_(bytes), width_(width) {
    if (width > most_width) refuse(cursor_);
}

HybridReader HybridReader::of_bits(Bytes bytes) {
    HybridReader reader(Bytes{}, 1);
    reader.run_ = {bytes.size() * group, 0, bytes.data()};
    return reader;
}

HybridReader::Run HybridReader::next_run() {
    const std::uint64_t head = cursor_.varint();
    Run run;
    if ((head & 1) != 0) {
        const std::uint64_t groups = head >> 1;
        if (width_ == 0) { // Nothing is stored: all are 0.
            run.count = groups > UINT32_MAX ? 0 : groups * group;
        } else {
            if (groups > cursor_.remaining() / width_) refuse(cursor_);
            run.count = groups * group;
            run.packed = cursor_.take(groups * width_).data();
        }
    } else {
        run.count = head >> 1;
        const Bytes value = cursor_.take((width_ + 7) / 8);
        for (std::size_t i = 0; i < value.size(); ++i) run.value |= std::to_integer<std::uint32_t>(value[i]) << 8 * i;
    }
    if (run.count == 0) refuse(cursor_);
    return run;
}

void HybridReader::refill() {
    if (run_.count == 0) run_ = next_run();
    at_ = 0;
    end_ = static_cast<std::size_t>(std::min<std::uint64_t>(run_.count, block_size));
    if (run_.packed == nullptr) {
        std::fill_n(block_.begin(), end_, run_.value);
    } else {
        unpack(run_.packed, width_, std::span(block_).first(end_));
        run_.packed += end_ / group * width_;
    }
    run_.count -= end_;
}

std::span<const std::uint32_t> HybridReader::take(std::size_t most) {
    if (at_ == end_) refill();
    const std::size_t count = std::min(most, end_ - at_);
    const std::span<const std::uint32_t> taken(block_.data() + at_, count);
    at_ += count;
    return taken;
}

bool are_all(Bytes levels, std::uint32_t most, std::uint64_t count) {
    HybridReader reader(levels, width_of(most));
    while (count > 0) {
        const HybridReader::Run run = reader.next_run();
        const std::uint64_t used = std::min(run.count, count);
        if (run.packed == nullptr ? run.value != most : !are_packed_equal(run.packed, used, width_of(most), most))
            return false;
        count -= used;
    }
    return true;
}

void find_zeros(Bytes levels, std::uint64_t count, std::vector<std::uint32_t>& to) {
    HybridReader reader(levels, 1);
    for (std::uint64_t at = 0; at < count;) {
        const HybridReader::Run run = reader.next_run();
        const std::uint64_t used = std::min(run.count, count - at);
        if (run.packed != nullptr) {
            add_zeros(run.packed, used, at, to);
        } else if (run.value == 0) {
            for (std::uint64_t i = at; i < at + used; ++i) to.push_back(static_cast<std::uint32_t>(i));
        } else if (run.value != 1) { // A run of one value has a whole byte for it.
            throw FormatError(Fault::structure, at);
        }
        at += used;
    }
}

void find_below(Bytes levels, std::uint32_t most, std::uint64_t count, std::vector<std::uint32_t>& to) {
    if (most == 1) return find_zeros(levels, count, to);
    HybridReader reader(levels, width_of(most));
    for (std::uint64_t at = 0; at < count;) {
        for (const std::uint32_t level : reader.take(count - at)) {
            if (level > most) throw FormatError(Fault::structure, at);
            if (level < most) to.push_back(static_cast<std::uint32_t>(at));
            ++at;
        }
    }
}

void read_rows(Bytes repetition, Bytes definition, std::uint64_t count, const LevelForm& form, PageRows& rows) {
    rows.starts.clear();
    rows.nulls.clear();
    rows.values = 0;
    rows.ends_empty = false;
    if (are_all(definition, form.most, count)) { // No list is empty: every level has a value.
        find_zeros(repetition, count, rows.starts);
        rows.values = count;
        return;
    }
    HybridReader repeated(repetition, 1), defined(definition, width_of(form.most));
    std::span<const std::uint32_t> again, level;
    while (count > 0) {
        if (again.empty()) again = repeated.take(count);
        if (level.empty()) level = defined.take(count);
        const std::size_t some = std::min(again.size(), level.size());
        add_levels(again.first(some), level.first(some), form, rows);
        again = again.subspan(some);
        level = level.subspan(some);
        count -= some;
    }
}

} // namespace headrace::parquet
