#include "core/framing/recordio.hpp"

#include <algorithm>

namespace headrace::recordio {
namespace {

/// Bits 29 to 31 of the length word.
enum class Flag : std::uint8_t { whole = 0, first = 1, middle = 2, last = 3 };

struct Part {
    Bytes payload;
    Flag flag;
    std::uint64_t end;
};

/// Reads the part at `offset`. Faults carry `record_offset`.
Part part_at(Bytes file, std::uint64_t offset, std::uint64_t record_offset, bool opens) {
    const std::uint64_t left = offset > file.size() ? 0 : file.size() - offset;
    if (left >= sizeof(magic)) {
        const auto word = load_le<std::uint32_t>(file.data() + offset);
        if (word != magic) throw FormatError(Fault::magic, record_offset, magic, word);
    }
    if (left < header_size) throw FormatError(Fault::truncated, record_offset, header_size, left);
    const auto word = load_le<std::uint32_t>(file.data() + offset + sizeof(magic));
    const std::uint32_t flag = word >> 29;
    const bool follows = opens ? flag <= 1 : flag == 2 || flag == 3;
    if (!follows) throw FormatError(Fault::part, record_offset, opens ? 0 : 2, flag);
    const std::uint64_t size = word & (size_limit - 1);
    if (padded(size) > left - header_size)
        throw FormatError(Fault::truncated, record_offset, padded(size), left - header_size);
    return {file.subspan(offset + header_size, size), static_cast<Flag>(flag), offset + header_size + padded(size)};
}

/// Copies bytes to the start of `to` and drops that part of it. Returns false if they do not fit.
bool put(std::span<std::byte>& to, Bytes bytes) {
    if (bytes.size() > to.size()) return false;
    if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
    to = to.subspan(bytes.size());
    return true;
}

void check_room(std::span<std::byte> block, std::uint64_t free_from, std::int64_t start, std::int64_t size,
                std::size_t record) {
    const auto from = static_cast<std::uint64_t>(start);
    const auto length = static_cast<std::uint64_t>(size);
    std::uint64_t limit = block.size();
    std::uint64_t reach = from;
    if (size < 0 || length >= size_limit) {
        limit = size_limit - 1, reach = length;
    } else if (start >= 0 && from >= free_from + header_size && from <= block.size() &&
               padded(length) <= block.size() - from) {
        return;
    }
    FormatError error(Fault::range, from, limit, reach);
    error.record = static_cast<std::int64_t>(record);
    throw error;
}

bool goes_on(const Part& part) noexcept { return part.flag == Flag::first || part.flag == Flag::middle; }

} // namespace

Record record_at(Bytes file, std::uint64_t offset) {
    Part part = part_at(file, offset, offset, true);
    Record record{part.payload, offset, part.end, 1, part.payload.size()};
    while (goes_on(part)) {
        part = part_at(file, part.end, offset, false);
        record.end = part.end;
        ++record.parts;
        record.size += part.payload.size();
    }
    return record;
}

void join_parts(Bytes file, const Record& record, Join join, std::span<std::byte> to) {
    constexpr std::uint32_t word = magic;
    std::uint64_t at = record.begin;
    bool fits = true;
    for (std::size_t number = 0; fits && number < record.parts; ++number) {
        if (number != 0 && join == Join::magic) fits = put(to, std::as_bytes(std::span(&word, 1)));
        const Part part = part_at(file, at, record.begin, number == 0);
        fits = fits && put(to, part.payload);
        at = part.end;
    }
    if (!fits || !to.empty()) throw FormatError(Fault::changed, record.begin, record.size);
}

std::uint64_t Walks::end_of(Bytes file, std::uint64_t offset) {
    const Outcome found = walk(file, offset);
    if (!found.fault) return found.end;
    FormatError fault = *found.fault;
    fault.offset = offset;
    throw fault;
}

Walks::Outcome Walks::walk(Bytes file, std::uint64_t offset) {
    std::vector<std::uint64_t> passed;
    Outcome found{0, std::nullopt};
    try {
        ++looked_;
        Part part = part_at(file, offset, offset, true);
        for (std::size_t walked = 1; goes_on(part); ++walked) {
            if (const auto known = marks_.find(part.end); known != marks_.end()) {
                remember(passed, known->second);
                return outcomes_[known->second];
            }
            if (walked % step == 0) passed.push_back(part.end);
            ++looked_;
            part = part_at(file, part.end, offset, false);
        }
        found.end = part.end;
    } catch (const FormatError& fault) {
        found.fault = fault;
    }
    if (!passed.empty()) {
        outcomes_.push_back(found);
        remember(passed, outcomes_.size() - 1);
    }
    return found;
}

void Walks::remember(const std::vector<std::uint64_t>& parts, std::size_t outcome) {
    for (const std::uint64_t part : parts) marks_.emplace(part, outcome);
}

Scan scan(Bytes file, std::uint64_t start, std::uint64_t stop, std::size_t max_records, Walks* walks) {
    Walks own;
    if (walks == nullptr) walks = &own;
    Scan out;
    out.next = start;
    const std::uint64_t end = std::min<std::uint64_t>(stop, file.size());
    try {
        while (out.next < end && out.starts.size() < max_records) {
            const std::uint64_t behind = walks->end_of(file, out.next);
            out.starts.push_back(static_cast<std::int64_t>(out.next));
            out.next = behind;
        }
        if (!out.starts.empty() && out.next < file.size() && file.size() - out.next >= sizeof(magic)) {
            const auto word = load_le<std::uint32_t>(file.data() + out.next);
            if (word != magic) throw FormatError(Fault::magic, out.next, magic, word);
        }
    } catch (const FormatError& fault) {
        out.faulty = true;
        out.fault = fault;
        out.fault.record = static_cast<std::int64_t>(out.starts.size());
    }
    return out;
}

std::int64_t find(Bytes file, std::uint64_t start, Walks* walks) {
    Walks own;
    if (walks == nullptr) walks = &own;
    for (std::uint64_t at = padded(start); at < file.size() && file.size() - at >= header_size; at += alignment) {
        if (load_le<std::uint32_t>(file.data() + at) != magic) continue;
        try {
            (void)walks->end_of(file, at);
            return static_cast<std::int64_t>(at);
        } catch (const FormatError&) { // A magic word inside a payload, or a damaged record.
        }
    }
    return -1;
}

std::uint64_t frame(std::span<std::byte> block, std::span<const std::int64_t> starts,
                    std::span<const std::int64_t> sizes) {
    std::uint64_t used = 0;
    std::uint64_t free_from = 0; // The end of the previous payload, before it was moved.
    for (std::size_t i = 0; i < starts.size(); ++i) {
        check_room(block, free_from, starts[i], sizes[i], i);
        const auto start = static_cast<std::uint64_t>(starts[i]);
        const auto size = static_cast<std::uint64_t>(sizes[i]);
        std::byte* const header = block.data() + used;
        if (used + header_size != start) std::memmove(header + header_size, block.data() + start, size);
        store_le(header, magic);
        store_le(header + sizeof(magic), static_cast<std::uint32_t>(size));
        std::fill_n(header + header_size + size, padded(size) - size, std::byte{0});
        used += header_size + padded(size);
        free_from = start + padded(size);
    }
    return used;
}

} // namespace headrace::recordio
