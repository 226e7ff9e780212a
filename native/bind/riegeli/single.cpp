#include <algorithm>

#include "bind/support.hpp"
#include "core/riegeli/single.hpp"

namespace headrace::bind {
namespace {

using riegeli::Single;

// New bytes objects, not yet visible to other code, so they can be filled without the GIL.
std::vector<nb::object> make_bytes(std::span<Single> singles) {
    std::vector<nb::object> made;
    made.reserve(singles.size());
    std::size_t total = 0;
    for (const Single& single : singles) total += single.header.decoded_size;
    keep_heap(total);
    for (Single& single : singles) {
        const std::size_t size = single.header.decoded_size;
        made.push_back(nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size))));
        if (!made.back()) throw nb::python_error();
        single.target = {reinterpret_cast<std::byte*>(PyBytes_AsString(made.back().ptr())), size};
    }
    return made;
}

// Contiguous room for all records.
Pool::Block take_room(std::span<Single> singles) {
    std::size_t total = 0;
    for (const Single& single : singles) total += single.header.decoded_size;
    Pool::Block block = batch_pool()->take(total);
    std::byte* to = block.data();
    for (Single& single : singles) {
        single.target = {to, single.header.decoded_size};
        to += single.header.decoded_size;
    }
    return block;
}

// Chunks of one record each.
struct Singles {
    std::vector<Single> of;
    std::vector<std::size_t> places; // Their indices among the requested chunks.
    std::vector<std::int64_t> left;  // Requested chunks that are not of this kind.

    Singles(const std::vector<Bytes>& files, const std::int32_t* which, std::span<const std::int64_t> begins,
            unsigned threads) {
        of.reserve(begins.size());
        for (std::size_t i = 0; i < begins.size(); ++i) {
            const auto file = which == nullptr ? 0 : static_cast<std::size_t>(which[i]);
            if (file >= files.size()) throw nb::index_error("no such buffer");
            of.push_back({files[file], static_cast<std::uint64_t>(begins[i])});
        }
        riegeli::read_single_headers(of, threads);
        places.reserve(of.size());
        for (std::size_t i = 0; i < of.size(); ++i) {
            if (of[i].header.num_records == 0) {
                left.push_back(static_cast<std::int64_t>(i));
                continue;
            }
            if (!left.empty()) of[places.size()] = of[i];
            places.push_back(i);
        }
        of.resize(places.size(), {{}, 0});
    }
};

nb::object numbers_of(const std::vector<std::int64_t>& numbers) {
    if (numbers.empty()) return nb::none();
    Pool::Block block = batch_pool()->take(numbers.size() * sizeof(std::int64_t));
    std::memcpy(block.data(), numbers.data(), numbers.size() * sizeof(std::int64_t));
    return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {numbers.size()});
}

nb::tuple gather_singles(nb::object buffers, std::optional<Which> which, Indices begins, bool verify, unsigned threads,
                         nb::handle_t<BytesWanted> wanted) {
    const std::size_t count = begins.shape(0);
    if (which && which->shape(0) != count) throw nb::value_error("which and begins differ in length");
    HeldSpans held;
    held.parent = hold_buffers(std::move(buffers));
    held.mapped = nb::cast<const HeldBuffers&>(held.parent).mapped(which ? which->data() : nullptr, count);
    std::optional<Singles> singles;
    {
        const std::vector<Bytes>& files = nb::cast<const HeldBuffers&>(held.parent).bytes;
        const nb::gil_scoped_release release;
        singles.emplace(files, which ? which->data() : nullptr, std::span{begins.data(), count}, threads);
    }
    std::vector<nb::object> made;
    if (nb::cast<BytesWanted&>(wanted).take()) made = make_bytes(singles->of);
    else held.blocks.push_back(take_room(singles->of));
    {
        const nb::gil_scoped_release release;
        riegeli::read_singles(singles->of, verify, threads);
    }
    held.spans.payloads.resize(count);
    if (!made.empty()) held.whole.resize(count);
    bool is_unpacked = false;
    for (std::size_t k = 0; k < singles->of.size(); ++k) {
        const Single& single = singles->of[k];
        const std::size_t i = singles->places[k];
        held.spans.payloads[i] = single.record;
        if (!single.done) singles->left.push_back(static_cast<std::int64_t>(i));
        if (!single.done || single.record.data() != single.target.data()) continue;
        is_unpacked = true;
        if (!made.empty()) held.whole[i] = std::move(made[k]);
    }
    if (is_unpacked) held.wanted = nb::borrow(wanted); // All other records have to be copied anyway.
    std::ranges::sort(singles->left);
    return nb::make_tuple(std::move(held), numbers_of(singles->left));
}

// A record that is stored as it is becomes a view of the data.
nb::object read_single(nb::object data, std::int64_t begin, bool verify) {
    const Buffer buffer(data);
    Single single{buffer.bytes(), static_cast<std::uint64_t>(begin)};
    {
        const nb::gil_scoped_release release;
        riegeli::read_single_headers({&single, 1}, 1);
    }
    if (!riegeli::is_usual(single)) return nb::none();
    const std::vector<nb::object> made = make_bytes({&single, 1});
    {
        const nb::gil_scoped_release release;
        riegeli::read_singles({&single, 1}, verify, 1);
    }
    if (!single.done) return nb::none();
    nb::object view;
    if (single.record.data() == single.target.data()) {
        view = nb::steal(PyMemoryView_FromObject(made[0].ptr()));
    } else {
        if (nb::object copy = copy_of_mapped(single.record, buffer.mapped())) return copy;
        const nb::object whole = nb::steal(PyMemoryView_FromObject(data.ptr()));
        if (!whole) throw nb::python_error();
        const auto at = single.record.data() - buffer.bytes().data();
        view = whole[nb::slice(at, at + static_cast<std::ptrdiff_t>(single.record.size()))];
    }
    if (!view) throw nb::python_error();
    return view;
}

} // namespace

void register_riegeli_single(nb::module_& module) {
    nb::class_<BytesWanted>(module, "BytesWanted", "Whether the records of a reader are made into bytes objects.")
        .def(nb::init<>());
    module.def("gather_singles", guarded(&gather_singles), nb::arg("buffers"), nb::arg("which").none(),
               nb::arg("begins"), nb::kw_only(), nb::arg("verify"), nb::arg("threads"), nb::arg("bytes_wanted"),
               nb::sig("def gather_singles(buffers: Buffers | list[typing.Any], which: "
                       "numpy.typing.NDArray[numpy.int32] | None, begins: "
                       "numpy.typing.NDArray[numpy.int64], *, verify: bool, threads: int, bytes_wanted: BytesWanted) "
                       "-> tuple[Spans, "
                       "numpy.typing.NDArray[numpy.int64] | None]"),
               "The records of chunks of one record each, which begin at these offsets, and the numbers of the chunks "
               "that must be opened instead: damaged ones, those with another number of records or more than 16 MiB, "
               "and those of unusual kinds. Works with up to `threads` threads. With `bytes_wanted`, records are "
               "decoded into bytes objects.");
    module.def(
        "read_single", guarded(&read_single), nb::arg("data"), nb::arg("begin"), nb::kw_only(), nb::arg("verify"),
        nb::sig("def read_single(data: collections.abc.Buffer, begin: int, *, verify: bool) -> memoryview | None"),
        "The record of a chunk of one record, which begins at this offset; nothing if the chunk must be opened "
        "instead. See `gather_singles`.");
}

} // namespace headrace::bind
