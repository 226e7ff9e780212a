#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>

namespace headrace {

/// What is wrong with some bytes. Python turns a fault and its numbers into a message; C++ writes no text.
enum class Fault : std::uint8_t {
    truncated,        ///< The bytes end before `expected` of them were read; `found` are left.
    length_checksum,  ///< The checksum of a length field does not match (`expected` stored, `found` computed).
    payload_checksum, ///< The checksum of a payload does not match (`expected` stored, `found` computed).
    wire,             ///< Not valid on the protobuf wire (a bad tag, an overlong varint, a length past the end).
    wrong_kind,       ///< A feature holds another kind of list (`expected` and `found` are kinds).
    wrong_count,      ///< A feature holds another number of values (`expected` and `found` are counts).
    missing,          ///< A required feature is absent.
    header,           ///< A file header does not follow its grammar.
    magic,            ///< The magic bytes are wrong.
    range,            ///< A number is out of range (`expected` the limit, `found` the number).
    header_checksum,  ///< The checksum of a chunk's or block's header does not match (`expected` stored, `found`
                      ///< computed).
    structure,        ///< The parts of a chunk contradict each other.
    part,             ///< A part of a record is out of sequence (`expected` and `found` are its flags).
    tensor,           ///< Values, keys and shape of a tensor contradict each other.
    changed,          ///< The bytes changed while they were read: `expected` bytes or values were there before.
    wrong_shape,      ///< A feature has another shape, or is dense instead of sparse or sparse instead of dense.
    flat,             ///< A feature has no steps, but flat values (`found` is their kind).
    steps,            ///< A feature has no flat values, but steps.
};

/// What core throws for damaged or unsuitable bytes. Offsets count from the start of the caller's bytes. Besides, core
/// throws std::bad_alloc, std::system_error for a failed mapping, and std::invalid_argument for specs that contradict
/// each other.
struct FormatError : std::exception {
    Fault fault;
    std::uint64_t offset;       ///< The byte at which the fault was detected.
    std::uint64_t expected = 0; ///< See Fault.
    std::uint64_t found = 0;    ///< See Fault.
    std::int64_t record = -1;   ///< Index of the record in the call, or -1.
    std::int64_t feature = -1;  ///< Index of the feature in the decoder, or -1.

    FormatError(Fault what_, std::uint64_t offset_, std::uint64_t expected_ = 0, std::uint64_t found_ = 0) noexcept
        : fault(what_),
          offset(offset_),
          expected(expected_),
          found(found_) {}

    [[nodiscard]] const char* what() const noexcept override { return "headrace format error"; }
};

using Bytes = std::span<const std::byte>;

/// Reads `T` from little-endian memory. The caller has checked its size. Compiles to one load.
template <typename T> [[nodiscard]] inline T load_le(const std::byte* from) noexcept {
    static_assert(std::endian::native == std::endian::little, "big-endian hosts need a byte swap here");
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

/// Writes `value` as little-endian memory. The caller has checked that there is room.
template <typename T> inline void store_le(std::byte* to, T value) noexcept {
    static_assert(std::endian::native == std::endian::little, "big-endian hosts need a byte swap here");
    std::memcpy(to, &value, sizeof value);
}

/// Concatenates the low seven bits of eight bytes: pairs, then fours, then all. Branch-free, so mixed lengths of two
/// and three bytes are as fast as equal ones.
[[nodiscard]] constexpr std::uint64_t join_sevens(std::uint64_t bytes) noexcept {
    bytes = (bytes & 0x007F007F007F007F) | (bytes & 0x7F007F007F007F00) >> 1;
    bytes = (bytes & 0x00003FFF00003FFF) | (bytes & 0x3FFF00003FFF0000) >> 2;
    return (bytes & 0x000000000FFFFFFF) | (bytes & 0x0FFFFFFF00000000) >> 4;
}

/// Turns bytes into integers, and checks every step against the end. All parsing goes through it.
class Cursor {
  public:
    /// `base` is added to the offsets in errors: the position of these bytes in a larger whole.
    explicit Cursor(Bytes bytes, std::uint64_t base = 0) noexcept
        : begin_(bytes.data()),
          at_(bytes.data()),
          end_(bytes.data() + bytes.size()),
          base_(base) {}

    /// The number of bytes that are left.
    [[nodiscard]] std::size_t remaining() const noexcept { return static_cast<std::size_t>(end_ - at_); }

    /// Whether no byte is left.
    [[nodiscard]] bool done() const noexcept { return at_ == end_; }

    /// The offset of the next byte, as in errors.
    [[nodiscard]] std::uint64_t offset() const noexcept { return base_ + static_cast<std::uint64_t>(at_ - begin_); }

    /// The next byte in memory.
    [[nodiscard]] const std::byte* position() const noexcept { return at_; }

    /// A little-endian integer or float.
    template <typename T> [[nodiscard]] T le() {
        need(sizeof(T));
        const T value = load_le<T>(at_);
        at_ += sizeof(T);
        return value;
    }

    /// The next `size` bytes, as a view.
    [[nodiscard]] Bytes take(std::uint64_t size) {
        need(size);
        const Bytes taken{at_, static_cast<std::size_t>(size)};
        at_ += size;
        return taken;
    }

    /// Passes over the next `size` bytes.
    void skip(std::uint64_t size) {
        need(size);
        at_ += size;
    }

    /// A protobuf base-128 varint of up to ten bytes. Drops bits beyond the 64th, as protobuf does.
    [[nodiscard]] std::uint64_t varint() {
        if (at_ != end_ && std::to_integer<std::uint8_t>(*at_) < 0x80) return std::to_integer<std::uint8_t>(*at_++);
        return long_varint();
    }

  private:
    void need(std::uint64_t size) const {
        if (size > remaining()) throw FormatError(Fault::truncated, offset(), size, remaining());
    }

    std::uint64_t long_varint() {
        constexpr std::uint64_t last_marks = 0x8080808080808080; // clear in the last byte of a varint
        if (remaining() < sizeof(std::uint64_t)) return varint_by_bytes();
        const auto word = load_le<std::uint64_t>(at_);
        const std::uint64_t last = ~word & last_marks;
        if (last == 0) return varint_by_bytes();
        at_ += (std::countr_zero(last) + 1) / 8;
        return join_sevens(word & (last ^ (last - 1)));
    }

    std::uint64_t varint_by_bytes() {
        std::uint64_t value = 0;
        const std::byte* at = at_;
        for (unsigned shift = 0; shift < 64; shift += 7) { // ten bytes: shifts 0, 7, ..., 63
            if (at == end_) throw FormatError(Fault::truncated, offset(), 1, 0);
            const auto byte = std::to_integer<std::uint64_t>(*at++);
            value |= (byte & 0x7F) << shift;
            if (byte < 0x80) {
                at_ = at;
                return value;
            }
        }
        throw FormatError(Fault::wire, offset());
    }

    const std::byte* begin_;
    const std::byte* at_;
    const std::byte* end_;
    std::uint64_t base_;
};

} // namespace headrace
