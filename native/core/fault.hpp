#pragma once

#include <cstdint>
#include <exception>

namespace headrace {

/// What is wrong with some bytes. Python turns a fault and its numbers into a sentence; C++ never makes words.
enum class Fault : std::uint8_t {
    truncated,        ///< The bytes end before `expected` of them could be read; `found` are left.
    length_checksum,  ///< The checksum of a length field does not match (`expected` stored, `found` computed).
    payload_checksum, ///< The checksum of a payload does not match (`expected` stored, `found` computed).
    wire,             ///< Not valid on the protobuf wire (a bad tag, an overlong varint, a length past the end).
    wrong_kind,       ///< A feature holds another kind of list (`expected` and `found` are kinds).
    wrong_count,      ///< A feature holds another number of values (`expected` and `found` are counts).
    missing,          ///< A required feature is not there.
    header,           ///< A file header does not follow its grammar.
    magic,            ///< The magic bytes are not there.
    range,            ///< A number is outside what the caller allowed (`expected` the limit, `found` the number).
    header_checksum,  ///< The checksum of a chunk's or block's header does not match (`expected` stored, `found` computed).
    structure,        ///< The parts of a chunk contradict each other.
    part,             ///< A part of a record is of another kind than must follow (`expected`, `found` are its flags).
    tensor,           ///< Values, keys and shape of a tensor contradict each other.
    changed,          ///< The bytes were changed while they were read: `expected` of them, or of the values in them, were there before.
    wrong_shape,      ///< A feature has another shape, or is dense where a sparse one is wanted, or the other way round.
};

/// The only exception that core throws. Offsets count from the beginning of the bytes the caller handed in.
struct FormatError : std::exception {
    Fault fault;
    std::uint64_t offset;       ///< Byte at which the fault was seen.
    std::uint64_t expected = 0; ///< See Fault.
    std::uint64_t found = 0;    ///< See Fault.
    std::int64_t record = -1;   ///< Which record of the call, or -1.
    std::int64_t feature = -1;  ///< Which feature of the decoder, or -1.

    FormatError(Fault what_, std::uint64_t offset_, std::uint64_t expected_ = 0, std::uint64_t found_ = 0) noexcept
        : fault(what_), offset(offset_), expected(expected_), found(found_) {}

    [[nodiscard]] const char* what() const noexcept override { return "headrace format error"; }
};

} // namespace headrace
