#pragma once

#include <cstdint>
#include <vector>

#include "core/base/cursor.hpp"

namespace headrace {

/// What surrounds a payload in memory and can be checked against it, so that the check and the decoding of a record
/// touch its bytes once, while they are in the cache.
enum class Seal : std::uint8_t {
    none,     ///< Nothing to check (or it was checked before).
    tfrecord, ///< Masked CRC-32C of the payload in the four bytes behind it.
};

/// Another reading of a payload, where its frame leaves two open.
struct Alternative {
    std::size_t record; ///< Which payload.
    Bytes payload;
};

/// Payloads of some records, in the order they were asked for. Views: whoever made them keeps the bytes alive.
struct Spans {
    std::vector<Bytes> payloads;
    Seal seal = Seal::none;
    std::vector<Alternative>
        alternatives; ///< In the order of the records; whoever decodes takes the one that makes sense.

    /// The other reading of record `i`, or nothing.
    [[nodiscard]] const Alternative* alternative(std::size_t i) const noexcept;

    /// Asks for the first lines of a payload that is read soon after record `i`: the processor foresees a long stream,
    /// but not that the checksum of a record is taken in three places at once, nor where the next record of a shuffled
    /// batch lies.
    void prefetch_after(std::size_t i) const noexcept;

    /// Checks the seal of record `i`. Throws FormatError{payload_checksum} with `record` set.
    void check(std::size_t i) const;

    /// Both for record `i`: the next payload is asked for while the checksum of this one is taken.
    void check_and_prefetch(std::size_t i) const;

  private:
    void compare(std::size_t i, std::uint32_t crc) const;
};

/// Rows of equal size that lie one behind the other; `bytes` holds `count * size` of them, as the caller has checked.
struct Rows {
    Bytes bytes;
    std::size_t size = 0;  ///< Bytes of one row; may be 0.
    std::size_t count = 0; ///< How many there are.
};

/// Copies rows to `out` in the order of `indices`, neighbours in one go. Throws FormatError{range} (record = position
/// in `indices`) before anything is written when an index is not a row. `out` holds indices.size() * rows.size bytes.
void take_rows(const Rows& rows, std::span<const std::int64_t> indices, std::byte* out);

/// Copies `size` bytes from each place to `out`: place i is byte offsets[i] of files[which[i]] (of files[0] where
/// `which` is null; else it holds as many numbers as there are offsets). Throws FormatError{range} with `record` set
/// before anything is written when a place is not inside its file. `out` holds offsets.size() * size bytes.
void take_ranges(std::span<const Bytes> files, const std::int32_t* which, std::span<const std::int64_t> offsets,
                 std::size_t size, std::byte* out);

/// What looking for the records of a buffer, one behind the other, has found.
struct Scan {
    std::vector<std::int64_t> starts; ///< Of the sound records, in order.
    std::uint64_t next = 0;           ///< Where the one after them begins.
    bool faulty = false;              ///< Whether `next` is the start of a damaged record; `fault` says how.
    FormatError fault{Fault::truncated, 0};
};

} // namespace headrace
