#pragma once

#include <vector>

#include "core/base/spans.hpp"

/// TFRecord framing: little-endian uint64 length, masked CRC-32C of those eight bytes, payload, masked CRC-32C of the
/// payload. Source: TensorFlow, tensorflow/core/lib/io/record_writer.h.
namespace headrace::tfrecord {

inline constexpr std::size_t header_size = 12;
inline constexpr std::size_t footer_size = 4;
inline constexpr std::size_t overhead = header_size + footer_size;

/// What to check besides the bounds.
enum class Checks : std::uint8_t { bounds, lengths, all };

/// The payload of the record at `offset`. Throws FormatError with that offset: `truncated` if header, payload or footer
/// extends past the end; `length_checksum`; `payload_checksum`.
[[nodiscard]] Bytes payload_at(Bytes file, std::uint64_t offset, Checks checks);

/// The payloads of many records. Record i begins at offsets[i] of files[which[i]], or of files[0] if `which` is empty.
/// Throws as payload_at does, and FormatError{range} for a file number out of range, with `record` set.
[[nodiscard]] std::vector<Bytes> gather(std::span<const Bytes> files, std::span<const std::int32_t> which,
                                        std::span<const std::int64_t> offsets, Checks checks);

using headrace::Scan;

/// Collects records from `start` on that begin before `stop`, at most `max_records`. Always checks lengths; checks
/// payloads if `verify` is set.
[[nodiscard]] Scan scan(Bytes file, std::uint64_t start, std::uint64_t stop, bool verify, std::size_t max_records);

/// How many bytes `find` may still checksum in vain. Starts at 64 times the file size, more than accidental damage
/// needs.
struct Patience {
    std::uint64_t left;

    static Patience of(std::uint64_t size) noexcept { return {size > UINT64_MAX / 64 ? UINT64_MAX : size * 64}; }

    void spend(std::uint64_t bytes) noexcept { left -= bytes < left ? bytes : left; }
};

/// The first offset from `start` on that holds a whole record with valid checksums, or -1. For resuming after damage.
/// In a hostile file, a header could begin at every byte and claim all the rest, so headers that claim more than is
/// left of `patience` are skipped. By default, each call has its own budget.
[[nodiscard]] std::int64_t find(Bytes file, std::uint64_t start, Patience* patience = nullptr);

/// Fills in header and footer around the payloads of a block. Payload i is at starts[i], with 12 free bytes before it
/// and 4 after it. Throws FormatError{range} with `record` set if one has no such room.
void frame(std::span<std::byte> block, std::span<const std::int64_t> starts, std::span<const std::int64_t> sizes);

} // namespace headrace::tfrecord
