#include <algorithm>
#include <deque>

#include "bind/support.hpp"
#include "core/crc32.hpp"
#include "core/gzip_inflater.hpp"

namespace penstock::bind {
namespace {

constexpr std::size_t most_at_once = std::size_t{1} << 20; // bytes that are handed on together

const char* name_of(GzipInflater::State state) {
    return state == GzipInflater::State::going ? "going" : state == GzipInflater::State::done ? "done" : "refused";
}

nb::list copies_of(const std::vector<Bytes>& parts) {
    nb::list copies;
    std::vector<std::pair<Bytes, char*>> places;
    for (const Bytes part : parts)
        for (std::size_t at = 0; at < part.size(); at += most_at_once) {
            const Bytes piece = part.subspan(at, std::min(most_at_once, part.size() - at));
            const nb::object copy = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(piece.size())));
            if (!copy.is_valid()) throw nb::python_error();
            places.emplace_back(piece, PyBytes_AsString(copy.ptr()));
            copies.append(copy);
        }
    const nb::gil_scoped_release release;
    for (const auto& [piece, place] : places) std::memcpy(place, piece.data(), piece.size());
    return copies;
}

// With the bytes of the parts under way, which outlive the threads that read them.
struct HeldInflater {
    HeldInflater(std::size_t stretch, unsigned threads) : inflater(stretch, threads) {}

    void give(nb::object bytes, std::size_t own, bool last) {
        if (!inflater.has_room()) throw nb::value_error("there is no room for another part, or the last one was given");
        data.emplace_back(bytes);
        inflater.give(data.back().bytes(), own, last);
    }

    nb::list take() {
        if (inflater.waiting() == 0) throw nb::value_error("no part was given");
        const std::vector<Bytes>* parts = nullptr;
        {
            const nb::gil_scoped_release release;
            parts = &inflater.take();
        }
        data.pop_front();
        return copies_of(*parts);
    }

    std::deque<Buffer> data;
    GzipInflater inflater;
};

} // namespace

void register_gzip(nb::module_& module) {
    nb::class_<HeldInflater>(module, "GzipInflater", "Inflates a GZIP file of bytes that hardly repeat, stretches of it side by side; refuses others.")
        .def(nb::init<std::size_t, unsigned>(), nb::arg("stretch") = GzipInflater::default_stretch, nb::arg("threads") = 1)
        .def_prop_ro("own", [](const HeldInflater& held) { return held.inflater.own(); },
                     "How many compressed bytes the next part is to own: few at first, so that the first bytes come soon.")
        .def_prop_ro("most_own", [](const HeldInflater& held) { return held.inflater.most_own(); }, "How many a part is ever to own.")
        .def_prop_ro("margin", [](const HeldInflater& held) { return held.inflater.margin(); }, "How many it is to have behind its own.")
        .def_prop_ro("most_waiting", [](const HeldInflater& held) { return held.inflater.parts_at_once(); }, "How many parts may ever wait to be taken.")
        .def_prop_ro("waiting", [](const HeldInflater& held) { return held.inflater.waiting(); }, "How many parts were given and not taken.")
        .def_prop_ro("has_room", [](const HeldInflater& held) { return held.inflater.has_room(); }, "Whether another part may be given.")
        .def_prop_ro("state", [](const HeldInflater& held) { return name_of(held.inflater.state()); }, "'going', 'done' or 'refused', as of what was taken.")
        .def("give", &HeldInflater::give, nb::arg("data"), nb::arg("own"), nb::arg("last"),
             nb::sig("def give(self, data: collections.abc.Buffer, own: int, last: bool) -> None"),
             "Give the next part: its own bytes, behind those of the part before, and the margin. They must not change until it is taken.")
        .def("take", &HeldInflater::take, nb::sig("def take(self) -> list[bytes]"), "What the oldest part inflates to.");
    module.def(
        "crc32",
        [](nb::object data, std::uint32_t before) {
            const Buffer buffer(data);
            const nb::gil_scoped_release release;
            return crc32(buffer.bytes(), before);
        },
        nb::arg("data"), nb::arg("before") = 0, nb::sig("def crc32(data: collections.abc.Buffer, before: int = 0) -> int"),
        "CRC-32 of the bytes, as GZIP has it.");
}

} // namespace penstock::bind
