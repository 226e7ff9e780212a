#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/spans.hpp"

/// RecordIO framing (dmlc-core, include/dmlc/recordio.h). A part is a little-endian uint32 magic word, a uint32 with a
/// flag (upper 3 bits) and the payload's length (lower 29), the payload, and zero padding to a multiple of 4. A record
/// has one or more parts. dmlc's writer splits a record at each magic word in its payload and drops that word; its
/// reader restores it. ML-IO's writer splits anywhere, and its reader concatenates the parts. The frame does not say
/// which of them wrote it.
namespace headrace::recordio {

inline constexpr std::uint32_t magic = 0xCED7230A;
inline constexpr std::size_t header_size = 8;
inline constexpr std::size_t alignment = 4;
inline constexpr std::uint64_t size_limit = std::uint64_t{1} << 29; ///< The size of a part is below this.

/// The size of a payload including its padding.
[[nodiscard]] constexpr std::uint64_t padded(std::uint64_t size) noexcept {
    return (size + alignment - 1) & ~std::uint64_t{alignment - 1};
}

/// How to join the parts of a record.
enum class Join : std::uint8_t {
    magic, ///< With a magic word between parts: dmlc.
    plain, ///< Concatenated: ML-IO.
};

/// A record in a file.
struct Record {
    Bytes payload;           ///< Of the first part: the whole payload if there is only one part.
    std::uint64_t begin = 0; ///< Where its first header begins.
    std::uint64_t end = 0;   ///< Where the next record would begin.
    std::size_t parts = 1;
    std::uint64_t size = 0; ///< Of all payloads together.

    /// The size of the joined payload.
    [[nodiscard]] std::uint64_t joined_size(Join join) const noexcept {
        return size + (join == Join::magic ? (parts - 1) * sizeof(magic) : 0);
    }
};

/// Reads the record at `offset`. Throws FormatError with that offset: `truncated` if a header, a payload or its padding
/// extends past the end; `magic` (`expected` the word, `found` the actual bytes); `part` if a part's flag is out of
/// sequence (`expected` 0: whole or first, 2: middle or last; `found` the flag).
[[nodiscard]] Record record_at(Bytes file, std::uint64_t offset);

/// Writes the joined payload of a record that `record_at` returned for the same file. `to` has `joined_size` bytes;
/// nothing is written outside it, even if the file has changed since. Throws FormatError{changed}, or what `record_at`
/// throws.
void join_parts(Bytes file, const Record& record, Join join, std::span<std::byte> to);

using headrace::Scan;

/// Remembers where chains of parts in one buffer end. Many first parts may lead into one long chain; without this,
/// finding and scanning would walk it once for each of them. Keeps one part in `step`.
class Walks {
  public:
    static constexpr std::size_t step = 64;

    /// The end of the record at `offset`. Throws what `record_at` throws.
    [[nodiscard]] std::uint64_t end_of(Bytes file, std::uint64_t offset);

    /// The number of parts examined so far.
    [[nodiscard]] std::uint64_t looked() const noexcept { return looked_; }

  private:
    struct Outcome {
        std::uint64_t end;
        std::optional<FormatError> fault; ///< Why there is no end. Its offset is that of another record.
    };

    [[nodiscard]] Outcome walk(Bytes file, std::uint64_t offset);
    void remember(const std::vector<std::uint64_t>& parts, std::size_t outcome);

    std::unordered_map<std::uint64_t, std::size_t>
        marks_; ///< Maps the start of a part to the outcome of the walk that passed it.
    std::vector<Outcome> outcomes_;
    std::uint64_t looked_ = 0;
};

/// Collects records from `start` on that begin before `stop`, at most `max_records`. A wrong magic word at the end
/// counts as a fault even if scanning stops there: the length of the record before it may be to blame, so both are
/// reported together.
[[nodiscard]] Scan scan(Bytes file, std::uint64_t start, std::uint64_t stop, std::size_t max_records,
                        Walks* walks = nullptr);

/// The first offset from `start` on, a multiple of 4, that holds a whole record, or -1. For resuming after damage.
/// Calls that share `walks` examine each part once, plus at most `Walks::step` parts per magic word.
[[nodiscard]] std::int64_t find(Bytes file, std::uint64_t start, Walks* walks = nullptr);

/// Frames the payloads of a block as one-part records, and moves them together at the start of the block. Payload i is
/// at starts[i], with 8 free bytes before it and room for its padding after it. Without other free bytes, nothing
/// moves. Returns how much of the block is used. Throws FormatError{range} with `record` set if a payload has no such
/// room, or has 2^29 bytes or more.
[[nodiscard]] std::uint64_t frame(std::span<std::byte> block, std::span<const std::int64_t> starts,
                                  std::span<const std::int64_t> sizes);

} // namespace headrace::recordio
