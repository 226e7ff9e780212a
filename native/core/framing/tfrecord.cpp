#include "core/framing/tfrecord.hpp"

#include <algorithm>
#include <utility>

#include "core/checksum/crc32c.hpp"

namespace headrace::tfrecord {
namespace {

std::uint32_t masked(Bytes data) { return mask_crc(crc32c(data)); }

void check_payload(Bytes payload, std::uint64_t offset) {
    const auto stored = load_le<std::uint32_t>(payload.data() + payload.size());
    const std::uint32_t computed = masked(payload);
    if (stored != computed) throw FormatError(Fault::payload_checksum, offset, stored, computed);
}

} // namespace

Bytes payload_at(Bytes file, std::uint64_t offset, Checks checks) {
    if (offset > file.size() || file.size() - offset < header_size)
        throw FormatError(Fault::truncated, offset, header_size, offset > file.size() ? 0 : file.size() - offset);
    const Bytes header = file.subspan(offset, header_size);
    const auto length = load_le<std::uint64_t>(header.data());
    if (checks != Checks::bounds) {
        const auto stored = load_le<std::uint32_t>(header.data() + 8);
        const std::uint32_t computed = masked(header.first(8));
        if (stored != computed) throw FormatError(Fault::length_checksum, offset, stored, computed);
    }
    const std::uint64_t left = file.size() - offset - header_size;
    if (left < footer_size || length > left - footer_size) {
        const std::uint64_t needed = length > UINT64_MAX - footer_size ? length : length + footer_size;
        throw FormatError(Fault::truncated, offset, needed, left);
    }
    const Bytes payload = file.subspan(offset + header_size, length);
    if (checks == Checks::all) check_payload(payload, offset);
    return payload;
}

std::vector<Bytes> gather(std::span<const Bytes> files, std::span<const std::int32_t> which,
                          std::span<const std::int64_t> offsets, Checks checks) {
    const auto number_of = [which](std::size_t i) { return which.empty() ? 0 : static_cast<std::size_t>(which[i]); };
    std::vector<Bytes> payloads(offsets.size());
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        if (i + headers_ahead < offsets.size())
            prefetch_header(files, number_of(i + headers_ahead),
                            static_cast<std::uint64_t>(offsets[i + headers_ahead]));
        const std::size_t number = number_of(i); // Negative numbers and offsets become too large.
        try {
            if (number >= files.size()) throw FormatError(Fault::range, 0, files.size(), number);
            payloads[i] = payload_at(files[number], static_cast<std::uint64_t>(offsets[i]), checks);
        } catch (FormatError& error) {
            error.record = static_cast<std::int64_t>(i);
            throw;
        }
    }
    return payloads;
}

Scan scan(Bytes file, std::uint64_t start, std::uint64_t stop, bool verify, std::size_t max_records) {
    Scan out;
    out.next = start;
    const std::uint64_t end = std::min<std::uint64_t>(stop, file.size());
    while (out.next < end && out.starts.size() < max_records) {
        try {
            const Bytes payload = payload_at(file, out.next, verify ? Checks::all : Checks::lengths);
            out.starts.push_back(static_cast<std::int64_t>(out.next));
            out.next += overhead + payload.size();
        } catch (const FormatError& fault) {
            out.faulty = true;
            out.fault = fault;
            out.fault.record = static_cast<std::int64_t>(out.starts.size());
            break;
        }
    }
    return out;
}

std::int64_t find(Bytes file, std::uint64_t start, Patience* patience) {
    Patience own = Patience::of(file.size());
    if (patience == nullptr) patience = &own;
    for (std::uint64_t at = start; at < file.size() && file.size() - at >= overhead; ++at) {
        // The length alone rules out most positions. Its checksum then matches by chance once in 2^32.
        const auto length = load_le<std::uint64_t>(file.data() + at);
        if (length > file.size() - at - overhead || length > patience->left) continue;
        if (load_le<std::uint32_t>(file.data() + at + 8) != masked(file.subspan(at, 8))) continue;
        const Bytes payload = file.subspan(at + header_size, length);
        if (load_le<std::uint32_t>(payload.data() + length) == masked(payload)) return static_cast<std::int64_t>(at);
        patience->spend(length);
    }
    return -1;
}

void frame(std::span<std::byte> block, std::span<const std::int64_t> starts, std::span<const std::int64_t> sizes) {
    for (std::size_t i = 0; i < starts.size(); ++i) {
        const auto start = static_cast<std::uint64_t>(starts[i]);
        const auto size = static_cast<std::uint64_t>(sizes[i]);
        const bool fits = std::cmp_greater_equal(starts[i], header_size) && sizes[i] >= 0 && start <= block.size() &&
                          size <= block.size() - start && block.size() - start - size >= footer_size;
        if (!fits) {
            FormatError error(Fault::range, start, block.size(), start + size);
            error.record = static_cast<std::int64_t>(i);
            throw error;
        }
        std::byte* const header = block.data() + start - header_size;
        store_le<std::uint64_t>(header, size);
        store_le<std::uint32_t>(header + 8, masked(Bytes(header, 8)));
        store_le<std::uint32_t>(block.data() + start + size, masked(Bytes(block.data() + start, size)));
    }
}

} // namespace headrace::tfrecord
