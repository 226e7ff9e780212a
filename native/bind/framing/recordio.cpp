#include <string_view>

#include <nanobind/stl/string_view.h>

#include "bind/support.hpp"
#include "core/framing/recordio.hpp"

namespace headrace::bind {
namespace {

nb::tuple scan(nb::object data, std::uint64_t start, std::uint64_t stop, std::size_t max_records,
               recordio::Walks* walks) {
    const Buffer buffer(data);
    recordio::Scan found;
    {
        const nb::gil_scoped_release release;
        found = recordio::scan(buffer.bytes(), start, stop, max_records, walks);
    }
    return scanned(found);
}

/// Joins records of several parts in the requested way and, if `both`, also in the other.
class Joiner {
  public:
    Joiner(HeldSpans& held, recordio::Join join, bool both) : held_(held), join_(join), both_(both) {}

    Bytes payload(Bytes file, const recordio::Record& record, std::size_t i) {
        if (record.parts == 1) return record.payload;
        const Bytes joined = put(file, record, join_);
        if (both_)
            held_.spans.alternatives.push_back(
                {i, put(file, record, join_ == recordio::Join::magic ? recordio::Join::plain : recordio::Join::magic)});
        return joined;
    }

  private:
    Bytes put(Bytes file, const recordio::Record& record, recordio::Join join) {
        const std::uint64_t size = record.joined_size(join);
        held_.blocks.push_back(batch_pool()->take(size));
        recordio::join_parts(file, record, join, {held_.blocks.back().data(), size});
        return {held_.blocks.back().data(), size};
    }

    HeldSpans& held_;
    recordio::Join join_;
    bool both_;
};

HeldSpans gather(nb::object buffers, std::optional<Which> which, Indices offsets, std::string_view join) {
    if (join != "auto" && join != "magic" && join != "plain")
        throw nb::value_error("join is 'auto', 'magic' or 'plain'");
    HeldSpans held;
    held.parent = hold_buffers(std::move(buffers));
    const auto& from = nb::cast<const HeldBuffers&>(held.parent);
    const std::vector<Bytes>& files = from.bytes;
    const std::size_t count = offsets.shape(0);
    if (which && which->shape(0) != count) throw nb::value_error("which and offsets differ in length");
    if (!which && count != 0 && files.empty()) throw nb::value_error("no buffers");
    const std::int64_t* const at = offsets.data();
    const std::int32_t* const in = which ? which->data() : nullptr;

    const nb::gil_scoped_release release;
    held.mapped = from.mapped(in, count);
    Joiner joiner(held, join == "plain" ? recordio::Join::plain : recordio::Join::magic, join == "auto");
    const auto number_of = [in](std::size_t i) { return in != nullptr ? static_cast<std::size_t>(in[i]) : 0; };
    held.spans.payloads.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        if (i + headers_ahead < count)
            prefetch_header(files, number_of(i + headers_ahead), static_cast<std::uint64_t>(at[i + headers_ahead]));
        const std::size_t number = number_of(i);
        try {
            if (number >= files.size()) throw FormatError(Fault::range, 0, files.size(), number);
            if (at[i] < 0) throw FormatError(Fault::range, 0, INT64_MAX, static_cast<std::uint64_t>(at[i]));
            const Bytes file = files[number];
            held.spans.payloads[i] =
                joiner.payload(file, recordio::record_at(file, static_cast<std::uint64_t>(at[i])), i);
        } catch (FormatError& error) {
            error.record = static_cast<std::int64_t>(i);
            throw;
        }
    }
    return held;
}

nb::object frame_all(nb::sequence payloads) {
    std::vector<Buffer> buffers;
    std::vector<std::int64_t> starts, sizes;
    std::size_t total = 0;
    for (nb::handle object : payloads) {
        buffers.emplace_back(object);
        const std::size_t size = buffers.back().bytes().size();
        starts.push_back(static_cast<std::int64_t>(total + recordio::header_size));
        sizes.push_back(static_cast<std::int64_t>(size));
        total += recordio::header_size + recordio::padded(size);
    }
    Pool::Block block = batch_pool()->take(total);
    {
        const nb::gil_scoped_release release;
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            const Bytes payload = buffers[i].bytes();
            if (!payload.empty()) std::memcpy(block.data() + starts[i], payload.data(), payload.size());
        }
        (void)recordio::frame({block.data(), total}, starts, sizes);
    }
    return to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {total});
}

} // namespace

void register_recordio(nb::module_& module) {
    module.attr("RECORDIO_MAGIC") = recordio::magic;
    nb::class_<recordio::Walks>(
        module, "RecordIOWalks",
        "What scan_recordio and find_recordio remember of one buffer from call to call, so that a hostile file does "
        "not "
        "make them walk over the same parts for each of many records. Not for several threads at once.")
        .def(nb::init<>())
        .def_prop_ro("looked", &recordio::Walks::looked, "How many parts were looked at.");
    module.def(
        "scan_recordio", guarded(&scan), nb::arg("data"), nb::arg("start"), nb::arg("stop"), nb::kw_only(),
        nb::arg("max_records"), nb::arg("walks").none() = nb::none(),
        nb::sig("def scan_recordio(data: collections.abc.Buffer, start: int, stop: int, *, max_records: int, "
                "walks: RecordIOWalks | "
                "None = None) -> tuple[numpy.typing.NDArray[numpy.int64], int]"),
        "Starts of the records that begin in [start, stop), and where the next one begins. A FormatError has the "
        "starts found before it as `starts`; a wrong magic word directly after the last record is also an error.");
    module.def(
        "find_recordio", guarded([](nb::object data, std::uint64_t start, recordio::Walks* walks) {
            const Buffer buffer(data);
            const nb::gil_scoped_release release;
            return recordio::find(buffer.bytes(), start, walks);
        }),
        nb::arg("data"), nb::arg("start"), nb::arg("walks").none() = nb::none(),
        nb::sig(
            "def find_recordio(data: collections.abc.Buffer, start: int, walks: RecordIOWalks | None = None) -> int"),
        "The first multiple of 4 at or after start where a complete record begins; -1 if there is none.");
    module.def(
        "gather_recordio", guarded(&gather), nb::arg("buffers"), nb::arg("which").none(), nb::arg("offsets"),
        nb::kw_only(), nb::arg("join") = "auto",
        nb::sig("def gather_recordio(buffers: Buffers | list[typing.Any], which: numpy.typing.NDArray[numpy.int32] | "
                "None, offsets: "
                "numpy.typing.NDArray[numpy.int64], *, join: str = 'auto') -> Spans"),
        "Spans over the records that begin at the offsets. Records of several parts are joined with the magic word "
        "between "
        "them ('magic'), without ('plain'), or with it and the other reading kept for the codec to choose ('auto').");
    module.def(
        "frame_recordio",
        [](nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> block, Indices starts, Indices sizes) {
            if (starts.shape(0) != sizes.shape(0)) throw nb::value_error("starts and sizes differ in length");
            const nb::gil_scoped_release release;
            return recordio::frame({reinterpret_cast<std::byte*>(block.data()), block.shape(0)},
                                   {starts.data(), starts.shape(0)}, {sizes.data(), sizes.shape(0)});
        },
        nb::arg("block"), nb::arg("starts"), nb::arg("sizes"),
        nb::sig("def frame_recordio(block: numpy.typing.NDArray[numpy.uint8], starts: "
                "numpy.typing.NDArray[numpy.int64], sizes: "
                "numpy.typing.NDArray[numpy.int64]) -> int"),
        "Frame payloads with 8 bytes before and padding after each, close larger gaps, and return how much of the "
        "block is used.");
    module.def("frame_recordio_payloads", guarded(&frame_all), nb::arg("payloads"),
               nb::sig("def frame_recordio_payloads(payloads: collections.abc.Sequence[collections.abc.Buffer]) -> "
                       "numpy.typing.NDArray[numpy.uint8]"),
               "Complete framed records, concatenated.");
}

} // namespace headrace::bind
