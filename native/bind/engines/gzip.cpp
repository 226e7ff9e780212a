#include <deque>

#include "bind/support.hpp"
#include "core/checksum/crc32.hpp"
#include "core/engines/gzip/parallel.hpp"

namespace headrace::bind {
namespace {

const char* name_of(GzipInflater::State state) {
    return state == GzipInflater::State::going ? "going" : state == GzipInflater::State::done ? "done" : "refused";
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    const Bytes bytes = nb::inst_ptr<GzipInflater::Piece>(self)->bytes;
    return PyBuffer_FillInfo(view, self, const_cast<std::byte*>(bytes.data()), static_cast<Py_ssize_t>(bytes.size()), 1,
                             flags);
}

PyType_Slot piece_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

nb::list views_of(const std::vector<GzipInflater::Piece>& pieces) {
    nb::list views;
    for (const GzipInflater::Piece& piece : pieces) {
        const nb::object holder = nb::cast(piece);
        views.append(nb::steal(PyMemoryView_FromObject(holder.ptr())));
    }
    return views;
}

// Also holds the bytes of parts in progress, which must outlive the threads that read them.
struct HeldInflater {
    HeldInflater(std::size_t stretch, unsigned threads) : inflater(stretch, threads) {}

    void give(nb::object bytes, std::size_t own, bool last) {
        if (!inflater.has_room()) throw nb::value_error("there is no room for another part, or the last one was given");
        data.emplace_back(bytes);
        try {
            inflater.give(data.back().bytes(), own, last);
        } catch (...) {
            data.pop_back();
            throw;
        }
    }

    nb::list take() {
        if (inflater.waiting() == 0) throw nb::value_error("no part was given");
        const std::vector<GzipInflater::Piece>* pieces = nullptr;
        {
            const nb::gil_scoped_release release;
            pieces = &inflater.take();
        }
        data.pop_front();
        return views_of(*pieces);
    }

    std::deque<Buffer> data;
    GzipInflater inflater;
};

} // namespace

void register_gzip(nb::module_& module) {
    // NOLINTNEXTLINE(bugprone-unused-raii): declares the class to Python.
    nb::class_<GzipInflater::Piece>(module, "InflatedPiece", nb::type_slots(piece_slots),
                                    "Inflated bytes, through the buffer protocol: read-only, not copied.");
    nb::class_<HeldInflater>(module, "GzipInflater",
                             "Inflates several stretches of a GZIP file in parallel. Refuses files with many matches.")
        .def(nb::init<std::size_t, unsigned>(), nb::arg("stretch") = GzipInflater::default_stretch,
             nb::arg("threads") = 1)
        .def_prop_ro(
            "own", [](const HeldInflater& held) { return held.inflater.own(); },
            "The number of compressed bytes that the next part owns: few at first, so that the first bytes come soon.")
        .def_prop_ro(
            "most_own", [](const HeldInflater& held) { return held.inflater.most_own(); },
            "The most compressed bytes that a part owns.")
        .def_prop_ro(
            "margin", [](const HeldInflater& held) { return held.inflater.margin(); },
            "The number of bytes that a part needs after its own.")
        .def_prop_ro(
            "most_waiting", [](const HeldInflater& held) { return held.inflater.parts_at_once(); },
            "The most parts that may wait to be taken.")
        .def_prop_ro(
            "waiting", [](const HeldInflater& held) { return held.inflater.waiting(); },
            "The number of parts given and not yet taken.")
        .def_prop_ro(
            "has_room", [](const HeldInflater& held) { return held.inflater.has_room(); },
            "Whether another part may be given.")
        .def_prop_ro(
            "state", [](const HeldInflater& held) { return name_of(held.inflater.state()); },
            "'going', 'done' or 'refused', as far as parts were taken.")
        .def("give", &HeldInflater::give, nb::arg("data"), nb::arg("own"), nb::arg("last"),
             nb::sig("def give(self, data: collections.abc.Buffer, own: int, last: bool) -> None"),
             "Give the next part: its own bytes, which follow those of the previous part, and the margin. They must "
             "not change until the part is taken.")
        .def("take", &HeldInflater::take, nb::sig("def take(self) -> list[memoryview]"),
             "Take the oldest part: views of its inflated bytes.")
        .def_prop_ro(
            "taken_crc", [](const HeldInflater& held) { return held.inflater.taken_crc(); },
            "The CRC-32 of all bytes taken.");
    module.def("crc32", guarded([](nb::object data, std::uint32_t before) {
                   const Buffer buffer(data);
                   const nb::gil_scoped_release release;
                   return crc32(buffer.bytes(), before);
               }),
               nb::arg("data"), nb::arg("before") = 0,
               nb::sig("def crc32(data: collections.abc.Buffer, before: int = 0) -> int"),
               "CRC-32 of the bytes, as GZIP defines it.");
}

} // namespace headrace::bind
