#include <algorithm>
#include <cstring>

#include "bind/support.hpp"
#include "core/base/spans.hpp"
#include "core/framing/npy_columns.hpp"
#include "core/framing/npy_header.hpp"

namespace headrace::bind {
namespace {

// NOLINTNEXTLINE(misc-no-recursion): npy::parse limits the depth.
nb::object to_object(const npy::Literal& value) {
    switch (value.kind) {
    case npy::Literal::Kind::text: return nb::str(value.text.data(), value.text.size());
    case npy::Literal::Kind::number: return nb::int_(value.number);
    case npy::Literal::Kind::truth: return nb::bool_(value.number != 0);
    case npy::Literal::Kind::tuple:
    case npy::Literal::Kind::list: break;
    }
    nb::list items;
    for (const npy::Literal& item : value.items) items.append(to_object(item));
    return value.kind == npy::Literal::Kind::tuple ? nb::object(nb::tuple(items)) : nb::object(items);
}

nb::tuple parse_header(nb::object data, std::size_t max_header) {
    const npy::Header header = npy::parse(Buffer(data).bytes(), max_header);
    nb::list shape;
    for (const std::uint64_t length : header.shape) shape.append(length);
    return nb::make_tuple(nb::make_tuple(header.major, header.minor), to_object(header.descr), header.fortran_order,
                          nb::tuple(shape), header.data_offset);
}

void check_swapped(std::size_t swapped, std::size_t row_bytes) {
    const bool is_size = swapped == 0 || swapped == 2 || swapped == 4 || swapped == 8;
    if (!is_size || (swapped != 0 && row_bytes % swapped != 0)) throw nb::value_error("swapped is none of 0, 2, 4, 8");
}

// The rows from `data_offset` on. Throws FormatError{truncated} if the file is shorter.
Rows rows_in(Bytes file, std::size_t data_offset, std::size_t row_bytes, std::size_t n_rows) {
    const std::size_t left = file.size() - std::min(data_offset, file.size());
    if (data_offset > file.size() || (row_bytes != 0 && n_rows > left / row_bytes)) {
        const bool huge = row_bytes != 0 && n_rows > SIZE_MAX / row_bytes;
        throw FormatError(Fault::truncated, data_offset, huge ? SIZE_MAX : n_rows * row_bytes, left);
    }
    return {file.subspan(data_offset, n_rows * row_bytes), row_bytes, n_rows};
}

Pool::Block copy_rows(const Rows& rows, const Indices& indices, std::size_t swapped) {
    const std::size_t count = indices.shape(0);
    if (rows.size != 0 && count > SIZE_MAX / rows.size) throw nb::value_error("more bytes than memory can hold");
    const std::int64_t* const which = indices.data();
    const nb::gil_scoped_release release;
    Pool::Block block = batch_pool()->take(count * rows.size);
    take_rows(rows, {which, count}, block.data(), swapped);
    return block;
}

nb::object take(nb::object data, std::size_t data_offset, std::size_t row_bytes, std::size_t n_rows, Indices indices,
                std::size_t swapped) {
    check_swapped(swapped, row_bytes);
    const Buffer buffer(data);
    Pool::Block block = copy_rows(rows_in(buffer.bytes(), data_offset, row_bytes, n_rows), indices, swapped);
    return to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {indices.shape(0), row_bytes});
}

nb::object take_of_columns(nb::object data, std::size_t data_offset, std::size_t item_bytes, std::size_t n_rows,
                           const Indices& places, const Indices& indices) {
    const std::size_t items = places.shape(0), count = indices.shape(0);
    if (item_bytes == 0 || item_bytes > SIZE_MAX >> 16 || items > (SIZE_MAX >> 16) / item_bytes)
        throw nb::value_error("no row is that large");
    std::vector<std::size_t> order(items);
    for (std::size_t i = 0; i < items; ++i) {
        const auto place = static_cast<std::size_t>(places(i)); // Negative ones become too large.
        if (place >= items) throw nb::value_error("a place outside of a row");
        order[i] = place;
    }
    const Buffer buffer(data);
    const std::size_t row_bytes = items * item_bytes;
    const Rows rows = rows_in(buffer.bytes(), data_offset, row_bytes, n_rows);
    if (row_bytes != 0 && count > SIZE_MAX / row_bytes) throw nb::value_error("more bytes than memory can hold");
    Pool::Block block;
    {
        const nb::gil_scoped_release release;
        block = batch_pool()->take(count * row_bytes);
        npy::take_rows({rows.bytes, item_bytes, n_rows, order}, {indices.data(), count}, block.data());
    }
    return to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {count, row_bytes});
}

// Rows of one file as arrays of one dtype. What is the same in every call is looked up once, because a small batch
// takes little longer than that.
class StoredRows {
  public:
    StoredRows(nb::object data, std::size_t data_offset, std::size_t row_bytes, std::size_t n_rows, nb::object dtype,
               nb::tuple row_shape)
        : buffer_(data),
          rows_(rows_in(buffer_.bytes(), data_offset, row_bytes, n_rows)),
          file_(MappedFile::find(buffer_.bytes().data()).file),
          dtype_(std::move(dtype)),
          row_shape_(std::move(row_shape)) {
        auto size = nb::cast<std::size_t>(dtype_.attr("itemsize"));
        for (const nb::handle length : row_shape_) size *= nb::cast<std::size_t>(length);
        if (size != row_bytes || row_bytes == 0) throw nb::value_error("rows of another size");
    }

    [[nodiscard]] nb::object take(Indices indices) const {
        if (GuardedRead* const guard = GuardedRead::current()) guard->touch(file_);
        Pool::Block block = copy_rows(rows_, indices, 0);
        return to_numpy(std::move(block), indices.shape(0), rows_.size, row_shape_, dtype_);
    }

    [[nodiscard]] nb::dict batch(Indices indices) const { return named(take(std::move(indices))); }

    [[nodiscard]] nb::dict run(std::size_t first, std::size_t stop) const {
        if (first > stop || stop > rows_.count) throw nb::index_error("there are fewer rows");
        if (GuardedRead* const guard = GuardedRead::current()) guard->touch(file_);
        const Bytes bytes = rows_.bytes.subspan(first * rows_.size, (stop - first) * rows_.size);
        Pool::Block block;
        {
            const nb::gil_scoped_release release;
            block = batch_pool()->take(bytes.size());
            if (!bytes.empty()) std::memcpy(block.data(), bytes.data(), bytes.size());
        }
        return named(to_numpy(std::move(block), stop - first, rows_.size, row_shape_, dtype_));
    }

  private:
    [[nodiscard]] nb::dict named(const nb::object& rows) const {
        nb::dict columns;
        columns[name_] = rows;
        return columns;
    }

    Buffer buffer_;
    Rows rows_;
    nb::str name_{"values"};
    const MappedFile* file_;
    nb::object dtype_;
    nb::tuple row_shape_;
};

nb::object take_at(nb::object buffers, std::optional<Which> which, Indices offsets, std::size_t size,
                   std::size_t swapped) {
    check_swapped(swapped, size);
    const nb::object held = hold_buffers(std::move(buffers));
    const std::vector<Bytes>& files = nb::cast<const HeldBuffers&>(held).bytes;
    const std::size_t count = offsets.shape(0);
    if (which && which->shape(0) != count) throw nb::value_error("which and offsets differ in length");
    if (size != 0 && count > SIZE_MAX / size) throw nb::value_error("more bytes than memory can hold");
    Pool::Block block;
    (void)nb::cast<const HeldBuffers&>(held).mapped(which ? which->data() : nullptr, count);
    {
        const std::int32_t* const in = which ? which->data() : nullptr;
        const std::int64_t* const at = offsets.data();
        const nb::gil_scoped_release release;
        block = batch_pool()->take(count * size);
        take_ranges(files, in, {at, count}, size, block.data(), swapped);
    }
    return to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {count, size});
}

// Rows of several files of equal rows: row r of file k is at begins[k] + r * size.
nb::object take_of_parts(nb::object buffers, Indices firsts, Indices begins, std::size_t size, Indices rows,
                         std::size_t swapped) {
    check_swapped(swapped, size);
    const nb::object held = hold_buffers(std::move(buffers));
    const std::vector<Bytes>& files = nb::cast<const HeldBuffers&>(held).bytes;
    const std::size_t count = rows.shape(0);
    if (begins.shape(0) != files.size() || firsts.shape(0) != files.size() + 1)
        throw nb::value_error("buffers, firsts and begins do not match");
    if (size != 0 && count > SIZE_MAX / size) throw nb::value_error("more bytes than memory can hold");
    std::vector<std::int32_t> which(count);
    std::vector<std::int64_t> offsets(count);
    find_parts({firsts.data(), firsts.shape(0)}, {rows.data(), count}, which.data());
    for (std::size_t i = 0; i < count; ++i) {
        const auto file = static_cast<std::size_t>(which[i]);
        if (file >= files.size()) continue;
        const auto row = static_cast<std::uint64_t>(rows.data()[i] - firsts.data()[file]);
        offsets[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(begins.data()[file]) + row * size);
    }
    Pool::Block block;
    (void)nb::cast<const HeldBuffers&>(held).mapped(which.data(), count);
    {
        const nb::gil_scoped_release release;
        block = batch_pool()->take(count * size);
        take_ranges(files, which.data(), offsets, size, block.data(), swapped);
    }
    return to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {count, size});
}

} // namespace

void register_npy(nb::module_& module) {
    module.def("parse_npy_header", guarded(&parse_header), nb::arg("data"), nb::arg("max_header") = 10000,
               nb::sig("def parse_npy_header(data: collections.abc.Buffer, max_header: int = 10000) -> "
                       "tuple[tuple[int, int], typing.Any, bool, tuple[int, ...], int]"),
               "Version, descr, fortran_order, shape and data offset of the .npy file with this beginning.");
    module.def(
        "take_rows", guarded(&take), nb::arg("data"), nb::arg("data_offset"), nb::arg("row_bytes"), nb::arg("n_rows"),
        nb::arg("indices"), nb::arg("swapped") = 0,
        nb::sig("def take_rows(data: collections.abc.Buffer, data_offset: int, row_bytes: int, n_rows: int, indices: "
                "numpy.typing.NDArray[numpy.int64], swapped: int = 0) -> numpy.typing.NDArray[numpy.uint8]"),
        "Rows by index, copied into uint8 (n, row_bytes). The bytes of each number of `swapped` bytes are reversed.");
    module.def(
        "take_rows_of_columns", guarded(&take_of_columns), nb::arg("data"), nb::arg("data_offset"),
        nb::arg("item_bytes"), nb::arg("n_rows"), nb::arg("places"), nb::arg("indices"),
        nb::sig(
            "def take_rows_of_columns(data: collections.abc.Buffer, data_offset: int, item_bytes: int, n_rows: int, "
            "places: numpy.typing.NDArray[numpy.int64], indices: numpy.typing.NDArray[numpy.int64]) -> "
            "numpy.typing.NDArray[numpy.uint8]"),
        "Rows by index of an array in Fortran order, copied into uint8 (n, row_bytes). `places` says where in a row "
        "the item of each column goes.");
    nb::class_<StoredRows>(module, "StoredRows", "Rows of equal size, from `data_offset` of `data` on, as arrays.")
        .def(nb::init<nb::object, std::size_t, std::size_t, std::size_t, nb::object, nb::tuple>(), nb::arg("data"),
             nb::arg("data_offset"), nb::arg("row_bytes"), nb::arg("n_rows"), nb::arg("dtype"), nb::arg("row_shape"),
             nb::sig("def __init__(self, data: collections.abc.Buffer, data_offset: int, row_bytes: int, n_rows: int, "
                     "dtype: numpy.dtype[typing.Any], row_shape: tuple[int, ...]) -> None"))
        .def("take", guarded([](const StoredRows& rows, Indices indices) { return rows.take(std::move(indices)); }),
             nb::arg("indices"),
             nb::sig("def take(self, indices: numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[typing.Any]"),
             "Rows by index, copied into an array (n, *row_shape) of the dtype.")
        .def("batch", guarded([](const StoredRows& rows, Indices indices) { return rows.batch(std::move(indices)); }),
             nb::arg("indices"),
             nb::sig("def batch(self, indices: numpy.typing.NDArray[numpy.int64]) -> dict[str, typing.Any]"),
             "The same as the only feature of a batch, `values`.")
        .def("run",
             guarded([](const StoredRows& rows, std::size_t first, std::size_t stop) { return rows.run(first, stop); }),
             nb::arg("first"), nb::arg("stop"),
             nb::sig("def run(self, first: int, stop: int) -> dict[str, typing.Any]"),
             "The rows from first to stop as such a batch. IndexError: there are fewer.");
    module.def(
        "take_ranges", guarded(&take_at), nb::arg("buffers"), nb::arg("which").none(), nb::arg("offsets"),
        nb::arg("size"), nb::arg("swapped") = 0,
        nb::sig("def take_ranges(buffers: Buffers | list[typing.Any], which: numpy.typing.NDArray[numpy.int32] | None, "
                "offsets: "
                "numpy.typing.NDArray[numpy.int64], size: int, swapped: int = 0) -> numpy.typing.NDArray[numpy.uint8]"),
        "`size` bytes from each offset of buffers[which[i]] (None: all of the first), copied into uint8 (n, size).");
    module.def(
        "take_of_parts", guarded(&take_of_parts), nb::arg("buffers"), nb::arg("firsts"), nb::arg("begins"),
        nb::arg("size"), nb::arg("rows"), nb::arg("swapped") = 0,
        nb::sig("def take_of_parts(buffers: Buffers | list[typing.Any], firsts: "
                "numpy.typing.NDArray[numpy.int64], begins: numpy.typing.NDArray[numpy.int64], size: int, "
                "rows: numpy.typing.NDArray[numpy.int64], swapped: int = 0) -> numpy.typing.NDArray[numpy.uint8]"),
        "Rows of `size` bytes, copied into uint8 (n, size). Buffer k holds rows firsts[k] up to firsts[k + 1], "
        "end to end from begins[k] on.");
}

} // namespace headrace::bind
