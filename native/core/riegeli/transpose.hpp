#pragma once

#include <array>

#include "core/riegeli/chunk.hpp"

namespace headrace::riegeli {

/// A transposed chunk: protobuf messages taken apart into buffers, one per field, and a state machine that reassembles
/// them from the last byte to the first. Source: the Riegeli project, riegeli/chunk_encoding/transpose_decoder.cc.
class Transposed {
  public:
    /// Finds the header, which may be compressed. Throws FormatError as `parse_simple` does.
    explicit Transposed(Bytes data, std::uint64_t most_bytes = most_decoded_bytes);

    [[nodiscard]] Part& header() noexcept { return header_; }
    [[nodiscard]] std::vector<Part>& buckets() noexcept { return buckets_; }
    [[nodiscard]] Part& transitions() noexcept { return transitions_; }

    /// Finds the other parts. The header must be decoded.
    void parse_header();

    /// Reassembles the records in `output`, whose size is the one in the chunk's header, and appends them. All parts
    /// must be decoded. Throws `structure` or `truncated`.
    void assemble(std::uint64_t num_records, std::span<std::byte> output, std::vector<Bytes>& records);

  private:
    enum class Act : std::uint8_t {
        nothing,
        plain_record,
        begin_message,
        begin_submessage,
        end_submessage,
        tag,
        varint,
        fixed,
        bytes
    };

    struct Node {
        Act act = Act::nothing;
        bool implicit = false;       // Continues without a transition.
        std::uint8_t tag_size = 0;   // The tag, followed by the value of an inline varint.
        std::uint8_t value_size = 0; // Of `varint` and `fixed`.
        std::array<std::byte, 6> tag{};
        std::uint32_t next = 0;
        std::uint32_t buffer = 0;
    };

    class Machine;

    void parse_buckets(Cursor& header);
    void parse_nodes(Cursor& header);
    static void read_tag(Node& node, std::uint32_t id, Cursor& subtypes);
    [[nodiscard]] static bool owns_buffer(const Node& node) noexcept;
    void refuse_implicit_loops() const;
    void cut_buffers();

    std::uint64_t most_bytes_;
    Bytes data_; // After the header: buckets and transitions.
    Codec codec_ = Codec::none;
    Part header_;
    std::vector<Part> buckets_;
    Part transitions_;
    std::vector<std::uint64_t> buffer_sizes_;
    std::vector<Cursor> buffers_;
    std::vector<Node> nodes_;
    std::uint32_t first_ = 0;
};

} // namespace headrace::riegeli
