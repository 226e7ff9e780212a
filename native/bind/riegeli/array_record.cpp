#include <algorithm>
#include <string>

#include "bind/support.hpp"
#include "core/checksum/highway_hash.hpp"
#include "core/riegeli/array_record.hpp"
#include "core/riegeli/write.hpp"

namespace headrace::bind {
namespace {

using riegeli::ChunkToWrite;

nb::object array_of(const std::vector<std::int64_t>& numbers) {
    Pool::Block block = batch_pool()->take(numbers.size() * sizeof(std::int64_t));
    if (!numbers.empty()) std::memcpy(block.data(), numbers.data(), numbers.size() * sizeof(std::int64_t));
    return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {numbers.size()});
}

std::vector<std::int64_t> vector_of(Indices numbers) { return {numbers.data(), numbers.data() + numbers.shape(0)}; }

nb::bytes bytes_of(std::span<const std::byte> bytes) { return nb::bytes(bytes.data(), bytes.size()); }

std::vector<Buffer> hold(nb::sequence objects) {
    std::vector<Buffer> buffers;
    buffers.reserve(nb::len(objects));
    for (nb::handle object : objects) buffers.emplace_back(object);
    return buffers;
}

// The chunks to write. Their pieces are views of Python's buffers.
struct Plan {
    std::vector<ChunkToWrite> chunks;
    std::vector<std::int64_t> begins;
    std::uint64_t end = 0;
};

// The values of every group: single payloads, parts of one buffer, or compressed groups.
std::vector<std::vector<Bytes>> pieces_of(const std::vector<Buffer>& values, std::span<const std::int64_t> sizes,
                                          std::size_t group_size, bool compressed) {
    const std::size_t groups = (sizes.size() + group_size - 1) / group_size;
    std::vector<std::vector<Bytes>> pieces(groups);
    if (compressed) {
        if (values.size() != groups) throw nb::value_error("there must be one compressed buffer for each group");
        for (std::size_t i = 0; i < groups; ++i) pieces[i] = {values[i].bytes()};
        return pieces;
    }
    if (values.size() != 1 && values.size() != sizes.size()) throw nb::value_error("values and sizes differ in length");
    std::size_t at = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const bool cut = values.size() != sizes.size();
        const Bytes whole = values[cut ? 0 : i].bytes();
        const auto size = static_cast<std::size_t>(sizes[i]);
        const std::size_t begin = cut ? at : 0;
        if (sizes[i] < 0 || begin > whole.size() || size > whole.size() - begin || (!cut && size != whole.size()))
            throw nb::value_error("a size does not fit the values");
        pieces[i / group_size].push_back(whole.subspan(begin, size));
        at += size;
    }
    return pieces;
}

nb::tuple frame(std::uint64_t position, int codec, nb::sequence values, Indices sizes, std::size_t group_size,
                std::optional<nb::sequence> packed_sizes, bool pad) {
    if (group_size == 0) throw nb::value_error("group_size must be at least 1");
    if (position > riegeli::most_bytes || !riegeli::may_begin_chunk(position))
        throw nb::value_error("no chunk can begin there");
    const std::vector<Buffer> held = hold(values);
    const std::vector<Buffer> held_sizes = packed_sizes ? hold(*packed_sizes) : std::vector<Buffer>{};
    const std::span<const std::int64_t> all{sizes.data(), sizes.shape(0)};
    const auto kind = static_cast<riegeli::Codec>(codec);
    auto pieces = pieces_of(held, all, group_size, kind != riegeli::Codec::none);
    if (packed_sizes && held_sizes.size() != pieces.size())
        throw nb::value_error("there must be packed sizes for each group");

    Plan plan;
    Pool::Block block;
    {
        const nb::gil_scoped_release release;
        riegeli::SimplePrefixes prefixes(kind);
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            const Bytes packed = packed_sizes ? held_sizes[i].bytes() : Bytes{};
            prefixes.add(all.subspan(i * group_size, std::min(group_size, all.size() - i * group_size)),
                         packed_sizes ? &packed : nullptr);
        }
        plan.end = position;
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            ChunkToWrite chunk;
            for (const std::int64_t size :
                 all.subspan(i * group_size, std::min(group_size, all.size() - i * group_size))) {
                chunk.decoded_size += static_cast<std::uint64_t>(size);
                ++chunk.num_records;
            }
            chunk.pieces = std::move(pieces[i]);
            chunk.pieces.insert(chunk.pieces.begin(), prefixes[i]);
            plan.begins.push_back(static_cast<std::int64_t>(plan.end));
            plan.end = chunk.end(plan.end);
            if (pad) plan.end = riegeli::padding_end(plan.end);
            plan.chunks.push_back(std::move(chunk));
        }
        block = batch_pool()->take(plan.end - position);
        for (std::size_t i = 0; i < plan.chunks.size(); ++i) {
            const auto begin = static_cast<std::uint64_t>(plan.begins[i]);
            riegeli::write_chunk(plan.chunks[i], begin, block.data() + (begin - position));
            const std::uint64_t end = plan.chunks[i].end(begin);
            if (pad) riegeli::write_padding(end, block.data() + (end - position));
        }
    }
    nb::object framed =
        to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {static_cast<std::size_t>(plan.end - position)});
    return nb::make_tuple(framed, array_of(plan.begins), plan.end);
}

// Copies chunks unchanged to another position of another file. Only fields that depend on the position are rewritten.
nb::tuple copy_chunks(nb::object data, Indices begins, std::uint64_t position) {
    if (position > riegeli::most_bytes || !riegeli::may_begin_chunk(position))
        throw nb::value_error("no chunk can begin there");
    const Buffer buffer(data);
    const std::span<const std::int64_t> at{begins.data(), begins.shape(0)};
    std::vector<std::int64_t> placed;
    Pool::Block block;
    std::uint64_t end = position;
    {
        const nb::gil_scoped_release release;
        std::vector<riegeli::ChunkHeader> headers;
        std::size_t longest = 0;
        for (const std::int64_t begin : at) {
            headers.push_back(riegeli::read_chunk_header(buffer.bytes(), static_cast<std::uint64_t>(begin)));
            placed.push_back(static_cast<std::int64_t>(end));
            end = riegeli::chunk_end(end, headers.back().data_size, headers.back().num_records);
            if (headers.back().interrupted())
                longest = std::max(longest, static_cast<std::size_t>(headers.back().data_size));
        }
        block = batch_pool()->take(end - position);
        std::vector<std::byte> room(longest);
        for (std::size_t i = 0; i < headers.size(); ++i) {
            const riegeli::ChunkHeader& header = headers[i];
            const Bytes whole = riegeli::read_chunk_data(buffer.bytes(), header, room);
            riegeli::check_hash(header, riegeli_hash(whole));
            const auto begin = static_cast<std::uint64_t>(placed[i]);
            riegeli::write_chunk({header.type, header.num_records, header.decoded_size, {whole}}, begin,
                                 block.data() + (begin - position));
        }
    }
    nb::object copied =
        to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {static_cast<std::size_t>(end - position)});
    return nb::make_tuple(copied, array_of(placed), end);
}

nb::tuple parse_footer(const HeldSpans& spans) {
    const array_record::Footer footer = array_record::parse_footer(spans.spans.payloads);
    return nb::make_tuple(bytes_of(std::as_bytes(std::span(footer.options))), array_of(footer.offsets),
                          array_of(footer.decoded_sizes), array_of(footer.record_counts));
}

nb::tuple encode_footer(Indices offsets, Indices decoded_sizes, Indices counts, nb::bytes options) {
    array_record::Footer footer;
    footer.offsets = vector_of(offsets);
    footer.decoded_sizes = vector_of(decoded_sizes);
    footer.record_counts = vector_of(counts);
    if (footer.decoded_sizes.size() != footer.offsets.size() || footer.record_counts.size() != footer.offsets.size())
        throw nb::value_error("the columns of the footer differ in length");
    for (const std::int64_t count : footer.record_counts) footer.num_records += static_cast<std::uint64_t>(count);
    footer.options.assign(options.c_str(), options.size());
    const array_record::EncodedFooter encoded = array_record::encode_footer(footer);
    return nb::make_tuple(bytes_of(encoded.values), array_of(encoded.sizes));
}

nb::object framed_whole(std::uint64_t begin, std::uint64_t end, const auto& write) {
    Pool::Block block = batch_pool()->take(end - begin);
    write(block.data());
    return to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {static_cast<std::size_t>(end - begin)});
}

} // namespace

void register_array_record(nb::module_& module) {
    module.def(
        "frame_chunks", guarded(&frame), nb::arg("position"), nb::arg("codec"), nb::arg("values"), nb::arg("sizes"),
        nb::kw_only(), nb::arg("group_size"), nb::arg("packed_sizes").none() = nb::none(), nb::arg("pad") = false,
        nb::sig("def frame_chunks(position: int, codec: int, values: collections.abc.Sequence[collections.abc.Buffer], "
                "sizes: "
                "numpy.typing.NDArray[numpy.int64], *, group_size: int, packed_sizes: "
                "collections.abc.Sequence[collections.abc.Buffer] | None = None, pad: bool = False) -> "
                "tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64], int]"),
        "Simple chunks of group_size records as the bytes of a file from a position on, where each begins, and where "
        "they end. Values: the records (separate, or joined in one buffer), or, with a codec, each compressed group.");
    module.def(
        "frame_signature",
        [] {
            const ChunkToWrite chunk{riegeli::ChunkType::signature, 0, 0, {}};
            return framed_whole(0, chunk.end(0), [&](std::byte* to) { riegeli::write_chunk(chunk, 0, to); });
        },
        nb::sig("def frame_signature() -> numpy.typing.NDArray[numpy.uint8]"),
        "The first bytes of every Riegeli file.");
    module.def(
        "frame_padding",
        [](std::uint64_t position) {
            if (position > riegeli::most_bytes || !riegeli::may_begin_chunk(position))
                throw nb::value_error("no chunk can begin there");
            return framed_whole(position, riegeli::padding_end(position),
                                [&](std::byte* to) { riegeli::write_padding(position, to); });
        },
        nb::arg("position"), nb::sig("def frame_padding(position: int) -> numpy.typing.NDArray[numpy.uint8]"),
        "The padding that fills a file up to a block boundary.");
    module.def(
        "copy_chunks", guarded(&copy_chunks), nb::arg("data"), nb::arg("begins"), nb::arg("position"),
        nb::sig("def copy_chunks(data: collections.abc.Buffer, begins: numpy.typing.NDArray[numpy.int64], position: "
                "int) -> "
                "tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64], int]"),
        "Intact chunks as the bytes of another file from a position on, where each begins there, and where they end.");
    module.def(
        "size_block", [](Indices sizes) { return bytes_of(riegeli::encode_sizes({sizes.data(), sizes.shape(0)})); },
        nb::arg("sizes"), nb::sig("def size_block(sizes: numpy.typing.NDArray[numpy.int64]) -> bytes"),
        "Record sizes as chunks store them.");
    module.def("parse_footer", guarded(&parse_footer), nb::arg("spans"),
               nb::sig("def parse_footer(spans: Spans) -> tuple[bytes, numpy.typing.NDArray[numpy.int64], "
                       "numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]"),
               "The writer's options, and for each chunk its position, decoded size and number of records.");
    module.def("encode_footer", &encode_footer, nb::arg("offsets"), nb::arg("decoded_sizes"), nb::arg("counts"),
               nb::arg("options"),
               nb::sig("def encode_footer(offsets: numpy.typing.NDArray[numpy.int64], decoded_sizes: "
                       "numpy.typing.NDArray[numpy.int64], "
                       "counts: numpy.typing.NDArray[numpy.int64], options: bytes) -> tuple[bytes, "
                       "numpy.typing.NDArray[numpy.int64]]"),
               "The records of an ArrayRecord footer, joined, and their sizes.");
    module.def("parse_postscript", guarded([](const HeldSpans& spans) {
                   if (spans.spans.payloads.empty()) throw FormatError(Fault::structure, 0);
                   return array_record::parse_postscript(spans.spans.payloads[0]);
               }),
               nb::arg("spans"), nb::sig("def parse_postscript(spans: Spans) -> int"),
               "Where the footer chunk begins.");
    module.def(
        "encode_postscript", [](std::uint64_t footer) { return bytes_of(array_record::encode_postscript(footer)); },
        nb::arg("footer"), nb::sig("def encode_postscript(footer: int) -> bytes"), "A record of the postscript.");
}

} // namespace headrace::bind
