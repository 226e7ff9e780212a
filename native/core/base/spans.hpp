#pragma once

#include <cstdint>
#include <vector>

#include "core/base/cpu.hpp"
#include "core/base/cursor.hpp"

namespace headrace {

class GuardedRead;

/// Check data next to a payload in memory. Checking it while decoding reads the payload from memory only once.
enum class Seal : std::uint8_t {
    none,     ///< Nothing to check, or already checked.
    tfrecord, ///< Masked CRC-32C of the payload, in the four bytes after it.
};

/// A second reading of a payload whose frame is ambiguous.
struct Alternative {
    std::size_t record; ///< Index of the payload.
    Bytes payload;
};

/// Payloads of some records, in the requested order. These are views: their owner keeps the bytes alive.
struct Spans {
    std::vector<Bytes> payloads;
    Seal seal = Seal::none;
    std::vector<Alternative> alternatives; ///< In record order; the decoder picks the valid reading.

    /// The second reading of record `i`, or nullptr.
    [[nodiscard]] const Alternative* alternative(std::size_t i) const noexcept;

    /// Checks the seal of record `i`. Throws FormatError{payload_checksum} with `record` set.
    void check(std::size_t i) const;

  private:
    friend class PayloadReader;

    void compare(std::size_t i, std::uint32_t crc) const;
};

/// Reads payloads one after the other. Prefetches some of those that follow while it computes the checksum of one: the
/// hardware prefetcher handles long streams, but not a checksum computed at several places at once, nor the random
/// addresses of a shuffled batch, and memory would be idle while a payload is decoded.
class PayloadReader {
  public:
    /// `spans` must outlive the reader.
    explicit PayloadReader(const Spans& spans) noexcept;

    /// The payload of record `i`, whose seal is checked. Each call is for a later record. Throws like Spans::check.
    Bytes read(std::size_t i);

    /// Call after the last use of the record read last. If this thread's guard has to test its seal, tests it now,
    /// while it is in the nearest cache.
    void leave() noexcept {
        if (guard_ != nullptr) look_behind();
    }

    /// Tells the guard if no seal was zero when its record was left. Nothing may read the payloads later inside it.
    void note_intact() const noexcept;

  private:
    void look_behind() noexcept;

    GuardedRead* guard_; ///< That looks behind the payloads, or nullptr.
    const Spans* spans_;
    std::size_t next_ = 0;  ///< The first record that was not prefetched.
    std::size_t ahead_ = 0; ///< Bytes of those that were prefetched and are not read.
    std::size_t last_ = 0;  ///< The record that was read last.
    std::size_t left_ = 0;  ///< Records whose seals were not zero when they were left.
};

/// How many headers ahead of the one that is read to prefetch: they may be at random addresses.
inline constexpr std::size_t headers_ahead = 16;

/// Prefetches what is at an offset of a file. Nothing happens if there is no such file or place.
inline void prefetch_header(std::span<const Bytes> files, std::size_t number, std::uint64_t offset) noexcept {
#if defined(__GNUC__) || defined(__clang__)
    if (number < files.size() && offset < files[number].size()) __builtin_prefetch(files[number].data() + offset);
#else
    (void)files, (void)number, (void)offset;
#endif
}

/// Contiguous rows of equal size. `bytes` holds `count * size` bytes; the caller has checked that.
struct Rows {
    Bytes bytes;
    std::size_t size = 0; ///< Bytes of one row; may be 0.
    std::size_t count = 0;
};

/// Whether each number is the one before it plus one.
[[nodiscard]] bool is_run(std::span<const std::int64_t> all) noexcept;

/// Copies rows to `out` in the order of `indices`, adjacent ones together. Throws FormatError{range} (record = position
/// in `indices`) for an index out of range, before anything is written. `out` holds indices.size() * rows.size bytes.
/// With `swapped` 2, 4 or 8, rows hold numbers of so many bytes, and the bytes of each are reversed.
void take_rows(const Rows& rows, std::span<const std::int64_t> indices, std::byte* out, std::size_t swapped = 0);

/// Rows that vary in length: row i has the elements from offsets[i] up to offsets[i + 1].
struct VaryingRows {
    Rows elements;
    std::span<const std::int64_t> offsets; ///< One more than there are rows.

    /// The elements of row `index`. Throws FormatError{range} with this `record` if there is no such row.
    [[nodiscard]] Rows row(std::int64_t index, std::size_t record) const;
};

/// Copies each row to `out`, cut to `length` elements or followed by `fill`, the bytes of one element, up to them.
/// `out` holds that many for each row. Throws FormatError{range} (record = the row) for offsets outside the elements.
void pad_rows(const VaryingRows& rows, std::size_t length, Bytes fill, std::byte* out);

/// Copies rows to `out` end to end, in the order of `indices`. Row i is one of parts[which[i]], or of parts[0] if
/// `which` is null. `ends` has the end of each in `out`, in bytes. Throws FormatError{range} (record = position in
/// `indices`) for a row or a part that is none, or a row of another size.
void take_varying_rows(std::span<const VaryingRows> parts, const std::int32_t* which,
                       std::span<const std::int64_t> indices, std::span<const std::size_t> ends, std::byte* out);

/// Copies `size` bytes from each place to `out`. Place i is at offsets[i] of files[which[i]], or of files[0] if `which`
/// is null; otherwise `which` has one number per offset. Throws FormatError{range} with `record` set for a place
/// outside its file, before anything is written. `out` holds offsets.size() * size bytes. `swapped` as above.
void take_ranges(std::span<const Bytes> files, const std::int32_t* which, std::span<const std::int64_t> offsets,
                 std::size_t size, std::byte* out, std::size_t swapped = 0);

/// Reverses the bytes of each number of `size` bytes (2, 4 or 8). Bytes after the last whole number stay.
void swap_bytes(std::span<std::byte> numbers, std::size_t size, const Cpu& cpu = this_cpu) noexcept;

/// The part of each of these positions: part k holds positions firsts[k] up to firsts[k + 1]. `firsts` does not fall. A
/// position before the first part gives -1, one behind the last part the number of parts. `out` has room for all.
void find_parts(std::span<const std::int64_t> firsts, std::span<const std::int64_t> positions,
                std::int32_t* out) noexcept;

/// The result of scanning a buffer for consecutive records.
struct Scan {
    std::vector<std::int64_t> starts; ///< Starts of the valid records, in order.
    std::uint64_t next = 0;           ///< Where the next record would begin.
    bool faulty = false;              ///< Whether a damaged record begins at `next`; see `fault`.
    FormatError fault{Fault::truncated, 0};
};

} // namespace headrace
