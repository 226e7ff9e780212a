#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/spans.hpp"

/// RecordIO framing (dmlc-core, include/dmlc/recordio.h): parts of a little-endian uint32 magic word, a uint32 that
/// holds a flag (upper 3 bits) and the payload's length (lower 29), the payload, and zeros up to a multiple of 4. A
/// record is one part, or several. Where there are several, dmlc has cut a magic word out between each two, which its
/// reader puts back; ML-IO's writer cuts anywhere, and its reader joins the parts as they are. Nothing in the frame
/// tells which.
namespace headrace::recordio {

inline constexpr std::uint32_t magic = 0xCED7230A;
inline constexpr std::size_t header_size = 8;
inline constexpr std::size_t alignment = 4;
inline constexpr std::uint64_t size_limit = std::uint64_t{1} << 29; ///< A part is smaller.

/// Size of a payload with its padding.
[[nodiscard]] constexpr std::uint64_t padded(std::uint64_t size) noexcept {
    return (size + alignment - 1) & ~std::uint64_t{alignment - 1};
}

/// How the parts of a record become one payload.
enum class Join : std::uint8_t {
    magic, ///< With the magic word between each two: dmlc's way.
    plain, ///< As they are: ML-IO's way.
};

/// A record as it lies in a file.
struct Record {
    Bytes payload;           ///< Of the first part: the whole payload where there is one part only.
    std::uint64_t begin = 0; ///< Where its first header begins,
    std::uint64_t end = 0;   ///< and where the next record would.
    std::size_t parts = 1;
    std::uint64_t size = 0; ///< Of all payloads together.

    /// Size of the joined payload.
    [[nodiscard]] std::uint64_t joined_size(Join join) const noexcept {
        return size + (join == Join::magic ? (parts - 1) * sizeof(magic) : 0);
    }
};

/// The record that begins at `offset`. Throws FormatError with that offset: `truncated` when a header, a payload or its
/// padding reaches past the end, `magic` (`expected` the word, `found` what is there), `part` when a part's flag does
/// not follow the one before it (`expected` 0: whole or first, 2: middle or last; `found` the flag).
[[nodiscard]] Record record_at(Bytes file, std::uint64_t offset);

/// Writes the joined payload of a record that `record_at` gave for the same file. `to` has `joined_size` bytes; nothing
/// is written outside it, whatever the file holds by now. Throws FormatError{changed}, or what `record_at` throws,
/// where that is something else.
void join_parts(Bytes file, const Record& record, Join join, std::span<std::byte> to);

using headrace::Scan;

/// What became of the rows of parts that were walked over in one buffer. Many first parts may lead into one long row of
/// others: without this, finding and scanning would walk over it for each of them. One part in `step` is remembered.
class Walks {
  public:
    static constexpr std::size_t step = 64;

    /// Where the record at `offset` ends. Throws what `record_at` throws.
    [[nodiscard]] std::uint64_t end_of(Bytes file, std::uint64_t offset);

    /// How many parts were looked at so far.
    [[nodiscard]] std::uint64_t looked() const noexcept { return looked_; }

  private:
    struct Outcome {
        std::uint64_t end;
        std::optional<FormatError> fault; ///< Why there is no end; its offset is that of another record.
    };

    [[nodiscard]] Outcome walk(Bytes file, std::uint64_t offset);
    void remember(const std::vector<std::uint64_t>& parts, std::size_t outcome);

    std::unordered_map<std::uint64_t, std::size_t>
        marks_; ///< By where a part begins: what became of the walk that came by.
    std::vector<Outcome> outcomes_;
    std::uint64_t looked_ = 0;
};

/// Hops from record to record, beginning at `start`, as long as they start before `stop` and there are fewer than
/// `max_records`. Where it stops a wrong magic word is a fault already, so that a fault and the record before it (whose
/// length may be what is wrong) are seen together.
[[nodiscard]] Scan scan(Bytes file, std::uint64_t start, std::uint64_t stop, std::size_t max_records,
                        Walks* walks = nullptr);

/// The first offset from `start` on, at a multiple of 4, at which a whole record stands, or -1: how to go on behind
/// damage. Calls that share `walks` look together at no more than `Walks::step` parts for each magic word, and at each
/// part once more.
[[nodiscard]] std::int64_t find(Bytes file, std::uint64_t start, Walks* walks = nullptr);

/// Frames the payloads of a block as records of one part each and moves them together, beginning at the block's first
/// byte. Payload i lies at starts[i], with 8 free bytes before it and its padding behind it. Nothing is moved where
/// nothing more is free. Returns how much of the block is used. Throws FormatError{range} with `record` set when a
/// payload does not lie so, or is 2^29 bytes or longer.
[[nodiscard]] std::uint64_t frame(std::span<std::byte> block, std::span<const std::int64_t> starts,
                                  std::span<const std::int64_t> sizes);

} // namespace headrace::recordio
