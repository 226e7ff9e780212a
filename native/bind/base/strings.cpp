#include <optional>
#include <span>
#include <utility>

#include "bind/support.hpp"
#include "core/text/strings.hpp"

namespace headrace::bind {
namespace {

/// Arguments of a call, held. The offsets stay with their owner: every read of one is checked.
struct HeldStrings {
    HeldStrings(nb::handle data, const Indices& offsets)
        : buffer(data),
          view{buffer.bytes(), {offsets.data(), offsets.shape(0)}} {
        if (offsets.shape(0) == 0) throw nb::value_error("offsets are one more than there are values");
        if (GuardedRead* const guard = GuardedRead::current())
            (void)guard->touch(reinterpret_cast<const std::byte*>(offsets.data()));
    }

    Buffer buffer;
    StringsView view;
};

nb::tuple arrays_of(StringBlocks blocks) {
    const std::size_t size = blocks.size, count = blocks.count;
    return nb::make_tuple(to_numpy(std::move(blocks.data), nb::dtype<std::uint8_t>(), {size}),
                          to_numpy(std::move(blocks.offsets), nb::dtype<std::int64_t>(), {count + 1}));
}

std::int64_t number_of(std::optional<std::size_t> found) { return found ? static_cast<std::int64_t>(*found) : -1; }

nb::tuple check(nb::object data, Indices offsets, bool is_text) {
    const HeldStrings strings(data, offsets);
    std::optional<std::size_t> outside, bad;
    {
        const nb::gil_scoped_release release;
        outside = first_outside(strings.view.offsets, strings.view.data.size());
        if (!outside && is_text) bad = first_not_utf8(strings.view);
    }
    return nb::make_tuple(number_of(outside), number_of(bad));
}

/// Whether offsets divide values into rows.
bool divide(nb::object given, std::uint64_t size) {
    Indices offsets;
    if (!nb::try_cast(given, offsets, false) || offsets.shape(0) == 0) return false;
    if (GuardedRead* const guard = GuardedRead::current())
        (void)guard->touch(reinterpret_cast<const std::byte*>(offsets.data()));
    const std::span<const std::int64_t> all{offsets.data(), offsets.shape(0)};
    if (all.front() != 0 || std::cmp_not_equal(all.back(), size)) return false;
    return !first_outside(all, size);
}

nb::tuple take(nb::object data, Indices offsets, Indices indices) {
    const HeldStrings strings(data, offsets);
    StringBlocks taken;
    {
        const std::span<const std::int64_t> wanted{indices.data(), indices.shape(0)};
        const nb::gil_scoped_release release;
        taken = take_strings(strings.view, wanted, batch_pool());
    }
    return arrays_of(std::move(taken));
}

template <typename T, typename Fill> nb::object filled(std::size_t count, Fill&& fill) {
    Pool::Block block;
    {
        const nb::gil_scoped_release release;
        block = batch_pool()->take(count * sizeof(T));
        fill(std::span<T>(reinterpret_cast<T*>(block.data()), count));
    }
    return to_numpy(std::move(block), nb::dtype<T>(), {count});
}

nb::object compare(nb::object data, Indices offsets, nb::object other_data, Indices other_offsets) {
    const HeldStrings strings(data, offsets), other(other_data, other_offsets);
    if (strings.view.count() != other.view.count()) throw nb::value_error("columns of different lengths");
    return filled<bool>(strings.view.count(),
                        [&](std::span<bool> out) { compare_strings(strings.view, other.view, out); });
}

nb::object compare_value(nb::object data, Indices offsets, nb::object value) {
    const HeldStrings strings(data, offsets);
    const Buffer wanted(value);
    return filled<bool>(strings.view.count(),
                        [&](std::span<bool> out) { compare_strings(strings.view, wanted.bytes(), out); });
}

nb::object hash(nb::object data, Indices offsets, std::uint64_t buckets, std::uint64_t seed) {
    const HeldStrings strings(data, offsets);
    if (buckets == 0) throw nb::value_error("buckets are at least 1");
    return filled<std::int64_t>(strings.view.count(),
                                [&](std::span<std::int64_t> out) { hash_strings(strings.view, seed, buckets, out); });
}

nb::list to_list(nb::object data, Indices offsets, bool is_text) {
    const HeldStrings strings(data, offsets);
    nb::list out;
    for (std::size_t k = 0; k < strings.view.count(); ++k) {
        const Bytes value = strings.view.at(k);
        const char* const from = reinterpret_cast<const char*>(value.data());
        const auto size = static_cast<Py_ssize_t>(value.size());
        PyObject* const made = is_text ? PyUnicode_DecodeUTF8(size == 0 ? "" : from, size, nullptr)
                                       : PyBytes_FromStringAndSize(size == 0 ? "" : from, size);
        if (made == nullptr) throw nb::python_error();
        out.append(nb::steal(made));
    }
    return out;
}

/// The bytes of a value from Python, valid while it lives. Nothing if it is neither text nor bytes, or text that UTF-8
/// cannot express (a lone surrogate).
std::optional<Bytes> bytes_of(PyObject* value, std::vector<Buffer>& held) {
    if (PyUnicode_Check(value)) {
        Py_ssize_t size = 0;
        const char* const text = PyUnicode_AsUTF8AndSize(value, &size);
        if (text == nullptr) {
            if (!PyErr_ExceptionMatches(PyExc_UnicodeError)) throw nb::python_error();
            PyErr_Clear();
            return std::nullopt;
        }
        return Bytes{reinterpret_cast<const std::byte*>(text), static_cast<std::size_t>(size)};
    }
    if (PyBytes_Check(value) || PyByteArray_Check(value)) {
        held.clear(); // One at a time: each is copied before the next.
        return held.emplace_back(value).bytes();
    }
    return std::nullopt;
}

nb::tuple from_list(nb::list values, bool is_text) {
    const std::size_t count = nb::len(values);
    StringsBuilder builder(batch_pool(), count, count * 8);
    std::vector<Buffer> held;
    std::int64_t bad = -1;
    for (std::size_t k = 0; k < count && k < nb::len(values); ++k) {
        const nb::object value = values[k]; // Held, because converting it may run other threads.
        const std::optional<Bytes> found = bytes_of(value.ptr(), held);
        if (!found) {
            bad = static_cast<std::int64_t>(k);
            break;
        }
        builder.add(*found);
    }
    StringBlocks blocks = builder.finish();
    if (bad < 0 && is_text) bad = number_of(first_not_utf8(blocks.view()));
    nb::tuple arrays = arrays_of(std::move(blocks));
    return nb::make_tuple(arrays[0], arrays[1], bad);
}

#define STRINGS "data: numpy.typing.NDArray[numpy.uint8], offsets: numpy.typing.NDArray[numpy.int64]"

} // namespace

void register_strings(nb::module_& module) {
    module.def("check_strings", guarded(&check), nb::arg("data"), nb::arg("offsets"), nb::arg("is_text"),
               nb::sig("def check_strings(" STRINGS ", is_text: bool) -> tuple[int, int]"),
               "The first value with decreasing or out-of-range offsets, and the first that is not UTF-8; -1 if there "
               "is none.");
    module.def("are_offsets", guarded(&divide), nb::arg("offsets").none(), nb::arg("size"),
               nb::sig("def are_offsets(offsets: typing.Any, size: int) -> bool"),
               "Whether these are contiguous int64 in host memory that run from 0 to `size` and never fall.");
    module.def("take_strings", guarded(&take), nb::arg("data"), nb::arg("offsets"), nb::arg("indices"),
               nb::sig("def take_strings(" STRINGS ", indices: numpy.typing.NDArray[numpy.int64]) -> "
                       "tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64]]"),
               "Data and offsets of the values at these indices, copied. Negative indices count from the end.");
    module.def("compare_strings", guarded(&compare), nb::arg("data"), nb::arg("offsets"), nb::arg("other_data"),
               nb::arg("other_offsets"),
               nb::sig("def compare_strings(" STRINGS ", other_data: numpy.typing.NDArray[numpy.uint8], other_offsets: "
                       "numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[numpy.bool_]"),
               "For each value whether it equals the other one.");
    module.def("compare_strings_with", guarded(&compare_value), nb::arg("data"), nb::arg("offsets"), nb::arg("value"),
               nb::sig("def compare_strings_with(" STRINGS ", value: bytes) -> numpy.typing.NDArray[numpy.bool_]"),
               "For each value whether it equals `value`.");
    module.def("hash_strings", guarded(&hash), nb::arg("data"), nb::arg("offsets"), nb::arg("buckets"), nb::arg("seed"),
               nb::sig("def hash_strings(" STRINGS ", buckets: int, seed: int) -> numpy.typing.NDArray[numpy.int64]"),
               "XXH64 of each value with this seed, modulo `buckets`.");
    module.def("list_strings", guarded(&to_list), nb::arg("data"), nb::arg("offsets"), nb::arg("is_text"),
               nb::sig("def list_strings(" STRINGS ", is_text: bool) -> list[typing.Any]"),
               "The values as a list of str or bytes.");
    module.def(
        "make_strings", guarded(&from_list), nb::arg("values"), nb::arg("is_text"),
        nb::sig("def make_strings(values: list[typing.Any], is_text: bool) -> "
                "tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64], int]"),
        "Data and offsets of a list of str, bytes or bytearray, and the position of the first value that is none "
        "of these, or not UTF-8 where text is wanted; -1: none.");
}

} // namespace headrace::bind
