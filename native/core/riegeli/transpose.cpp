#include "core/riegeli/transpose.hpp"

#include <algorithm>

#include "core/protobuf/wire.hpp"

namespace headrace::riegeli {
namespace {

// Ids of nodes without a field. Any other id is a tag, or a tag whose wire type means "end of submessage".
constexpr std::uint32_t id_nothing = 0;
constexpr std::uint32_t id_plain_record = 1;
constexpr std::uint32_t id_begin_submessage = 2;
constexpr std::uint32_t id_begin_message = 3;
constexpr std::uint32_t wire_end_submessage = 6;

// The byte for a varint field: up to nine, its number of bytes in the buffer less one; from ten on, the value itself.
constexpr std::uint32_t first_inline = 10;
constexpr std::uint32_t last_inline = first_inline + 127;

[[noreturn]] void refuse() { throw FormatError(Fault::structure, 0); }

std::uint32_t varint32(Cursor& cursor) {
    const std::uint64_t value = cursor.varint();
    if (value > UINT32_MAX) refuse();
    return static_cast<std::uint32_t>(value);
}

// Reads a count of items that take at least one byte each.
std::uint32_t count_of(Cursor& cursor) {
    const std::uint32_t count = varint32(cursor);
    if (count > cursor.remaining()) refuse();
    return count;
}

bool is_varint_tag(std::uint32_t id) { return id >= 8 && (id & 7) == static_cast<std::uint32_t>(proto::Wire::varint); }

} // namespace

Transposed::Transposed(Bytes data, std::uint64_t most_bytes) : most_bytes_(most_bytes) {
    Cursor cursor(data);
    codec_ = read_codec(cursor);
    const std::uint64_t size = cursor.varint();
    header_ = read_part(codec_, cursor.take(size), most_bytes);
    data_ = cursor.take(cursor.remaining());
}

void Transposed::parse_header() {
    Cursor header(header_.decoded);
    parse_buckets(header);
    parse_nodes(header);
    if (!header.done()) refuse();
    refuse_implicit_loops();
}

void Transposed::parse_buckets(Cursor& header) {
    const std::uint32_t num_buckets = count_of(header);
    const std::uint32_t num_buffers = count_of(header);
    Cursor data(data_);
    std::uint64_t total = 0;
    for (std::uint32_t i = 0; i < num_buckets; ++i) {
        buckets_.push_back(read_part(codec_, data.take(header.varint()), most_bytes_));
        total += buckets_.back().decoded_size;
        if (total > most_bytes_) throw FormatError(Fault::range, 0, most_bytes_, total);
    }
    for (std::uint32_t i = 0; i < num_buffers; ++i) buffer_sizes_.push_back(header.varint());
    transitions_ = read_part(codec_, data.take(data.remaining()), most_bytes_);
}

void Transposed::parse_nodes(Cursor& header) {
    const std::uint32_t count = count_of(header);
    nodes_.resize(count);
    std::vector<std::uint32_t> ids(count);
    for (std::uint32_t& id : ids) id = varint32(header);
    for (Node& node : nodes_) {
        const std::uint32_t next = varint32(header);
        node.implicit = next >= count;
        node.next = node.implicit ? next - count : next;
        if (node.next >= count) refuse();
    }
    const auto varints = std::count_if(ids.begin(), ids.end(), is_varint_tag);
    Cursor subtypes(header.take(static_cast<std::uint64_t>(varints)));
    for (std::uint32_t i = 0; i < count; ++i) {
        read_tag(nodes_[i], ids[i], subtypes);
        if (!owns_buffer(nodes_[i])) continue;
        nodes_[i].buffer = varint32(header);
        if (nodes_[i].buffer >= buffer_sizes_.size()) refuse();
    }
    first_ = varint32(header);
    if (first_ >= count) refuse();
}

void Transposed::read_tag(Node& node, std::uint32_t id, Cursor& subtypes) {
    switch (id) {
    case id_nothing: return;
    case id_plain_record: node.act = Act::plain_record; return;
    case id_begin_submessage: node.act = Act::begin_submessage; return;
    case id_begin_message: node.act = Act::begin_message; return;
    default: break;
    }
    const bool ends_submessage = (id & 7) == wire_end_submessage;
    const std::uint32_t tag = ends_submessage ? id - 4 : id;
    if (tag < 8) refuse();
    node.tag_size = static_cast<std::uint8_t>(proto::write_varint(node.tag.data(), tag) - node.tag.data());
    if (ends_submessage) {
        node.act = Act::end_submessage;
        return;
    }
    switch (tag & 7) {
    case static_cast<std::uint32_t>(proto::Wire::varint): {
        const auto subtype = subtypes.le<std::uint8_t>();
        if (subtype > last_inline) refuse();
        node.act = subtype < first_inline ? Act::varint : Act::tag;
        if (subtype < first_inline) node.value_size = static_cast<std::uint8_t>(subtype + 1);
        else node.tag[node.tag_size++] = static_cast<std::byte>(subtype - first_inline);
        return;
    }
    case static_cast<std::uint32_t>(proto::Wire::fixed32):
    case static_cast<std::uint32_t>(proto::Wire::fixed64):
        node.act = Act::fixed;
        node.value_size = (tag & 7) == static_cast<std::uint32_t>(proto::Wire::fixed32) ? 4 : 8;
        return;
    case static_cast<std::uint32_t>(proto::Wire::bytes): node.act = Act::bytes; return;
    case static_cast<std::uint32_t>(proto::Wire::group):
    case static_cast<std::uint32_t>(proto::Wire::end_group): node.act = Act::tag; return;
    default: refuse();
    }
}

bool Transposed::owns_buffer(const Node& node) noexcept {
    return node.act == Act::plain_record || node.act == Act::varint || node.act == Act::fixed || node.act == Act::bytes;
}

void Transposed::refuse_implicit_loops() const {
    std::vector<std::uint32_t> seen_from(nodes_.size(), 0);
    for (std::uint32_t start = 0; start < nodes_.size(); ++start) {
        std::uint32_t at = start;
        while (nodes_[at].implicit && seen_from[at] == 0) {
            seen_from[at] = start + 1;
            at = nodes_[at].next;
        }
        if (nodes_[at].implicit && seen_from[at] == start + 1) refuse();
    }
}

// Every buffer is within one bucket. Together they fill all buckets.
void Transposed::cut_buffers() {
    std::vector<Cursor> rests;
    rests.reserve(buckets_.size());
    for (const Part& bucket : buckets_) rests.emplace_back(bucket.decoded);
    std::size_t bucket = 0;
    for (const std::uint64_t size : buffer_sizes_) {
        while (bucket + 1 < rests.size() && rests[bucket].done()) ++bucket;
        if (bucket >= rests.size()) refuse();
        buffers_.emplace_back(rests[bucket].take(size));
    }
    if (!std::ranges::all_of(rests, [](const Cursor& rest) { return rest.done(); })) refuse();
}

class Transposed::Machine {
  public:
    Machine(Transposed& chunk, std::span<std::byte> output) : chunk_(chunk), output_(output), left_(output.size()) {
        if (std::ranges::any_of(chunk.nodes_, [](const Node& node) { return node.act == Act::plain_record; })) {
            if (chunk.buffers_.empty()) refuse();
            lengths_ = &chunk.buffers_.back();
        }
    }

    void run(std::uint64_t num_records) {
        most_records_ = num_records;
        Cursor transitions(chunk_.transitions_.decoded);
        std::uint32_t at = chunk_.first_;
        unsigned repeats = chunk_.nodes_[at].implicit ? 1 : 0;
        // The output bounds only the steps that write, so bound the others here, in proportion to the work.
        std::uint64_t idle_left = 64 + 8 * (transitions.remaining() + output_.size() + num_records);
        for (;;) {
            const Node& node = chunk_.nodes_[at];
            if (node.act == Act::nothing && idle_left-- == 0) refuse();
            step(node);
            at = node.next;
            if (repeats != 0) {
                if (!chunk_.nodes_[at].implicit) --repeats;
                continue;
            }
            if (transitions.done()) break;
            const auto transition = transitions.le<std::uint8_t>();
            at += transition >> 2;
            if (at >= chunk_.nodes_.size()) refuse();
            repeats = (transition & 3U) + (chunk_.nodes_[at].implicit ? 1 : 0);
        }
        const bool used = std::ranges::all_of(chunk_.buffers_, [](const Cursor& rest) { return rest.done(); });
        if (left_ != 0 || !open_.empty() || begins_.size() != num_records || !used) refuse();
    }

    // Where the records begin, from the last to the first.
    [[nodiscard]] const std::vector<std::size_t>& begins() const noexcept { return begins_; }

  private:
    struct Open {
        std::size_t end; // The end of the submessage in the output.
        const Node* node;
    };

    void step(const Node& node) {
        switch (node.act) {
        case Act::nothing: return;
        case Act::tag: break;
        case Act::varint: put_varint(chunk_.buffers_[node.buffer].take(node.value_size)); break;
        case Act::fixed: put(chunk_.buffers_[node.buffer].take(node.value_size)); break;
        case Act::bytes: put_string(chunk_.buffers_[node.buffer]); break;
        case Act::end_submessage:
            open_.push_back({left_, &node});
            // Nothing is written until it begins, but then at least two bytes are. That bounds the open ones.
            if (open_.size() > output_.size()) refuse();
            return;
        case Act::begin_submessage: begin_submessage(); return;
        case Act::plain_record:
            put(chunk_.buffers_[node.buffer].take(lengths_->varint()));
            begin_record();
            return;
        case Act::begin_message: begin_record(); return;
        }
        put({node.tag.data(), node.tag_size});
    }

    std::byte* make_room(std::size_t size) {
        if (size > left_) refuse();
        left_ -= size;
        return output_.data() + left_;
    }

    void put(Bytes bytes) {
        std::byte* const to = make_room(bytes.size());
        if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    }

    void put_varint(Bytes bytes) {
        put(bytes);
        for (std::byte& byte : output_.subspan(left_, bytes.size() - 1)) byte |= std::byte{0x80};
    }

    void put_string(Cursor& buffer) {
        const std::byte* const begin = buffer.position();
        buffer.skip(buffer.varint());
        put({begin, static_cast<std::size_t>(buffer.position() - begin)});
    }

    void begin_submessage() {
        if (open_.empty()) refuse();
        const Open open = open_.back();
        open_.pop_back();
        const std::size_t length = open.end - left_;
        proto::write_varint(make_room(proto::varint_size(length)), length);
        put({open.node->tag.data(), open.node->tag_size});
    }

    void begin_record() {
        if (!open_.empty() || begins_.size() == most_records_) refuse();
        begins_.push_back(left_);
    }

    Transposed& chunk_;
    std::span<std::byte> output_;
    std::size_t left_; // Output is filled from the end: this many bytes at the start are still to be written.
    Cursor* lengths_ = nullptr;
    std::uint64_t most_records_ = 0;
    std::vector<Open> open_;
    std::vector<std::size_t> begins_;
};

void Transposed::assemble(std::uint64_t num_records, std::span<std::byte> output, std::vector<Bytes>& records) {
    cut_buffers();
    Machine machine(*this, output);
    machine.run(num_records);
    const auto& begins = machine.begins();
    if (!begins.empty() && begins.back() != 0) refuse();
    for (std::size_t i = begins.size(); i-- > 0;)
        records.emplace_back(output.subspan(begins[i], (i == 0 ? output.size() : begins[i - 1]) - begins[i]));
}

} // namespace headrace::riegeli
