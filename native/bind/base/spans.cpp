#include "bind/support.hpp"
#include "core/text/strings.hpp"

namespace headrace::bind {
namespace {

// A memoryview of the Spans object's bytes, which keeps that object alive.
nb::object view_of(nb::handle owner, Bytes payload, const MappedFile* file) {
    if (nb::object copy = copy_of_mapped(payload, file)) return copy;
    const std::size_t shape[1] = {payload.size()};
    nb::object array =
        nb::cast(nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(payload.data(), 1, shape, owner));
    return nb::steal(PyMemoryView_FromObject(array.ptr()));
}

nb::object to_bytes(const HeldSpans& self) {
    const std::size_t count = self.spans.payloads.size();
    nb::object out = nb::steal(PyList_New(static_cast<Py_ssize_t>(count)));
    if (!out) throw nb::python_error();
    if (self.wanted) nb::cast<BytesWanted&>(self.wanted).note();
    for (std::size_t i = 0; i < count; ++i) {
        self.spans.check(i);
        const Bytes payload = self.spans.payloads[i];
        nb::object item =
            i < self.whole.size() && self.whole[i] ? self.whole[i] : nb::bytes(payload.data(), payload.size());
        if (PyList_SetItem(out.ptr(), static_cast<Py_ssize_t>(i), item.release().ptr()) != 0) throw nb::python_error();
    }
    return out;
}

nb::tuple to_strings(const HeldSpans& self) {
    StringBlocks blocks;
    {
        const nb::gil_scoped_release release;
        PayloadReader reader(self.spans);
        for (std::size_t i = 0; i < self.spans.payloads.size(); ++i) reader.read(i);
        blocks = join_values(self.spans.payloads, batch_pool());
    }
    const std::size_t size = blocks.size, count = blocks.count;
    return nb::make_tuple(to_numpy(std::move(blocks.data), nb::dtype<std::uint8_t>(), {size}),
                          to_numpy(std::move(blocks.offsets), nb::dtype<std::int64_t>(), {count + 1}));
}

} // namespace

void register_spans(nb::module_& module) {
    nb::class_<HeldBuffers>(module, "Buffers",
                            "Buffers from which many calls take records. This object keeps them alive.")
        .def(nb::init<nb::sequence>(), nb::arg("buffers"),
             nb::sig("def __init__(self, buffers: collections.abc.Sequence[collections.abc.Buffer]) -> None"))
        .def("__len__", [](const HeldBuffers& self) { return self.bytes.size(); })
        .def(
            "join",
            [](nb::handle self) -> nb::object {
                auto found = HeldBuffers::join(self);
                if (!found) return nb::none();
                const std::size_t count = found->second.size(), bytes = count * sizeof(std::int64_t);
                Pool::Block offsets = batch_pool()->take(bytes);
                std::memcpy(offsets.data(), found->second.data(), bytes);
                return nb::make_tuple(std::move(found->first),
                                      to_numpy(std::move(offsets), nb::dtype<std::int64_t>(), {count}));
            },
            nb::sig("def join(self) -> tuple[Buffers, numpy.typing.NDArray[numpy.int64]] | None"),
            "One buffer that holds all of these, and where each begins in it, if they are whole mapped files on "
            "adjacent pages. None if they are not.");
    nb::class_<HeldSpans>(module, "Spans", "The payloads of some records, in the order they were asked for.")
        .def("__len__", [](const HeldSpans& self) { return self.spans.payloads.size(); })
        .def("view", guarded([](nb::handle self, std::size_t index) {
                 const auto& held = nb::cast<const HeldSpans&>(self);
                 if (index >= held.spans.payloads.size()) throw nb::index_error("no such record in these spans");
                 const Bytes payload = held.spans.payloads[index];
                 const MappedFile* const file =
                     held.mapped.empty() ? nullptr : GuardedRead::current()->touch(payload.data());
                 held.spans.check(index);
                 return view_of(self, payload, file);
             }),
             nb::arg("index"), nb::sig("def view(self, index: int) -> memoryview"),
             "Payload `index` as a read-only view that keeps these spans alive; its checksum is checked first.")
        .def("to_bytes", guarded(&to_bytes), nb::sig("def to_bytes(self) -> list[bytes]"),
             "Every payload, copied unless it is a bytes object already; checksums are checked.")
        .def("to_strings", guarded(&to_strings),
             nb::sig("def to_strings(self) -> tuple[numpy.typing.NDArray[numpy.uint8], "
                     "numpy.typing.NDArray[numpy.int64]]"),
             "Every payload, copied end to end, and where each begins and the last ends; checksums are checked.")
        .def(
            "part",
            [](nb::handle self, std::size_t start, std::size_t stop) {
                const auto& whole = nb::cast<const HeldSpans&>(self).spans;
                if (start > stop || stop > whole.payloads.size()) throw nb::index_error("part of spans out of range");
                HeldSpans held;
                held.spans.seal = whole.seal;
                held.spans.payloads.assign(whole.payloads.begin() + static_cast<std::ptrdiff_t>(start),
                                           whole.payloads.begin() + static_cast<std::ptrdiff_t>(stop));
                for (const Alternative& other : whole.alternatives)
                    if (start <= other.record && other.record < stop)
                        held.spans.alternatives.push_back({other.record - start, other.payload});
                held.parent = nb::borrow(self);
                held.mapped = nb::cast<const HeldSpans&>(self).mapped;
                return held;
            },
            nb::arg("start"), nb::arg("stop"), nb::sig("def part(self, start: int, stop: int) -> Spans"),
            "Records from `start` to `stop`, over the same bytes.")
        .def_prop_ro(
            "total_bytes",
            [](const HeldSpans& self) {
                std::size_t total = 0;
                for (const Bytes& payload : self.spans.payloads) total += payload.size();
                return total;
            },
            "Sum of the payload sizes, in bytes.");
    module.def(
        "spans_of_buffers",
        [](nb::sequence buffers) {
            HeldSpans held;
            held.parent = hold_buffers(std::move(buffers));
            const auto& all = nb::cast<const HeldBuffers&>(held.parent);
            held.spans.payloads = all.bytes;
            if (all.has_files) add_files(held.mapped, all.files);
            std::erase(held.mapped, nullptr);
            return held;
        },
        nb::arg("buffers"),
        nb::sig("def spans_of_buffers(buffers: collections.abc.Sequence[collections.abc.Buffer]) -> Spans"),
        "Spans over whole buffers, one record each, without a copy.");
}

} // namespace headrace::bind
