#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bind/support.hpp"
#include "core/base/spans.hpp"

namespace headrace::bind {
namespace {

/// A contiguous array whose rows are copied.
struct Column {
    explicit Column(nb::handle array) : buffer(array), dtype(array.attr("dtype")) {
        if (nb::cast<bool>(dtype.attr("hasobject"))) throw nb::type_error("objects are not copied");
        nb::list lengths;
        const auto shape = nb::cast<nb::tuple>(array.attr("shape"));
        if (nb::len(shape) == 0) throw nb::value_error("an array without axes has no rows");
        rows.count = nb::cast<std::size_t>(shape[0]);
        rows.size = nb::cast<std::size_t>(dtype.attr("itemsize"));
        for (std::size_t axis = 1; axis < nb::len(shape); ++axis) {
            const auto length = nb::cast<std::size_t>(shape[axis]);
            if (length != 0 && rows.size > SIZE_MAX / length) throw nb::value_error("rows are too large");
            rows.size *= length;
            lengths.append(shape[axis]);
        }
        inner = nb::tuple(lengths);
        rows.bytes = buffer.bytes();
        if (rows.size != 0 && rows.bytes.size() / rows.size < rows.count) throw nb::value_error("an array changed");
    }

    Buffer buffer;
    Rows rows;
    nb::object dtype;
    nb::tuple inner; ///< The shape of a row.
};

/// Arrays whose rows are copied together. NumPy releases the GIL for each array of 500 numbers or more, and two threads
/// that copy many of them wait for each other most of the time. Here it is released once, and not at all for a few
/// bytes.
class Columns {
  public:
    explicit Columns(nb::sequence arrays) {
        for (nb::handle array : arrays) columns_.emplace_back(array);
    }
    Columns(Columns&&) = default;
    Columns(const Columns&) = delete;
    Columns& operator=(const Columns&) = delete;
    ~Columns() = default;

    [[nodiscard]] nb::list copy(std::size_t first, std::size_t stop) const {
        if (first > stop) throw nb::value_error("the first row is behind the last one");
        for (const Column& column : columns_)
            if (stop > column.rows.count) throw nb::index_error("there are fewer rows");
        return made(stop - first, [=](const Rows& rows, std::byte* out) {
            const std::size_t bytes = (stop - first) * rows.size;
            if (bytes != 0) std::memcpy(out, rows.bytes.data() + first * rows.size, bytes);
        });
    }

    [[nodiscard]] nb::list pick(const Indices& indices) const {
        const std::span<const std::int64_t> wanted(indices.data(), indices.shape(0));
        return made(wanted.size(), [=](const Rows& rows, std::byte* out) { take_rows(rows, wanted, out); });
    }

  private:
    /// Arrays of `count` rows, by `write(rows, out)`.
    template <typename Write> [[nodiscard]] nb::list made(std::size_t count, const Write& write) const {
        constexpr std::size_t few_bytes = 32 << 10;
        std::vector<Pool::Block> blocks;
        blocks.reserve(columns_.size());
        std::size_t total = 0;
        for (const Column& column : columns_) {
            if (column.rows.size != 0 && count > most_bytes / column.rows.size) throw nb::value_error("too many rows");
            blocks.push_back(batch_pool()->take(count * column.rows.size));
            total += count * column.rows.size;
        }
        {
            std::optional<nb::gil_scoped_release> release;
            if (total > few_bytes) release.emplace();
            for (std::size_t i = 0; i < columns_.size(); ++i) write(columns_[i].rows, blocks[i].data());
        }
        nb::list arrays;
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            const Column& column = columns_[i];
            arrays.append(to_numpy(std::move(blocks[i]), count, column.rows.size, column.inner, column.dtype));
        }
        return arrays;
    }

    static constexpr std::size_t most_bytes = SIZE_MAX >> 16; // So that their sum fits, too.
    std::vector<Column> columns_;
};

} // namespace

void register_copies(nb::module_& module) {
    nb::class_<Columns>(module, "Columns",
                        "Contiguous arrays of numbers, whose rows are copied together. They must not change.")
        .def(nb::init<nb::sequence>(), nb::arg("arrays"),
             nb::sig("def __init__(self, arrays: "
                     "collections.abc.Sequence[numpy.typing.NDArray[typing.Any]]) -> None"))
        .def("copy", guarded([](const Columns& columns, std::size_t first, std::size_t stop) {
                 return columns.copy(first, stop);
             }),
             nb::arg("first"), nb::arg("stop"),
             nb::sig("def copy(self, first: int, stop: int) -> list[numpy.typing.NDArray[typing.Any]]"),
             "The rows from first to stop of each array. IndexError: one has fewer.")
        .def("pick", guarded([](const Columns& columns, const Indices& indices) { return columns.pick(indices); }),
             nb::arg("indices"),
             nb::sig("def pick(self, indices: numpy.typing.NDArray[numpy.int64]) -> "
                     "list[numpy.typing.NDArray[typing.Any]]"),
             "The rows at these indices of each array. FormatError: one is out of range.");
}

} // namespace headrace::bind
