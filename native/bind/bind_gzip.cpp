#include <algorithm>

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

nb::tuple inflate(GzipInflater& inflater, nb::object data, bool last) {
    const Buffer buffer(data);
    std::size_t used = 0;
    {
        const nb::gil_scoped_release release;
        used = inflater.inflate(buffer.bytes(), last);
    }
    return nb::make_tuple(used, copies_of(inflater.parts()));
}

} // namespace

void register_gzip(nb::module_& module) {
    nb::class_<GzipInflater>(module, "GzipInflater", "Inflates a GZIP file of bytes that hardly repeat, stretches of it side by side; refuses others.")
        .def(nb::init<std::size_t, unsigned>(), nb::arg("stretch") = GzipInflater::default_stretch, nb::arg("threads") = 1)
        .def_prop_ro("window", &GzipInflater::window, "How many compressed bytes it takes now: few at first, so that the first bytes come soon.")
        .def_prop_ro("most_window", &GzipInflater::most_window, "How many compressed bytes it will ever take at once.")
        .def_prop_ro("state", [](const GzipInflater& inflater) { return name_of(inflater.state()); }, "'going', 'done' or 'refused'.")
        .def("inflate", &inflate, nb::arg("data"), nb::arg("last"),
             nb::sig("def inflate(self, data: collections.abc.Buffer, last: bool) -> tuple[int, list[bytes]]"),
             "How many of the bytes are used up, and what they inflate to.");
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
