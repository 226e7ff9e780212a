#include "core/framing/tfrecord.hpp"
#include "bind/support.hpp"

namespace headrace::bind {
namespace {

nb::tuple scan(nb::object data, std::uint64_t start, std::uint64_t stop, bool verify, std::size_t max_records) {
    const Buffer buffer(data);
    tfrecord::Scan found;
    {
        const nb::gil_scoped_release release;
        found = tfrecord::scan(buffer.bytes(), start, stop, verify, max_records);
    }
    return scanned(found);
}

HeldSpans gather(nb::object buffers, std::optional<Which> which, Indices offsets, bool verify) {
    HeldSpans held;
    held.parent = hold_buffers(std::move(buffers));
    const auto& from = nb::cast<const HeldBuffers&>(held.parent);
    const std::vector<Bytes>& files = from.bytes;
    const std::size_t count = offsets.shape(0);
    if (which && which->shape(0) != count) throw nb::value_error("which and offsets differ in length");
    if (!which && count != 0 && files.empty()) throw nb::value_error("no buffers");
    const std::span<const std::int64_t> wanted(offsets.data(), count);
    const std::span<const std::int32_t> in = which ? std::span(which->data(), count) : std::span<const std::int32_t>{};

    const nb::gil_scoped_release release;
    held.mapped = from.mapped(which ? which->data() : nullptr, count);
    held.spans.seal = verify ? Seal::tfrecord : Seal::none;
    held.spans.payloads =
        tfrecord::gather(files, in, wanted, verify ? tfrecord::Checks::lengths : tfrecord::Checks::bounds);
    return held;
}

nb::object frame_all(nb::sequence payloads) {
    std::vector<Buffer> buffers;
    std::vector<std::int64_t> starts, sizes;
    buffers.reserve(nb::len(payloads));
    std::size_t total = 0;
    for (nb::handle object : payloads) {
        buffers.emplace_back(object);
        const std::size_t size = buffers.back().bytes().size();
        starts.push_back(static_cast<std::int64_t>(total + tfrecord::header_size));
        sizes.push_back(static_cast<std::int64_t>(size));
        total += size + tfrecord::overhead;
    }
    Pool::Block block = batch_pool()->take(total);
    {
        const nb::gil_scoped_release release;
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            const Bytes payload = buffers[i].bytes();
            if (!payload.empty()) std::memcpy(block.data() + starts[i], payload.data(), payload.size());
        }
        tfrecord::frame({block.data(), total}, starts, sizes);
    }
    return to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {total});
}

} // namespace

void register_tfrecord(nb::module_& module) {
    module.def("scan_tfrecord", guarded(&scan), nb::arg("data"), nb::arg("start"), nb::arg("stop"), nb::kw_only(),
               nb::arg("verify"), nb::arg("max_records"),
               nb::sig("def scan_tfrecord(data: collections.abc.Buffer, start: int, stop: int, *, verify: bool, "
                       "max_records: int) -> "
                       "tuple[numpy.typing.NDArray[numpy.int64], int]"),
               "Starts of the records that begin in [start, stop), and where the next one begins. A FormatError has "
               "the starts found before it as `starts`.");
    nb::class_<tfrecord::Patience>(
        module, "Patience",
        "The number of bytes that may still be checksummed without finding a record: 64 times the buffer at first. It "
        "bounds the work that a hostile file can cause. Not thread-safe.")
        .def(
            "__init__",
            [](tfrecord::Patience* self, std::uint64_t size) {
                new (self) tfrecord::Patience(tfrecord::Patience::of(size));
            },
            nb::arg("size"))
        .def_ro("left", &tfrecord::Patience::left)
        .def("spend", &tfrecord::Patience::spend, nb::arg("bytes"));
    module.def(
        "find_tfrecord", guarded([](nb::object data, std::uint64_t start, tfrecord::Patience* patience) {
            const Buffer buffer(data);
            const nb::gil_scoped_release release;
            return tfrecord::find(buffer.bytes(), start, patience);
        }),
        nb::arg("data"), nb::arg("start"), nb::arg("patience").none() = nb::none(),
        nb::sig("def find_tfrecord(data: collections.abc.Buffer, start: int, patience: Patience | None = None) -> int"),
        "The first offset at or after start where a complete, intact record begins; -1 if there is none.");
    module.def("gather_tfrecord", guarded(&gather), nb::arg("buffers"), nb::arg("which").none(), nb::arg("offsets"),
               nb::kw_only(), nb::arg("verify"),
               nb::sig("def gather_tfrecord(buffers: Buffers | list[typing.Any], which: "
                       "numpy.typing.NDArray[numpy.int32] | None, offsets: "
                       "numpy.typing.NDArray[numpy.int64], *, verify: bool) -> Spans"),
               "Spans over the records that begin at the offsets. Reading a payload checks its checksum.");
    module.def(
        "frame_tfrecord",
        [](nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> block, Indices starts, Indices sizes) {
            if (starts.shape(0) != sizes.shape(0)) throw nb::value_error("starts and sizes differ in length");
            const nb::gil_scoped_release release;
            tfrecord::frame({reinterpret_cast<std::byte*>(block.data()), block.shape(0)},
                            {starts.data(), starts.shape(0)}, {sizes.data(), sizes.shape(0)});
        },
        nb::arg("block"), nb::arg("starts"), nb::arg("sizes"),
        nb::sig("def frame_tfrecord(block: numpy.typing.NDArray[numpy.uint8], starts: "
                "numpy.typing.NDArray[numpy.int64], sizes: "
                "numpy.typing.NDArray[numpy.int64]) -> None"),
        "Fill in the 12 bytes before and the 4 after each payload, in place.");
    module.def("frame_tfrecords", guarded(&frame_all), nb::arg("payloads"),
               nb::sig("def frame_tfrecords(payloads: collections.abc.Sequence[collections.abc.Buffer]) -> "
                       "numpy.typing.NDArray[numpy.uint8]"),
               "Complete framed records, concatenated.");
}

} // namespace headrace::bind
