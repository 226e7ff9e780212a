#pragma once

#include <vector>

#include "core/cursor.hpp"

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
    std::vector<Alternative> alternatives; ///< In the order of the records; whoever decodes takes the one that makes sense.

    /// The other reading of record `i`, or nothing.
    [[nodiscard]] const Alternative* alternative(std::size_t i) const noexcept;

    /// Asks for the first lines of a payload that is read soon after record `i`: the processor foresees a long stream, but not that
    /// the checksum of a record is taken in three places at once, nor where the next record of a shuffled batch lies.
    void prefetch_after(std::size_t i) const noexcept;

    /// Checks the seal of record `i`. Throws FormatError{payload_checksum} with `record` set.
    void check(std::size_t i) const;

    /// Both for record `i`: the next payload is asked for while the checksum of this one is taken.
    void check_and_prefetch(std::size_t i) const;

  private:
    void compare(std::size_t i, std::uint32_t crc) const;
};

} // namespace headrace
