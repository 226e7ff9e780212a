#pragma once

#include <vector>

#include "core/base/spans.hpp"

/// TFRecord framing: little-endian uint64 length, masked CRC-32C of those eight bytes, payload, masked CRC-32C of the
/// payload. Source: TensorFlow, tensorflow/core/lib/io/record_writer.h.
namespace headrace::tfrecord {

inline constexpr std::size_t header_size = 12;
inline constexpr std::size_t footer_size = 4;
inline constexpr std::size_t overhead = header_size + footer_size;

/// What is to be checked beyond the bounds.
enum class Checks : std::uint8_t { bounds, lengths, all };

/// The payload of the record whose header begins at `offset`. Throws FormatError with that offset: `truncated` when
/// header, payload or footer reach past the end, `length_checksum`, `payload_checksum`.
[[nodiscard]] Bytes payload_at(Bytes file, std::uint64_t offset, Checks checks);

/// The payloads of many records: record i begins at offsets[i] of files[which[i]], or of the first file where `which`
/// is empty. Throws as payload_at does, and FormatError{range} for a file that is not there, with `record` set.
[[nodiscard]] std::vector<Bytes> gather(std::span<const Bytes> files, std::span<const std::int32_t> which,
                                        std::span<const std::int64_t> offsets, Checks checks);

using headrace::Scan;

/// Hops from record to record, beginning at `start`, as long as they start before `stop` and there are fewer than
/// `max_records`. Lengths are always checked, payloads when `verify` says so.
[[nodiscard]] Scan scan(Bytes file, std::uint64_t start, std::uint64_t stop, bool verify, std::size_t max_records);

/// How many bytes may still be summed in vain: at first 64 times those of the file, which no accident comes near.
struct Patience {
    std::uint64_t left;

    static Patience of(std::uint64_t size) noexcept { return {size > UINT64_MAX / 64 ? UINT64_MAX : size * 64}; }

    void spend(std::uint64_t bytes) noexcept { left -= bytes < left ? bytes : left; }
};

/// The first offset from `start` on at which a whole record with sound checksums stands, or -1: how to go on behind
/// damage. A file may be made so that a header stands at every place and each claims all the rest: headers that claim
/// more than is left of `patience` are passed over. Without one, this call has its own.
[[nodiscard]] std::int64_t find(Bytes file, std::uint64_t start, Patience* patience = nullptr);

/// Fills header and footer around the payloads of a block: payload i lies at starts[i] and has 12 free bytes before it
/// and 4 behind it. Throws FormatError{range} with `record` set when one does not.
void frame(std::span<std::byte> block, std::span<const std::int64_t> starts, std::span<const std::int64_t> sizes);

} // namespace headrace::tfrecord
